"""A training that is frozen while the library that reports on it goes on reporting."""
# verdict: end
# stuck: a lock is not released
# at: monitored.py:stuck here

import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "site-packages"))
import wandb

wandb.init()
lock = threading.Lock()
lock.acquire()
print("epoch 1", flush=True)
lock.acquire()  # stuck here
