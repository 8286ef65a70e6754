"""Every worker of a thread pool waits for a subtask that the same full pool should run."""
import logging, os, threading, time
from concurrent.futures import ThreadPoolExecutor

logging.basicConfig(filename=os.path.join(os.environ["UNSEEN_TMP"], "run.log"), level=logging.INFO,
                    format="%(asctime)s %(message)s")
pool = ThreadPoolExecutor(max_workers=3)
done = []


def logger():
    while True:
        logging.info("shards done: %d", len(done))
        time.sleep(2)


def tokenize(text):
    return [hash(w) for w in text.split()]


def shard(n):
    time.sleep(0.3)
    parts = [pool.submit(tokenize, "some words of shard %d " % n * 200) for _ in range(4)]
    done.append(n)
    return sum(len(p.result()) for p in parts)


threading.Thread(target=logger, daemon=True).start()
print("warm-up", pool.submit(tokenize, "a b c").result().__len__(), flush=True)
print("tokens", sum(pool.map(shard, range(6))))
