"""Child puts a big gradient into an mp.Queue, parent joins the child before draining the queue."""
import multiprocessing as mp


def compute(q):
    q.put([0.5] * 400_000)


if __name__ == "__main__":
    ctx = mp.get_context("fork")
    q = ctx.Queue()
    ps = [ctx.Process(target=compute, args=(q,)) for _ in range(2)]
    print("computing gradients", flush=True)
    for p in ps:
        p.start()
    print("frozen soon", flush=True)
    for p in ps:
        p.join()
    print(len(q.get()) + len(q.get()))
