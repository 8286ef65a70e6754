"""Worker gets OOM-killed while it holds the shared checkpoint lock; trainer then wants that lock."""
import multiprocessing as mp, os, signal, threading, time, tempfile

TMP = os.environ.get("UNSEEN_TMP") or tempfile.mkdtemp()


def monitor():
    n = 0
    while True:
        with open("/proc/self/statm") as f:
            rss = f.read().split()[1]
        with open("/proc/loadavg") as f:
            load = f.read().split()[0]
        with open(os.path.join(TMP, "monitor.log"), "a") as f:
            f.write(f"{n} rss_pages={rss} load={load}\n")
        n += 1
        time.sleep(1)


def worker(lock, started):
    lock.acquire()
    started.set()
    os.kill(os.getpid(), signal.SIGKILL)     # the OOM killer


if __name__ == "__main__":
    ctx = mp.get_context("fork")
    lock, started = ctx.Lock(), ctx.Event()
    p = ctx.Process(target=worker, args=(lock, started))
    p.start()
    p.join()
    print("worker gone with", p.exitcode, flush=True)
    threading.Thread(target=monitor, daemon=True).start()
    print("frozen soon", flush=True)
    with lock:
        print("saving checkpoint")
