"""Blocks in flock() until the preprocessing of another process has released the dataset lock."""
import fcntl, os, time

tmp = os.environ["UNSEEN_TMP"]
while not os.path.exists(os.path.join(tmp, "held")):
    time.sleep(0.05)
f = open(os.path.join(tmp, "dataset.lock"), "w")
open(os.path.join(tmp, "asked"), "w").close()
fcntl.flock(f, fcntl.LOCK_EX)
print("alive")
