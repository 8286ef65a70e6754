"""A child waits for a semaphore between processes; the main loop, which polls a connection, releases it in one of its turns."""

import multiprocessing
import os
import time


def work(slot, connection):
    slot.acquire()
    connection.send("done")


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    slot = context.Semaphore(0)
    ours, theirs = context.Pipe()
    child = context.Process(target=work, args=(slot, theirs))
    child.start()
    end = time.monotonic() + float(os.environ.get("ZOO_SECONDS", "8"))
    released = False
    while not ours.poll(0.4):
        if time.monotonic() > end and not released:
            slot.release()
            released = True
    assert ours.recv() == "done"
    child.join()
    print("alive")
