"""The main thread is at its end, but Python waits for a thread that is no daemon and never ends."""
# verdict: end
# stuck: not a daemon
# at: thread_at_exit.py:stuck here

import queue
import threading

uploads = queue.Queue()


def upload():
    while True:
        uploads.get()  # stuck here


threading.Thread(target=upload, name="uploader").start()
print("trained; exiting", flush=True)
