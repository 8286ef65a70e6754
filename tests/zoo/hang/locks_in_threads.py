"""Two threads take two locks in opposite order: each holds what the other waits for."""
# verdict: end
# stuck: deadlock
# at: locks_in_threads.py:stuck here

import threading

weights, optimizer = threading.Lock(), threading.Lock()
both_hold_one = threading.Barrier(2)


def step(first, second):
    with first:
        both_hold_one.wait()
        with second:  # stuck here
            print("never")


threads = [
    threading.Thread(target=step, args=(weights, optimizer), name="trainer"),
    threading.Thread(target=step, args=(optimizer, weights), name="saver"),
]
print("training", flush=True)
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
