"""Ranks that a fork server has started meet at a barrier; one of them has a batch less and leaves early."""
# verdict: end
# stuck: a barrier waits for
# at: barrier_below_forkserver.py:stuck here

import multiprocessing


def rank(batches, barrier):
    for _ in range(batches):
        barrier.wait()  # stuck here


if __name__ == "__main__":
    context = multiprocessing.get_context("forkserver")
    barrier = context.Barrier(2)
    ranks = [context.Process(target=rank, args=(batches, barrier)) for batches in (1, 2)]
    print("starting", flush=True)
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
