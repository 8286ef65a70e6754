"""Every worker of a thread pool waits for another task of the same pool, beside a thread that keeps a log."""
# verdict: tell
# stuck: every worker of the pool
# at: pool_waits_for_itself.py:stuck here

import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

pool = ThreadPoolExecutor(2)


def log():
    with tempfile.TemporaryFile("w") as file:
        while True:
            file.write("still there\n")
            file.flush()
            time.sleep(0.3)


def shard(number):
    time.sleep(0.3)
    return pool.submit(abs, number).result()  # stuck here


threading.Thread(target=log, daemon=True).start()
print("tokenizing", flush=True)
print(sum(pool.map(shard, range(4))))
