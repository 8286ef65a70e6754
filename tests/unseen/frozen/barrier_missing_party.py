"""Data-parallel threads meet at a Barrier each step; one dies of an exception, others wait forever."""
import os, tempfile, threading, time

TMP = os.environ.get("UNSEEN_TMP") or tempfile.mkdtemp()
N = 4
barrier = threading.Barrier(N)
threading.excepthook = lambda a: open(os.path.join(TMP, "errors.log"), "a").write(repr(a.exc_value) + "\n")


def replica(rank):
    for step in range(100):
        time.sleep(0.05)
        if rank == 2 and step == 10:
            raise ValueError("loss is NaN")
        barrier.wait()


def stats():
    while True:
        with open("/proc/self/io") as f:
            io = dict(l.strip().split(": ") for l in f)
        with open(os.path.join(TMP, "stats.csv"), "a") as f:
            f.write(f"{int(time.time())},{io['rchar']},{io['wchar']},{threading.active_count()}\n")
        time.sleep(1.5)


threading.Thread(target=stats, daemon=True, name="stats").start()
ts = [threading.Thread(target=replica, args=(r,), name=f"rank{r}") for r in range(N)]
print("training on", N, "replicas", flush=True)
print("frozen soon", flush=True)
for t in ts:
    t.start()
for t in ts:
    t.join()
print("done")
