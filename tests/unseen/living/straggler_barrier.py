"""Three ranks at a process Barrier, the fourth one is slow (its environment takes its time to reset)."""
import multiprocessing as mp, os, time
S = float(os.environ.get("UNSEEN_SECONDS", 15))


def rank(r, bar):
    if r == 3:
        time.sleep(S)
    bar.wait()


if __name__ == "__main__":
    ctx = mp.get_context("fork")
    bar = ctx.Barrier(4)
    ps = [ctx.Process(target=rank, args=(r, bar)) for r in range(4)]
    for p in ps:
        p.start()
    print("ranks up", flush=True)
    for p in ps:
        p.join()
    print("alive")
