"""Prefetcher: the producer thread notifies once, before the consumer gets to wait (no predicate)."""
import threading, time

cv = threading.Condition()
batch = []


def prefetch():
    data = [i * i for i in range(1000)]
    with cv:
        batch.append(data)
        cv.notify()


print("starting prefetch", flush=True)
t = threading.Thread(target=prefetch, daemon=True)
t.start()
time.sleep(1.0)              # model warm-up
print("frozen soon", flush=True)
with cv:
    cv.wait()                # missed it
    x = batch.pop()
print("got", len(x))
