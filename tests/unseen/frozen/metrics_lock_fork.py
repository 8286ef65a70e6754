"""Forks an evaluation child just while the metrics thread holds the metrics lock."""
import os, threading, time
from multiprocessing import get_context

lock = threading.Lock()
held = threading.Event()
counts = {"steps": 0}


def metrics():
    path = os.path.join(os.environ["UNSEEN_TMP"], "metrics.txt")
    while True:
        with lock:
            held.set()
            with open(path, "a") as f:
                f.write(f"{time.time():.1f} steps={counts['steps']}\n")
            time.sleep(0.6)
        time.sleep(0.9)


def evaluate():
    score = sum(i * i for i in range(50000))
    with lock:
        counts["score"] = score


def main():
    threading.Thread(target=metrics, daemon=True).start()
    for _ in range(5):
        sum(i * i for i in range(20000))
        counts["steps"] += 1
    print("training done, evaluating", flush=True)
    held.clear()
    held.wait()
    p = get_context("fork").Process(target=evaluate)
    p.start()
    p.join()
    print("evaluated")


main()
