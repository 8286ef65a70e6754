"""Takes a lock twice, and will not hear SIGTERM either."""
# verdict: end
# stuck: lock is not released
# at: ignores_term.py:stuck here

import signal
import threading

signal.signal(signal.SIGTERM, signal.SIG_IGN)
registry = threading.Lock()


def lookup():
    with registry:  # stuck here
        return 1


print("registering", flush=True)
with registry:
    lookup()
