"""Holds the database exclusively for UNSEEN_SECONDS."""
import os
import sqlite3
import time

tmp = os.environ["UNSEEN_TMP"]
db = sqlite3.connect(os.path.join(tmp, "metrics.db"), isolation_level=None)
db.execute("create table samples (name text, value real)")
db.execute("begin exclusive")
open(os.path.join(tmp, "maintenance"), "w").close()
time.sleep(float(os.environ.get("UNSEEN_SECONDS", "15")))
db.execute("commit")
