"""Benchmark that lets the machine cool down first: a Timer opens the gate. Status file beside it."""
import os, threading, time

SECONDS = float(os.environ.get("UNSEEN_SECONDS", "15"))
TMP = os.environ["UNSEEN_TMP"]
gate = threading.Event()


def status():
    while True:
        with open("/proc/loadavg") as f:
            load = f.read().split()[0]
        with open(os.path.join(TMP, "status.txt"), "w") as f:
            f.write("%.1f cooling, load %s\n" % (time.time(), load))
        time.sleep(1)


threading.Thread(target=status, daemon=True).start()
threading.Timer(SECONDS, gate.set).start()
gate.wait()
print("alive")
