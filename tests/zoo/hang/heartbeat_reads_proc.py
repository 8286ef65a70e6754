"""Two threads own an RLock each and wait for that of the other, while a monitor reads /proc: whose lock is whose can be seen."""
# verdict: end
# stuck: deadlock | rlock
# at: heartbeat_reads_proc.py:stuck here

import pathlib
import threading
import time


def watch():
    while True:
        pathlib.Path("/proc/self/statm").read_text()
        pathlib.Path("/proc/self/stat").read_text()
        time.sleep(0.3)


def step(first, second):
    with first:
        both_hold_one.wait()
        with second:  # stuck here
            print("never")


both_hold_one = threading.Barrier(2)
weights, optimizer = threading.RLock(), threading.RLock()
threading.Thread(target=watch, daemon=True).start()
threads = [
    threading.Thread(target=step, args=(weights, optimizer)),
    threading.Thread(target=step, args=(optimizer, weights)),
]
print("training", flush=True)
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
