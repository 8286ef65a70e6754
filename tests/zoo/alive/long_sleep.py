"""One sleep, longer than the limit: it waits by the clock and will wake by itself."""

import os
import time

time.sleep(float(os.environ.get("ZOO_SECONDS", "8")))
print("alive")
