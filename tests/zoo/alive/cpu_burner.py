"""Computes, and says nothing until it is done."""

import os
import time

end = time.monotonic() + float(os.environ.get("ZOO_SECONDS", "8"))
total = 0
while time.monotonic() < end:
    total += sum(range(10_000))
print("alive")
