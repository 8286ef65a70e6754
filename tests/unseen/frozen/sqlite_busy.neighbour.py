"""Outside of the job `sqlite_busy`: the process it waits for."""

import os, sqlite3, time

tmp = os.environ["UNSEEN_TMP"]
db = sqlite3.connect(os.path.join(tmp, "trials.db"), isolation_level=None)
db.execute("create table trials (id integer, acc real)")
db.execute("begin exclusive")
db.execute("insert into trials values (0, 0.5)")
open(os.path.join(tmp, "db.ready"), "w").close()
while True:
    time.sleep(60)
