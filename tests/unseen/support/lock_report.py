"""Another nightly job, that keeps the report locked: argv[1] 'forever' or 'timed'."""
import fcntl
import os
import sys
import time

tmp = os.environ["UNSEEN_TMP"]
seconds = float(os.environ.get("UNSEEN_SECONDS", "15"))
f = open(os.path.join(tmp, "report.csv"), "a")
fcntl.flock(f, fcntl.LOCK_EX)
open(os.path.join(tmp, "report.ready"), "w").close()
if sys.argv[1] == "timed":
    time.sleep(seconds)
    fcntl.flock(f, fcntl.LOCK_UN)
while True:
    time.sleep(3600)
