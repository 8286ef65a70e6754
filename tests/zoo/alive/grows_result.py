"""Has begun its result file and goes on writing to it, a little at a time: it is not done because the file is there."""
# result: model.pt

import os
import pathlib
import time

end = time.monotonic() + float(os.environ.get("ZOO_SECONDS", "8"))
with pathlib.Path(os.environ.get("GPULANE_OUT", "."), "model.pt").open("wb", buffering=0) as result:
    while time.monotonic() < end:
        result.write(b"weights")
        time.sleep(0.2)
print("alive")
