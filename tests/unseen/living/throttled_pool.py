"""Call a rate limited API from a process pool: every worker waits for its quota."""
import multiprocessing as mp
import os
import time

SECONDS = float(os.environ.get("UNSEEN_SECONDS", "15"))


def call(item):
    time.sleep(SECONDS / 3 - 0.1)            # quota: a few calls per window
    return item * item


def main():
    with mp.Pool(2) as pool:
        out = pool.map(call, range(6), chunksize=1)
    assert out == [0, 1, 4, 9, 16, 25]
    print("alive")


if __name__ == "__main__":
    main()
