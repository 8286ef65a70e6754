"""Insert into a database on which another program's maintenance runs (long busy timeout)."""
import os
import sqlite3
import time

TMP = os.environ["UNSEEN_TMP"]
DB = os.path.join(TMP, "metrics.db")


def main():
    while not os.path.exists(os.path.join(TMP, "maintenance")):
        time.sleep(0.05)
    db = sqlite3.connect(DB, timeout=900)
    with db:
        db.execute("insert into samples (name, value) values (?, ?)", ("latency", 12.5))
    n, = db.execute("select count(*) from samples").fetchone()
    assert n == 1
    print("alive")


main()
