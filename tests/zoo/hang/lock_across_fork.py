"""A process with threads forks while one of them holds a lock: in the child nobody is left to release it."""
# verdict: end
# stuck: was forked
# at: lock_across_fork.py:stuck here

import os
import threading

cache = threading.Lock()
held, forked = threading.Event(), threading.Event()


def load():
    with cache:
        held.set()
        forked.wait()


loader = threading.Thread(target=load)
loader.start()
held.wait()
print("forking", flush=True)
child = os.fork()
if child == 0:
    with cache:  # stuck here
        os._exit(0)
forked.set()
loader.join()
os.waitpid(child, 0)
