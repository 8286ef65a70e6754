"""Main waits for a multiprocessing Event without a time-out; a spawned child polls the clock and sets it."""
import multiprocessing as mp, os, time


def poller(event, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(1.5)
    event.set()


if __name__ == "__main__":
    ctx = mp.get_context("spawn")
    event = ctx.Event()
    p = ctx.Process(target=poller, args=(event, float(os.environ.get("UNSEEN_SECONDS", "15"))))
    p.start()
    event.wait()
    p.join()
    print("alive")
