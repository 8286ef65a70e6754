"""Cool-down sleep between two epochs."""
import os, time
S = float(os.environ.get("UNSEEN_SECONDS", 15))
print("epoch 0", sum(i * i for i in range(1000)), flush=True)
time.sleep(S)
print("alive")
