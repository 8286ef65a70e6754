"""Works for a fraction of a millisecond, a hundred times a second: 2% of a core, and nothing else to be seen."""

import os
import time

end = time.monotonic() + float(os.environ.get("ZOO_SECONDS", "8"))
while time.monotonic() < end:
    begun = time.perf_counter()
    while time.perf_counter() - begun < 0.0002:
        pass
    time.sleep(0.01)
print("alive")
