"""Waits for a signal that an interval timer sends when its time has come."""

import os
import signal

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
signal.setitimer(signal.ITIMER_REAL, float(os.environ.get("ZOO_SECONDS", "8")))
assert signal.sigwait({signal.SIGALRM}) == signal.SIGALRM
print("alive")
