"""Sum up the sizes of a directory tree with a small thread pool."""
import os
from concurrent.futures import ThreadPoolExecutor

TMP = os.environ.get("UNSEEN_TMP", "/tmp")
ROOT = os.path.join(TMP, "tree")
pool = ThreadPoolExecutor(max_workers=4, thread_name_prefix="crawl")


def make_tree():
    for a in range(3):
        for b in range(3):
            d = os.path.join(ROOT, "a%d" % a, "b%d" % b, "c")
            os.makedirs(d, exist_ok=True)
            with open(os.path.join(d, "data.bin"), "wb") as f:
                f.write(b"0" * 1000)


def size_of(path):
    total, futures = 0, []
    with os.scandir(path) as entries:
        for e in entries:
            if e.is_dir(follow_symlinks=False):
                futures.append(pool.submit(size_of, e.path))
            else:
                total += e.stat().st_size
    return total + sum(f.result() for f in futures)


def main():
    make_tree()
    print("crawling", ROOT, flush=True)
    print("bytes", pool.submit(size_of, ROOT).result())


main()
