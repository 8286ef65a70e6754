"""A search driver that keeps its trials in SQLite, with a robust (retrying) writer."""
import os
import random
import sqlite3
import time

DB = os.path.join(os.environ.get("UNSEEN_TMP", "/tmp"), "trials.db")


def write(sql, args=()):
    """Each write on its own connection; retried, since the database may be locked."""
    while True:
        try:
            db = sqlite3.connect(DB, timeout=2)
            with db:
                db.execute(sql, args)
            db.close()
            return
        except sqlite3.OperationalError:
            db.close()
            time.sleep(0.5)


def main():
    write("create table if not exists trials (id integer primary key, lr real, loss real)")
    book = sqlite3.connect(DB)
    rnd = random.Random(1)
    for trial in range(10):
        lr = 10 ** rnd.uniform(-5, -1)
        book.execute("insert into trials (id, lr) values (?, ?)", (trial, lr))
        write("update trials set loss = ? where id = ?", (abs(lr - 0.01), trial))
        print("trial", trial, "done", flush=True)
    book.commit()


main()
