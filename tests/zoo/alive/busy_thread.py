"""Waits for a thread that computes."""

import os
import threading
import time

END = time.monotonic() + float(os.environ.get("ZOO_SECONDS", "8"))


def compute():
    while time.monotonic() < END:
        begun = time.thread_time()
        while time.thread_time() - begun < 0.05:
            pass
        time.sleep(0.2)


thread = threading.Thread(target=compute)
thread.start()
thread.join()
print("alive")
