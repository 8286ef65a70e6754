"""Writes a checkpoint after UNSEEN_SECONDS."""
import json
import os
import time

run = os.path.join(os.environ["UNSEEN_TMP"], "run-42")
os.makedirs(run, exist_ok=True)
time.sleep(float(os.environ.get("UNSEEN_SECONDS", "15")))
path = os.path.join(run, "step-1000.json")
with open(path + ".new", "w") as f:
    json.dump({"weights": [0.5] * 8}, f)
os.rename(path + ".new", path)
