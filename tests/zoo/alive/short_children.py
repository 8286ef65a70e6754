"""Starts one short-lived child after the other."""

import os
import subprocess
import time

end = time.monotonic() + float(os.environ.get("ZOO_SECONDS", "8"))
while time.monotonic() < end:
    subprocess.run(["sleep", "0.3"], check=True)
print("alive")
