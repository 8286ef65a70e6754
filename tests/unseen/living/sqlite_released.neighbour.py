"""Outside of the job `sqlite_released`: the process it waits for."""

import os, sqlite3, time

tmp = os.environ["UNSEEN_TMP"]
db = sqlite3.connect(os.path.join(tmp, "runs.db"), isolation_level=None)
db.execute("create table runs (id integer)")
db.execute("begin exclusive")
db.execute("insert into runs values (1)")
open(os.path.join(tmp, "held"), "w").close()
while not os.path.exists(os.path.join(tmp, "asked")):
    time.sleep(0.1)
time.sleep(float(os.environ.get("UNSEEN_SECONDS", "15")))
db.execute("commit")
while True:
    time.sleep(60)
