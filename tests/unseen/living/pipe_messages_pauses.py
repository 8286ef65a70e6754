"""Actor process sends a rollout over an mp.Pipe now and then; learner blocks in recv()."""
import multiprocessing as mp, os, time
S = float(os.environ.get("UNSEEN_SECONDS", 15))


def actor(c):
    for i in range(3):
        time.sleep(S / 3)
        c.send({"rollout": i})
    c.close()


if __name__ == "__main__":
    ctx = mp.get_context("fork")
    here, there = ctx.Pipe()
    p = ctx.Process(target=actor, args=(there,))
    p.start()
    there.close()
    print("learner waits for rollouts", flush=True)
    n = 0
    try:
        while True:
            here.recv()
            n += 1
    except EOFError:
        pass
    p.join()
    assert n == 3
    print("alive")
