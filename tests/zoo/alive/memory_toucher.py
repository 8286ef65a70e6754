"""Touches fresh memory a little at a time: page faults are all that can be seen of it."""

import mmap
import os
import time

end = time.monotonic() + float(os.environ.get("ZOO_SECONDS", "8"))
memory = mmap.mmap(-1, 1 << 28)
at = 0
while time.monotonic() < end:
    time.sleep(0.1)
    for _ in range(128):
        memory[at % len(memory)] = 1
        at += mmap.PAGESIZE
print("alive")
