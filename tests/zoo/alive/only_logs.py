"""Does next to nothing but log its metrics."""

import os
import time

import gpulane

end = time.monotonic() + float(os.environ.get("ZOO_SECONDS", "8"))
step = 0
while time.monotonic() < end:
    time.sleep(0.5)
    step += 1
    gpulane.log(step=step, loss=1 / step)
print("alive")
