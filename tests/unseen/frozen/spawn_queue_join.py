"""The parent joins a spawned feature extractor before it has taken the big result from the queue."""
import multiprocessing as mp


def extract(q, n):
    feats = [[(i * j) % 97 / 97 for j in range(200)] for i in range(n)]
    q.put(feats)


if __name__ == "__main__":
    ctx = mp.get_context("spawn")
    q = ctx.Queue()
    p = ctx.Process(target=extract, args=(q, 1500))
    print("extracting", flush=True)
    p.start()
    p.join()
    print("got", len(q.get()))
