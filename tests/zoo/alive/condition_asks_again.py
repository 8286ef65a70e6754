"""Waits for a condition with a time limit, again and again; a thread that sleeps by the clock fulfils it at last."""

import os
import threading
import time

ready = threading.Condition()
batches = []


def load():
    time.sleep(float(os.environ.get("ZOO_SECONDS", "8")))
    with ready:
        batches.append(1)
        ready.notify()


threading.Thread(target=load, daemon=True).start()
with ready:
    while not ready.wait_for(lambda: batches, timeout=0.7):
        pass
print("alive")
