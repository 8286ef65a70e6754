"""Sleeps for 2 s and works for 10 ms, again and again: half a percent of a core, and yet all its work."""

import os
import time

end = time.monotonic() + float(os.environ.get("ZOO_SECONDS", "8"))
while time.monotonic() < end:
    time.sleep(2)
    begun = time.process_time()
    while time.process_time() - begun < 0.01:
        pass
print("alive")
