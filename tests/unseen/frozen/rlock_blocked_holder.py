"""Model registry guarded by an RLock; the updater holds it while waiting for a queue the main thread fills."""
import logging, os, queue, tempfile, threading, time

TMP = os.environ.get("UNSEEN_TMP") or tempfile.mkdtemp()
logging.basicConfig(filename=os.path.join(TMP, "train.log"), level=logging.INFO)


class Registry:
    def __init__(self):
        self.lock, self.updates, self.version = threading.RLock(), queue.Queue(), 0

    def updater(self):
        while True:
            with self.lock:
                delta = self.updates.get()      # waits with the lock held
                self.version += delta

    def push(self, d):
        with self.lock:
            self.updates.put(d)


def alive():
    while True:
        logging.info("still training, %s", open("/proc/uptime").read().strip())
        time.sleep(1)


r = Registry()
r.updates.put(1)
threading.Thread(target=alive, daemon=True).start()
threading.Thread(target=r.updater, daemon=True).start()
time.sleep(0.5)
print("version", r.version, flush=True)
print("frozen soon", flush=True)
r.push(2)
print("pushed")
