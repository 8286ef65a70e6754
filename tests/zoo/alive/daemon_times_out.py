"""A time limit as busybox sets it: a process that left the session and its parent sleeps, and then ends what its starter waits for."""

import os
import subprocess
import sys
import time

STUCK = "import threading; threading.Event().wait()"
stuck = subprocess.Popen([sys.executable, "-c", STUCK], stdout=subprocess.PIPE)
first = os.fork()
if first == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.closerange(0, 64)
    time.sleep(float(os.environ.get("ZOO_SECONDS", "8")))
    os.kill(stuck.pid, 15)
    os._exit(0)
os.waitpid(first, 0)
assert stuck.communicate() == (b"", None)
print("alive")
