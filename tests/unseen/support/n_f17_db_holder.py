"""Makes the study and keeps a write transaction open."""
import sqlite3
from common import *
db = sqlite3.connect(os.path.join(TMP, "study.db"), isolation_level=None)
db.execute("CREATE TABLE trials (id INTEGER, lr REAL, value REAL)")
db.execute("BEGIN EXCLUSIVE")
publish("study.ready", "yes")
for_ever()
