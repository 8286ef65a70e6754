"""A process that left the session and its parent computes, and ends the stuck child in the end that its starter waits for."""

import os
import subprocess
import sys
import time

STUCK = "import threading; threading.Event().wait()"
stuck = subprocess.Popen([sys.executable, "-c", STUCK])
first = os.fork()
if first == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    end = time.monotonic() + float(os.environ.get("ZOO_SECONDS", "8"))
    while time.monotonic() < end:
        begun = time.process_time()
        while time.process_time() - begun < 0.05:
            pass
        time.sleep(0.2)
    os.kill(stuck.pid, 15)
    os._exit(0)
os.waitpid(first, 0)
assert stuck.wait() == -15
print("alive")
