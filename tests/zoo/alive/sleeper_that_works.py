"""Sleeps, and wakes every second to work for 30 ms."""

import os
import time

end = time.monotonic() + float(os.environ.get("ZOO_SECONDS", "8"))
while time.monotonic() < end:
    time.sleep(1)
    begun = time.process_time()
    while time.process_time() - begun < 0.03:
        pass
print("alive")
