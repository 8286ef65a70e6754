"""As a compilation: a burst of child processes, then a quiet wait for the last of them, and again; then output."""

import os
import subprocess
import sys
import time

SECONDS = float(os.environ.get("ZOO_SECONDS", "8"))
end = time.monotonic() + SECONDS
while time.monotonic() < end:
    burst = [subprocess.Popen([sys.executable, "-c", "sum(range(10 ** 6))"]) for _ in range(4)]
    for each in burst:
        each.wait()
    subprocess.run(["sleep", str(SECONDS / 4)], check=True)
print("alive")
