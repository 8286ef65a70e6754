"""A loop of the program's own asks a queue again and again and never looks whether the workers live: they are dead.

Told only: such a loop may have a deadline of its own, which cannot be seen.
"""
# verdict: tell
# stuck: nobody puts
# at: loader_dead_workers.py:stuck here

import multiprocessing
import os
import queue


def load(batches):
    os._exit(1)


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    batches = context.Queue()
    worker = context.Process(target=load, args=(batches,))
    worker.start()
    worker.join()
    print("epoch 1", flush=True)
    while True:
        try:
            batches.get(timeout=0.4)  # stuck here
        except queue.Empty:
            continue
