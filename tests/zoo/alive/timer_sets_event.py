"""The main thread waits without a limit for an event that a timer, another thread, will set when its time has come."""

import os
import threading

over = threading.Event()
threading.Timer(float(os.environ.get("ZOO_SECONDS", "8")), over.set).start()
over.wait()
print("alive")
