"""Pool.map over downloads that are rate limited (workers sleep)."""
import multiprocessing as mp, os, time
S = float(os.environ.get("UNSEEN_SECONDS", 15))


def fetch(i):
    time.sleep(S / 2)
    return i


if __name__ == "__main__":
    with mp.get_context("fork").Pool(3) as pool:
        print("fetching", flush=True)
        assert pool.map(fetch, range(6), chunksize=1) == list(range(6))
    print("alive")
