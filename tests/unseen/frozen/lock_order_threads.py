"""Two replay-buffer shards that exchange samples; each transfer locks source then destination."""
import threading, time, random


class Shard:
    def __init__(self, name):
        self.name, self.items, self.lock = name, list(range(100)), threading.Lock()


def rebalance(src, dst, n, pause):
    for _ in range(n):
        with src.lock:
            time.sleep(pause)
            with dst.lock:
                dst.items.append(src.items.pop())


a, b = Shard("a"), Shard("b")
rebalance(a, b, 3, 0.01)
rebalance(b, a, 3, 0.01)
print("warmup done", len(a.items), len(b.items), flush=True)
ts = [threading.Thread(target=rebalance, args=(a, b, 5, 0.6), name="a2b"),
      threading.Thread(target=rebalance, args=(b, a, 5, 0.6), name="b2a")]
print("frozen soon", flush=True)
for t in ts:
    t.start()
for t in ts:
    t.join()
print("rebalanced")
