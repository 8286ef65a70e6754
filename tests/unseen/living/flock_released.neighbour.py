"""Outside of the job `flock_released`: the process it waits for."""

import fcntl, os, time

tmp = os.environ["UNSEEN_TMP"]
f = open(os.path.join(tmp, "dataset.lock"), "w")
fcntl.flock(f, fcntl.LOCK_EX)
open(os.path.join(tmp, "held"), "w").close()
while not os.path.exists(os.path.join(tmp, "asked")):
    time.sleep(0.1)
time.sleep(float(os.environ.get("UNSEEN_SECONDS", "15")))
fcntl.flock(f, fcntl.LOCK_UN)
while True:
    time.sleep(60)
