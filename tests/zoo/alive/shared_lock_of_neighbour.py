"""Waits for a lock in shared memory that a living neighbour holds and gives back when its work is done."""

import multiprocessing
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "site-packages"))
import neighbour

lock = multiprocessing.get_context("fork").Lock()


def compile_kernels(begun):
    lock.acquire()
    begun()
    neighbour.be_busy()
    lock.release()


neighbour.start(compile_kernels)
with lock:
    print("alive")
