"""Load a dataset from the shared cache, guarded by a .lock file as the hub library does."""
import json, os
from filelock import FileLock

CACHE = os.environ["UNSEEN_TMP"]


def load_dataset(name):
    target = os.path.join(CACHE, name + ".json")
    with FileLock(os.path.join(CACHE, name + ".lock")):
        if not os.path.exists(target):
            with open(target, "w") as f:
                json.dump({"rows": list(range(100))}, f)
        with open(target) as f:
            return json.load(f)


def main():
    ds = load_dataset("imdb")
    print("rows:", len(ds["rows"]))


main()
