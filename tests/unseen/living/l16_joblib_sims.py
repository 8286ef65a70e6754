"""Parameter sweep with joblib; each simulation waits for an instrument that works in real time."""
import os, time
from joblib import Parallel, delayed

SECONDS = float(os.environ.get("UNSEEN_SECONDS", "15"))


def simulate(gain):
    time.sleep(SECONDS)
    return gain * 2


if __name__ == "__main__":
    out = Parallel(n_jobs=2)(delayed(simulate)(g) for g in (1, 2))
    if out == [2, 4]:
        print("alive")
