"""filelock.SoftFileLock on a cache directory whose lock file belongs to another host's dead job."""
import os, tempfile
from filelock import SoftFileLock

TMP = os.environ.get("UNSEEN_TMP") or tempfile.mkdtemp()
path = os.path.join(TMP, "hub.lock")
with open(path, "w") as f:
    f.write("31337\nnode17.cluster\n")
print("loading tokenizer from cache", flush=True)
print("frozen soon", flush=True)
with SoftFileLock(path).acquire(poll_interval=1.0):
    print("loaded")
