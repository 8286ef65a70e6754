"""A DataLoader asks the queue of its workers again and again, while all of them wait for a lock for ever."""
# verdict: end
# stuck: shared between processes is not released | worker
# at: loader_polls.py:stuck here

import multiprocessing
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "site-packages"))
from torch.utils.data import dataloader


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
    next(dataloader._MultiProcessingDataLoaderIter(batches, workers))
