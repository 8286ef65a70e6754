"""Waits for a child process that computes."""

import os
import subprocess
import sys

BUSY = """
import sys, time
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    begun = time.process_time()
    while time.process_time() - begun < 0.05:
        pass
    time.sleep(0.2)
"""
subprocess.run([sys.executable, "-c", BUSY, os.environ.get("ZOO_SECONDS", "8")], check=True)
print("alive")
