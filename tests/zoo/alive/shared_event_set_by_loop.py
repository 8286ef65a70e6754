"""A child waits for an event in shared memory; the main loop, which asks a queue again and again, sets it in one of its turns."""

import multiprocessing
import os
import queue
import time


def work(event, results):
    event.wait()
    results.put("done")


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    event, results = context.Event(), context.Queue()
    child = context.Process(target=work, args=(event, results))
    child.start()
    begun = time.monotonic()
    while True:
        try:
            assert results.get(timeout=0.4) == "done"
            break
        except queue.Empty:
            if time.monotonic() - begun > float(os.environ.get("ZOO_SECONDS", "8")):
                event.set()
    child.join()
    print("alive")
