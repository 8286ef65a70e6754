"""A process sleeps once and then kills the child that is waited for, which is stuck."""

import os
import subprocess
import sys

STUCK = "import threading; threading.Event().wait()"
GUARD = "import os, sys, time; time.sleep(float(sys.argv[1])); os.kill(int(sys.argv[2]), 15)"
stuck = subprocess.Popen([sys.executable, "-c", STUCK])
seconds = os.environ.get("ZOO_SECONDS", "8")
guard = subprocess.Popen([sys.executable, "-c", GUARD, seconds, str(stuck.pid)])
assert stuck.wait() == -15
assert guard.wait() == 0
print("alive")
