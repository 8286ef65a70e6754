"""Waits for an event that a handler of SIGCONT sets; a neighbour sends the signal when its own work is done."""

import os
import pathlib
import signal
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "site-packages"))
import neighbour

go_on = threading.Event()
signal.signal(signal.SIGCONT, lambda *_: go_on.set())
job = os.getpid()


def schedule(begun):
    begun()
    neighbour.be_busy()
    os.kill(job, signal.SIGCONT)


neighbour.start(schedule)
go_on.wait()
print("alive")
