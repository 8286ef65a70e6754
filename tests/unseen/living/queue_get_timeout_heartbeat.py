"""Consumer of a queue with timeouts; a monitor thread samples /proc every second into a file."""
import os, queue, tempfile, threading, time
S = float(os.environ.get("UNSEEN_SECONDS", 15))
TMP = os.environ.get("UNSEEN_TMP") or tempfile.mkdtemp()
q = queue.Queue()


def monitor():
    while True:
        with open(os.path.join(TMP, "mem.csv"), "a") as f:
            f.write(open("/proc/self/statm").read())
        time.sleep(1)


threading.Thread(target=monitor, daemon=True).start()
print("waiting for late samples", flush=True)
try:
    q.get(timeout=S)
except queue.Empty:
    print("alive")
