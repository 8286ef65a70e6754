"""Waits for an item of a queue that nobody fills, while a thread logs a metric: it might be the one that fills it."""
# verdict: tell
# stuck: queue
# at: heartbeat_logs.py:stuck here

import queue
import threading
import time

import gpulane


def beat():
    while True:
        gpulane.log(alive=1)
        time.sleep(0.3)


threading.Thread(target=beat, daemon=True).start()
print("waiting for batches", flush=True)
queue.Queue().get()  # stuck here
