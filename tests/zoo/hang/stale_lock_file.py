"""An earlier build was killed and left its lock file: this one waits, asking ten times a second, for ever."""
# stuck: sleeping
# verdict: tell
# at: stale_lock_file.py:stuck here

import os
import pathlib
import tempfile
import time

with tempfile.TemporaryDirectory() as build:
    lock = pathlib.Path(build, "lock")
    lock.touch()
    print("building the extension", flush=True)
    while os.path.exists(lock):
        time.sleep(0.1)  # stuck here
