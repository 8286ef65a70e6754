"""The job is done, but a daemon it started (forked twice, with a session of its own) lives on and holds its stdout."""
# expect: processes_left
# stuck: held stdout

import os
import signal
import time

ready, tell = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.write(tell, b"!")
        while True:
            time.sleep(3600)
    os._exit(0)
os.wait()
os.read(ready, 1)
print("trained", flush=True)
