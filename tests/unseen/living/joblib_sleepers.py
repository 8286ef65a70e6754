"""joblib Parallel (process workers) where every fold waits for its licence token for a while."""
import os, time
os.environ.setdefault("JOBLIB_TEMP_FOLDER", os.environ.get("UNSEEN_TMP", "/tmp"))
from joblib import Parallel, delayed
S = float(os.environ.get("UNSEEN_SECONDS", 15))


def fold(i):
    time.sleep(S / 2)
    return i


if __name__ == "__main__":
    print("cross validation", flush=True)
    assert Parallel(n_jobs=2, backend="multiprocessing")(delayed(fold)(i) for i in range(4)) == [0, 1, 2, 3]
    print("alive")
