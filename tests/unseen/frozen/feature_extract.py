"""Extract features in two processes, collect them when both are finished."""
import multiprocessing as mp
import random


def extract(shard, out):
    rnd = random.Random(shard)
    feats = [[rnd.random() for _ in range(64)] for _ in range(400)]
    out.put((shard, feats))


def main():
    out = mp.Queue()
    procs = [mp.Process(target=extract, args=(s, out), name="extract-%d" % s) for s in range(2)]
    for p in procs:
        p.start()
    print("extracting", len(procs), "shards")
    for p in procs:
        p.join()
    feats = dict(out.get() for _ in procs)
    print("got", sum(len(v) for v in feats.values()), "vectors")


if __name__ == "__main__":
    main()
