"""A worker of a multiprocessing.Pool is killed (as the kernel does when memory is short): its task is never answered."""
# verdict: end
# stuck: worker was killed
# at: pool_worker_killed.py:stuck here

import multiprocessing
import os
import signal


def augment(number):
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * 2


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    with multiprocessing.Pool(2) as pool:
        print("augmenting", flush=True)
        pool.map(augment, range(8), chunksize=1)  # stuck here
