"""Hyper-parameter grid with joblib; every trial waits for its remote training."""
import os
import time

import numpy as np
from joblib import Parallel, delayed

SECONDS = float(os.environ.get("UNSEEN_SECONDS", "15"))


def trial(lr):
    time.sleep(SECONDS / 2 - 0.4)            # submitted elsewhere: comes back by then
    return lr, float(np.abs(np.log10(lr) + 2))


def main():
    lrs = np.logspace(-4, -1, 4)
    scores = Parallel(n_jobs=2)(delayed(trial)(lr) for lr in lrs)
    best = min(scores, key=lambda s: s[1])
    assert abs(best[0] - 1e-2) < 1e-6
    print("alive")


if __name__ == "__main__":
    main()
