"""Polls for a soft lock file of the model cache that a crashed run has left behind."""
import hashlib, os, time

cache = os.path.join(os.environ["UNSEEN_TMP"], "cache")
while not os.path.exists(os.path.join(cache, "index")):
    time.sleep(0.05)
key = hashlib.sha256(b"model" * 100000).hexdigest()[:12]
print("loading model", key, "from cache", flush=True)
lock = os.path.join(cache, "model.bin.lock")
while True:
    try:
        fd = os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        break
    except FileExistsError:
        time.sleep(0.5)
os.write(fd, str(os.getpid()).encode())
os.close(fd)
os.unlink(lock)
print("loaded")
