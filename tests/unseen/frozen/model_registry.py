"""Warm up a model registry in the background, then score documents in a process pool."""
import multiprocessing as mp
import threading
import time
from concurrent.futures import ProcessPoolExecutor

MODEL_SIZES = {"base": 10, "large": 40}
registry_lock = threading.RLock()
registry = {}
models = {}


def load_models(names):
    registry_lock.acquire()
    for name in names:
        registry[name] = {"name": name, "weights": MODEL_SIZES[name] * [0.0]}
    registry_lock.release()


def attach():
    """Every scoring process keeps its own copy of the registry."""
    with registry_lock:
        models.update(registry)


def score(doc):
    return sum(len(m["weights"]) for m in models.values()) * len(doc)


def main():
    loader = threading.Thread(target=load_models, args=(["base", "xl"],), name="model-loader")
    loader.start()
    time.sleep(0.3)
    docs = ["document %d" % i for i in range(50)]
    with ProcessPoolExecutor(2, mp_context=mp.get_context("fork"), initializer=attach) as pool:
        scores = list(pool.map(score, docs, chunksize=10))
    print("mean score", sum(scores) / len(scores))


if __name__ == "__main__":
    main()
