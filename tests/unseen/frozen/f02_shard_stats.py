"""Compute per-shard statistics in worker processes and merge them."""
import multiprocessing as mp


def shard_stats(shard, results):
    hist = {("tok%d" % k): (k * 7919 + shard) % 1013 for k in range(40000)}
    results.put((shard, hist))


def main():
    results = mp.Queue()
    workers = [mp.Process(target=shard_stats, args=(s, results)) for s in range(2)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    merged = {}
    while not results.empty():
        _, hist = results.get()
        for k, v in hist.items():
            merged[k] = merged.get(k, 0) + v
    print("vocabulary:", len(merged))


if __name__ == "__main__":
    main()
