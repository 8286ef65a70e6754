"""As a DataLoader does: the main loop asks its queue again and again, while all its workers wait for a lock for ever."""
# verdict: end
# stuck: shared between processes is not released | worker
# at: loader_polls.py:stuck here

import multiprocessing
import queue


def load(lock, batches):
    with lock:  # stuck here
        batches.put(1)


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    lock, batches = context.Lock(), context.Queue()
    lock.acquire()
    workers = [context.Process(target=load, args=(lock, batches), daemon=True) for _ in range(2)]
    for worker in workers:
        worker.start()
    print("epoch 1", flush=True)
    while all(worker.is_alive() for worker in workers):
        try:
            batches.get(timeout=0.4)
        except queue.Empty:
            continue
