"""Blocking flock() on the shared cache; another job outside holds it for now."""
import fcntl, os, time
TMP = os.environ["UNSEEN_TMP"]
while not os.path.exists(TMP + "/held"):
    time.sleep(0.1)
f = open(TMP + "/cache.lock", "a")
print("waiting for the cache lock", flush=True)
open(TMP + "/arrived", "w").close()
fcntl.flock(f, fcntl.LOCK_EX)
print("alive")
