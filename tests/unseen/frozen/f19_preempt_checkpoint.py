"""Training loop that also saves a checkpoint when the scheduler's warning signal arrives."""
import json, os, signal, threading, time

TMP = os.environ["UNSEEN_TMP"]
weights = [0.0] * 16
step = 0
save_lock = threading.Lock()


def save(reason):
    with save_lock:
        time.sleep(1.2)                     # the shared disk is slow
        with open(os.path.join(TMP, "ckpt.json"), "w") as f:
            json.dump({"step": step, "weights": weights, "why": reason}, f)


def on_warning(signum, frame):
    save("preempted")
    raise SystemExit(0)


signal.signal(signal.SIGALRM, on_warning)
signal.setitimer(signal.ITIMER_REAL, 0.6)   # allocation ends soon
for step in range(10000):
    weights = [w + 0.1 for w in weights]
    time.sleep(0.01)
    if step % 10 == 0:
        save("periodic")
print("trained", step)
