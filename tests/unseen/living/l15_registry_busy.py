"""Registers a finished run in the experiment registry while a migration has it locked."""
import os, sqlite3, time

TMP = os.environ["UNSEEN_TMP"]
while not os.path.exists(os.path.join(TMP, "migrating")):
    time.sleep(0.1)
db = sqlite3.connect(os.path.join(TMP, "registry.db"), timeout=600)
with db:
    db.execute("INSERT INTO runs(name, score) VALUES ('resnet-a', 0.77)")
n = db.execute("SELECT count(*) FROM runs").fetchone()[0]
db.close()
if n == 1:
    print("alive")
