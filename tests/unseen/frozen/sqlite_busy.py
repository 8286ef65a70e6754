"""Writes its results to an experiment database that another process has locked for good."""
import os, sqlite3, time

tmp = os.environ["UNSEEN_TMP"]
while not os.path.exists(os.path.join(tmp, "db.ready")):
    time.sleep(0.05)
acc = sum(i % 7 for i in range(300000)) / 300000
print("trial 1 accuracy", acc, flush=True)
db = sqlite3.connect(os.path.join(tmp, "trials.db"), timeout=1e6)
db.execute("insert into trials values (1, ?)", (acc,))
db.commit()
print("stored")
