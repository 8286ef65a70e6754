"""A thread looks at a stuck child's memory by the clock, and kills it in the end: the parent, in wait(), goes on then."""

import os
import subprocess
import sys
import threading
import time

end = time.monotonic() + float(os.environ.get("ZOO_SECONDS", "8"))
child = subprocess.Popen([sys.executable, "-c", "import threading; threading.Event().wait()"])


def guard():
    while time.monotonic() < end:
        with open(f"/proc/{child.pid}/statm") as statm:
            statm.read()
        time.sleep(0.5)
    child.kill()


threading.Thread(target=guard, daemon=True).start()
assert child.wait() == -9
print("alive")
