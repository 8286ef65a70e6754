"""The main thread waits without a timeout for a thread that sleeps by the clock."""

import os
import threading
import time

thread = threading.Thread(target=time.sleep, args=(float(os.environ.get("ZOO_SECONDS", "8")),))
thread.start()
thread.join()
print("alive")
