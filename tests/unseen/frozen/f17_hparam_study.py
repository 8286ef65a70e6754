"""Hyper-parameter search that keeps its trials in a shared sqlite file."""
import os, random, sqlite3, threading, time

TMP = os.environ["UNSEEN_TMP"]
DB = os.path.join(TMP, "study.db")
current = {"trial": 0}


def heartbeat():
    while True:
        with open(os.path.join(TMP, "heartbeat"), "w") as f:
            f.write("%d %f\n" % (current["trial"], time.time()))
        time.sleep(1)


def objective(lr):
    time.sleep(0.05)
    return (lr - 0.01) ** 2


def main():
    while not os.path.exists(os.path.join(TMP, "study.ready")):
        time.sleep(0.05)
    threading.Thread(target=heartbeat, daemon=True).start()
    db = sqlite3.connect(DB, timeout=7 * 24 * 3600)       # others may be writing
    for trial in range(20):
        current["trial"] = trial
        lr = random.uniform(1e-4, 1e-1)
        value = objective(lr)
        with db:
            db.execute("INSERT INTO trials VALUES (?, ?, ?)", (trial, lr, value))
    print(db.execute("SELECT min(value) FROM trials").fetchone())


main()
