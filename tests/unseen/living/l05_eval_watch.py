"""Evaluation harness that waits for the trainer (another job) to write the next checkpoint."""
import json, os, time

FOLDER = os.environ["UNSEEN_TMP"]


def new_checkpoints(seen):
    return [n for n in sorted(os.listdir(FOLDER)) if n.endswith(".ckpt") and n not in seen]


seen = set()
while True:
    found = new_checkpoints(seen)
    if found:
        break
    time.sleep(0.5)
with open(os.path.join(FOLDER, found[0])) as f:
    ckpt = json.load(f)
if ckpt["step"] == 1000:
    print("alive")
