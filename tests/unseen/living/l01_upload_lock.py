"""Trainer that must not overwrite a checkpoint while the uploader thread is busy with it."""
import os, threading, time

SECONDS = float(os.environ.get("UNSEEN_SECONDS", "15"))
ckpt_lock = threading.Lock()
started = threading.Event()


def upload():
    with ckpt_lock:
        started.set()
        time.sleep(SECONDS)            # the bucket allows one request per interval


def save(step):
    with ckpt_lock:
        return step


t = threading.Thread(target=upload)
t.start()
started.wait()
save(100)
t.join()
print("alive")
