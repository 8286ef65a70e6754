"""Tokenise a corpus: the vocabulary loads in the background while workers start."""
import multiprocessing as mp
import threading
import time

vocab = {}
vocab_lock = threading.Lock()


def load_vocab():
    with vocab_lock:
        for i in range(500):
            vocab["w%d" % i] = i
            time.sleep(0.001)                # reads it from the shared disk


def encode(text):
    with vocab_lock:
        return [vocab.setdefault(w, len(vocab)) for w in text.split()]


def worker(shard):
    lines = ["w%d w%d" % (i, i + shard) for i in range(100)]
    print("shard", shard, "tokens", sum(len(encode(x)) for x in lines), flush=True)


def main():
    threading.Thread(target=load_vocab, name="vocab-loader").start()
    time.sleep(0.1)
    ctx = mp.get_context("fork")
    procs = [ctx.Process(target=worker, args=(s,)) for s in range(2)]
    for p in procs:
        p.start()
    for p in procs:
        p.join()
    print("corpus done")


if __name__ == "__main__":
    main()
