"""Keeps the database of l15 locked for a while."""

import sqlite3
from common import *
db = sqlite3.connect(os.path.join(TMP, "registry.db"), isolation_level=None)
db.execute("CREATE TABLE runs (name TEXT, score REAL)")
db.execute("BEGIN EXCLUSIVE")
publish("migrating", "")
time.sleep(SECONDS)
db.execute("COMMIT")
