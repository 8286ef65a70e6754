"""Frozen in a lock of its own, while a thread beats a heartbeat into a file: whether that thread would release the lock cannot be known."""
# verdict: tell
# stuck: a lock is not released | lock
# at: heartbeat_writes_file.py:stuck here

import pathlib
import tempfile
import threading
import time

folder = tempfile.mkdtemp()


def beat():
    count = 0
    while True:
        count += 1
        pathlib.Path(folder, "heartbeat").write_text(f"{count % 10}\n")
        time.sleep(0.3)


threading.Thread(target=beat, daemon=True).start()
registry = threading.Lock()
registry.acquire()
print("training", flush=True)
registry.acquire()  # stuck here
