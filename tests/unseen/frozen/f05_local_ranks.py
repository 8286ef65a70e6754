"""Four local ranks synchronise at the end of each epoch."""
import multiprocessing as mp, time


def train(rank, barrier):
    for epoch in range(3):
        time.sleep(0.1 + 0.02 * rank)
        if rank == 2 and epoch == 1:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB (rank 2)")
        barrier.wait()
    if rank == 0:
        print("saved final.pt")


if __name__ == "__main__":
    world = 4
    barrier = mp.Barrier(world)
    ranks = [mp.Process(target=train, args=(r, barrier), name="rank%d" % r) for r in range(world)]
    for p in ranks:
        p.start()
    for p in ranks:
        p.join()
    print("all ranks done")
