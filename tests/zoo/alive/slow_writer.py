"""Writes a few bytes to a file of its own every half second, and closes it each time."""

import os
import pathlib
import time

end = time.monotonic() + float(os.environ.get("ZOO_SECONDS", "8"))
notes = pathlib.Path(os.environ.get("GPULANE_OUT", "."), "notes.txt")
while time.monotonic() < end:
    time.sleep(0.5)
    with notes.open("a") as file:
        file.write("step\n")
print("alive")
