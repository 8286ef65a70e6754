"""A function registered for the exit waits for something that no longer comes."""
# verdict: end
# stuck: called at exit
# at: atexit_never_returns.py:stuck here

import atexit
import threading

synced = threading.Event()


@atexit.register
def finish_logging():
    synced.wait()  # stuck here


print("trained; exiting", flush=True)
