"""Polls a (fake) validation queue: 10 ms of work every 2 s."""
import os, time
S = float(os.environ.get("UNSEEN_SECONDS", 15))
end = time.monotonic() + S
print("validator up", flush=True)
acc = 0
while time.monotonic() < end:
    t = time.perf_counter()
    while time.perf_counter() - t < 0.01:
        acc += 1
    time.sleep(max(0.0, min(2.0, end - time.monotonic())))
print("alive")
