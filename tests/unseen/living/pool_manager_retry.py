"""A pool manager whose worker was killed with a task in hand: the get() times out and the manager does it itself."""
import multiprocessing as mp, os, queue, signal


def worker(tasks, results):
    while True:
        n = tasks.get()
        if n == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        results.put((n, n * n))


def main():
    ctx = mp.get_context("fork")
    results = ctx.Queue()
    inbox = [ctx.SimpleQueue() for _ in range(2)]
    procs = [ctx.Process(target=worker, args=(q, results), daemon=True) for q in inbox]
    for p in procs:
        p.start()
    for n in range(4):
        inbox[n == 3].put(n)
    out = {}
    while len(out) < 4:
        try:
            n, v = results.get(timeout=float(os.environ.get("UNSEEN_SECONDS", "15")))
            out[n] = v
        except queue.Empty:
            for n in set(range(4)) - set(out):
                out[n] = n * n
    for p in procs:
        p.terminate()
        p.join()
    print("alive")


main()
