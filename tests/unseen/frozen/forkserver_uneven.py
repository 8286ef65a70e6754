"""Three ranks meet at a barrier after each batch; one rank has one batch less and leaves early."""
import multiprocessing as mp, random


def rank_main(rank, batches, barrier):
    w = 0.0
    for _ in range(batches):
        w += sum(random.random() for _ in range(5000))
        barrier.wait()
    return w


if __name__ == "__main__":
    ctx = mp.get_context("forkserver")
    barrier = ctx.Barrier(3)
    procs = [ctx.Process(target=rank_main, args=(r, 4 if r == 2 else 5, barrier)) for r in range(3)]
    for p in procs:
        p.start()
    print("3 ranks started", flush=True)
    for p in procs:
        p.join()
    print("epoch done")
