"""Writes a metric row; the database is exclusively locked by a job outside. sqlite's busy timeout polls."""
import os, sqlite3, time
S = float(os.environ.get("UNSEEN_SECONDS", 15))
TMP = os.environ["UNSEEN_TMP"]
while not os.path.exists(TMP + "/held"):
    time.sleep(0.1)
db = sqlite3.connect(TMP + "/metrics.db", timeout=3 * S + 20)
print("logging metrics", flush=True)
open(TMP + "/arrived", "w").close()
with db:
    db.execute("insert into m values (1, 0.5)")
db.close()
print("alive")
