"""Collects results until a deadline of its own and ends its worker then, which waits for an event that nobody sets."""

import multiprocessing
import os
import queue
import threading
import time


def work(results):
    threading.Event().wait()


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=work, args=(results,))
    child.start()
    end = time.monotonic() + float(os.environ.get("ZOO_SECONDS", "8"))
    while time.monotonic() < end:
        try:
            results.get(timeout=0.4)
        except queue.Empty:
            pass
    child.terminate()
    child.join()
    print("alive")
