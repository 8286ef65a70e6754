"""A SIGALRM handler that saves a checkpoint takes the state lock which the interrupted main thread itself holds."""
import pickle, random, signal, threading, time

state_lock = threading.Lock()
state = {"w": [0.0] * 1000, "step": 0}
saved = []


def checkpoint(signum, frame):
    with state_lock:
        saved.append(pickle.dumps(state))
    signal.setitimer(signal.ITIMER_REAL, 0.5)


signal.signal(signal.SIGALRM, checkpoint)
signal.setitimer(signal.ITIMER_REAL, 0.5)
print("training", flush=True)
while state["step"] < 100000:
    with state_lock:
        end = time.time() + 0.2
        while time.time() < end:
            state["w"] = [x + random.random() for x in state["w"]]
        state["step"] += 1
print("done")
