"""Is stopped, as a debugger or a person does, for longer than the limit, and continued by another process."""

import os
import signal
import subprocess
import time

seconds = os.environ.get("ZOO_SECONDS", "8")
begun = time.monotonic()
helper = subprocess.Popen(["sh", "-c", f"sleep {seconds}; kill -CONT {os.getpid()}"])
os.kill(os.getpid(), signal.SIGSTOP)
helper.wait()
assert time.monotonic() - begun >= float(seconds), "it was stopped"
print("alive")
