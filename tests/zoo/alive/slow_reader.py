"""Reads a large file, a little every half second."""

import os
import tempfile
import time

end = time.monotonic() + float(os.environ.get("ZOO_SECONDS", "8"))
with tempfile.TemporaryFile(buffering=0) as data:
    data.truncate(1 << 30)
    while time.monotonic() < end:
        time.sleep(0.5)
        data.read(1 << 14)
print("alive")
