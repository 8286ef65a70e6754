"""Writes to a database that another process keeps locked for the time of its transaction."""
import os, sqlite3, time

tmp = os.environ["UNSEEN_TMP"]
while not os.path.exists(os.path.join(tmp, "held")):
    time.sleep(0.05)
db = sqlite3.connect(os.path.join(tmp, "runs.db"), timeout=100000)
open(os.path.join(tmp, "asked"), "w").close()
db.execute("insert into runs values (2)")
db.commit()
print("alive")
