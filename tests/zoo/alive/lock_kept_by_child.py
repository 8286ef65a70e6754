"""The lock of a file belongs to the open file, which a child has too: the child gives it back when its work is done."""

import fcntl
import os
import tempfile
import time

with tempfile.NamedTemporaryFile() as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    if os.fork() == 0:
        time.sleep(float(os.environ.get("ZOO_SECONDS", "8")))
        fcntl.flock(file, fcntl.LOCK_UN)
        os._exit(0)
    with open(file.name) as again:
        fcntl.flock(again, fcntl.LOCK_EX)
    os.wait()
print("alive")
