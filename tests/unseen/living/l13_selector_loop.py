"""Event loop of a small job broker: select with a short timeout, closes after a quiet period."""
import os, selectors, socket, threading, time

SECONDS = float(os.environ.get("UNSEEN_SECONDS", "15"))
TMP = os.environ["UNSEEN_TMP"]


def progress():
    n = 0
    while True:
        n += 1
        with open(os.path.join(TMP, "broker.log"), "a") as f:
            f.write("tick %d, open files %d\n" % (n, len(os.listdir("/proc/self/fd"))))
        time.sleep(2)


threading.Thread(target=progress, daemon=True).start()
sel = selectors.DefaultSelector()
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
sel.register(listener, selectors.EVENT_READ)
wake_r, wake_w = socket.socketpair()
sel.register(wake_r, selectors.EVENT_READ)
quiet_since = time.monotonic()
while time.monotonic() - quiet_since < SECONDS:
    for key, _ in sel.select(timeout=1.0):
        if key.fileobj is listener:
            key.fileobj.accept()[0].close()
            quiet_since = time.monotonic()
print("alive")
