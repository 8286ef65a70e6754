"""Waits on a Condition for an early-stop request, with a timeout that then means 'go on'."""
import os, threading
S = float(os.environ.get("UNSEEN_SECONDS", 15))
cv, stop = threading.Condition(), []
print("epoch 0 done", flush=True)
with cv:
    stopped = cv.wait_for(lambda: stop, timeout=S)
print("stopped" if stopped else "alive")
