"""Background thread warms the tokenizer cache while evaluation workers are forked."""
import multiprocessing as mp, threading, time

cache = {}
cache_lock = threading.Lock()


def tokenize(text):
    with cache_lock:
        if text not in cache:
            cache[text] = text.split()
        return cache[text]


def warm_up():
    with cache_lock:
        for i in range(12):
            cache["prompt %d" % i] = ["prompt", str(i)]
            time.sleep(0.1)


def evaluate(rank, out):
    out.send((rank, len(tokenize("the quick brown fox"))))
    out.close()


if __name__ == "__main__":
    ctx = mp.get_context("fork")
    threading.Thread(target=warm_up, daemon=True).start()
    time.sleep(0.2)
    procs = []
    for rank in range(2):
        r, w = ctx.Pipe(duplex=False)
        p = ctx.Process(target=evaluate, args=(rank, w))
        p.start()
        procs.append((p, r))
    for p, r in procs:
        p.join()
        print(r.recv())
