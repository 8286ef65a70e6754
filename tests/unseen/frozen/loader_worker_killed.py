"""A hand-made data loader: one worker is killed (as by the OOM killer) and its batch never comes."""
import multiprocessing as mp, os, random, signal, threading, time


def worker(rank, indices, results):
    rng = random.Random(rank)
    while True:
        item = indices.get()
        if item is None:
            return
        if item == 7:
            time.sleep(0.2)
            os.kill(os.getpid(), signal.SIGKILL)
        results.put((item, [rng.random() for _ in range(500)]))


def monitor(pids):
    samples = []
    while True:
        with open("/proc/self/status") as f:
            rss = [line for line in f if line.startswith("VmRSS")]
        for pid in pids:
            try:
                with open(f"/proc/{pid}/stat") as f:
                    samples.append((rss, f.read().rsplit(")", 1)[1].split()[0]))
            except OSError:
                pass
        del samples[:-100]
        time.sleep(1.5)


def main():
    ctx = mp.get_context("fork")
    results = ctx.Queue()
    index_queues = [ctx.SimpleQueue() for _ in range(3)]
    procs = [ctx.Process(target=worker, args=(r, q, results), daemon=True) for r, q in enumerate(index_queues)]
    for p in procs:
        p.start()
    threading.Thread(target=monitor, args=([p.pid for p in procs],), daemon=True).start()
    for i in range(12):
        index_queues[i % 3].put(i)
    got, total = {}, 0.0
    for want in range(12):
        while want not in got:
            i, data = results.get()
            got[i] = data
        total += sum(got.pop(want))
        print("batch", want, round(total, 2), flush=True)


if __name__ == "__main__":
    main()
