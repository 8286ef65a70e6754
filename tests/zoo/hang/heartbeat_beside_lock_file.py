"""Asks again and again whether a lock file is gone that a killed build has left, while a thread beats a heartbeat."""
# verdict: tell
# stuck: sleeping
# at: heartbeat_beside_lock_file.py:stuck here

import os
import pathlib
import tempfile
import threading
import time

folder = tempfile.mkdtemp()
lock = pathlib.Path(folder, "lock")
lock.touch()


def beat():
    while True:
        pathlib.Path(folder, "heartbeat").write_text("beat\n")
        time.sleep(0.3)


threading.Thread(target=beat, daemon=True).start()
print("building the extension", flush=True)
while os.path.exists(lock):
    time.sleep(0.1)  # stuck here
