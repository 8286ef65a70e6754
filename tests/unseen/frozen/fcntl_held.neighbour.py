"""Outside of the job `fcntl_held`: the process it waits for."""

import fcntl, os, time

tmp = os.environ["UNSEEN_TMP"]
f = open(os.path.join(tmp, "index.bin"), "w+b")
fcntl.lockf(f, fcntl.LOCK_EX)
open(os.path.join(tmp, "index.ready"), "w").close()
while True:
    time.sleep(60)
