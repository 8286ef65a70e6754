"""An open transaction of its own keeps a database locked, to which it tries to write by another connection, again and again."""
# verdict: tell
# stuck: locked by this job itself
# at: retries_own_database.py:stuck here

import sqlite3
import tempfile
import time


def write(path, loss):
    while True:
        other = sqlite3.connect(path, timeout=0.8)
        try:
            with other:
                return other.execute("update trials set loss = ?", (loss,))
        except sqlite3.OperationalError:
            other.close()
            time.sleep(0.5)


with tempfile.TemporaryDirectory() as folder:
    trials = f"{folder}/trials.db"
    sqlite3.connect(trials).execute("create table trials (id, loss)").connection.commit()
    book = sqlite3.connect(trials)
    book.execute("insert into trials (id) values (1)")
    print("writing the loss", flush=True)
    write(trials, 0.1)  # stuck here
