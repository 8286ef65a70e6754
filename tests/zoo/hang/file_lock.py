"""Waits for a lock on a file of the cache that another process holds and never gives back."""
# verdict: end
# stuck: lock of a file
# at: file_lock.py:stuck here

import fcntl
import tempfile

with tempfile.NamedTemporaryFile() as cache, open(cache.name) as again:
    fcntl.flock(cache, fcntl.LOCK_EX)
    print("downloading to the cache", flush=True)
    fcntl.flock(again, fcntl.LOCK_EX)  # stuck here
