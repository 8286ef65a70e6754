"""The only worker of a queue died of an error, so the queue is never worked off."""
# verdict: end
# stuck: worker died
# at: queue_join_dead_worker.py:stuck here

import queue
import threading

work = queue.Queue()


def worker():
    while True:
        path = work.get()
        raise OSError(f"{path}: truncated image")


threading.Thread(target=worker, daemon=True).start()
for number in range(10):
    work.put(f"{number}.jpg")
print("decoding", flush=True)
work.join()  # stuck here
