"""Pauses until a signal comes; an alarm sends it when its time has come."""

import os
import signal

signal.signal(signal.SIGALRM, lambda *_: None)
signal.alarm(int(float(os.environ.get("ZOO_SECONDS", "8"))))
signal.pause()
print("alive")
