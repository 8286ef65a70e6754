"""Actor/learner with a replay buffer; resource monitor logs memory through psutil."""
import os, threading, time
import psutil

TMP = os.environ["UNSEEN_TMP"]


class ReplayBuffer:
    def __init__(self):
        self.items = []
        self.filled = threading.Condition()

    def add_many(self, items):
        with self.filled:
            self.items.extend(items)
            self.filled.notify_all()

    def sample(self):
        with self.filled:
            self.filled.wait()          # until there is something to learn from
            return self.items[-32:]


def actor(buffer):
    buffer.add_many(range(256))         # one short episode, then the actor is done


def monitor():
    me = psutil.Process()
    with open(os.path.join(TMP, "resources.csv"), "a") as f:
        while True:
            f.write("%.1f,%d,%d\n" % (time.time(), me.memory_info().rss, me.num_threads()))
            f.flush()
            time.sleep(2)


buffer = ReplayBuffer()
threading.Thread(target=monitor, daemon=True).start()
a = threading.Thread(target=actor, args=(buffer,))
a.start()
time.sleep(0.3)                          # build the network
for step in range(100):
    batch = buffer.sample()
print("learned from", len(batch))
a.join()
