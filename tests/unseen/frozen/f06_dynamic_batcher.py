"""Inference server with dynamic batching, and a client loop that asks it five questions."""
import queue, threading
from concurrent.futures import Future

MAX_BATCH = 8


class Batcher:
    def __init__(self):
        self.requests = queue.Queue()
        self.thread = threading.Thread(target=self.loop, daemon=True)
        self.thread.start()

    def submit(self, prompt):
        f = Future()
        self.requests.put((prompt, f))
        return f

    def loop(self):
        while True:
            batch = []
            while len(batch) < MAX_BATCH:
                batch.append(self.requests.get())
            outputs = [p.upper() for p, _ in batch]
            for (_, f), o in zip(batch, outputs):
                f.set_result(o)


def main():
    server = Batcher()
    questions = ["q%d" % i for i in range(13)]
    answers = []
    for lo in range(0, len(questions), 8):
        futures = [server.submit(q) for q in questions[lo:lo + 8]]
        answers += [f.result() for f in futures]
    print(len(answers), "answers")


main()
