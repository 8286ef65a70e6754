"""Training loop fed by a background prefetch thread; a status thread writes progress.json."""
import json, os, queue, threading, time

TMP = os.environ["UNSEEN_TMP"]
state = {"step": 0}


def decode(i):
    if i == 9:
        raise ValueError("cannot identify image file 'img_%05d.jpg'" % i)
    return [i] * 128


def prefetch(out):
    for i in range(1000):
        out.put(decode(i))
    out.put(None)


def status():
    while True:
        with open("/proc/self/statm") as f:
            rss = int(f.read().split()[1]) * 4096
        with open(os.path.join(TMP, "progress.json"), "w") as f:
            json.dump({"step": state["step"], "rss": rss, "at": time.time()}, f)
        time.sleep(1.5)


def main():
    batches = queue.Queue(maxsize=4)
    threading.Thread(target=prefetch, args=(batches,), daemon=True).start()
    threading.Thread(target=status, daemon=True).start()
    while True:
        batch = batches.get()
        if batch is None:
            break
        time.sleep(0.02)
        state["step"] += 1
    print("finished", state["step"])


main()
