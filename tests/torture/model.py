"""The torture's model, copied beside each map: a checksum of what it is given; some items make it raise or crash.

What the model has seen goes also into a file that it never closes: after a worker that was left alone it must be whole.
Another file, written at once, says which items were given to it, when, and how many lines the first one must have.
"""

import json
import os
import resource
import time
import zlib

import gpulane

HERE = os.path.dirname(os.path.abspath(__file__))


class Model(gpulane.Model):
    def __init__(self, decode="value", pause=0.0):
        self.decode = decode
        self.pause = pause

    def setup(self):
        # What limits gpulane's files for a while is not to limit the model's notes.
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        name = f"{os.environ['GPULANE_STAGE']}-{os.getpid()}"
        self.seen = open(os.path.join(HERE, "log", f"seen-{name}"), "a")
        self.given = os.open(os.path.join(HERE, "log", f"given-{name}"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        self.lines = 0

    def predict_batch(self, batch):
        self.note(items=list(self.items))
        time.sleep(self.pause)
        results = [self.one(item) for item in batch]
        self.note()
        return results

    def note(self, **more):
        line = {"ns": time.monotonic_ns(), "lines": self.lines, **more}
        os.write(self.given, (json.dumps(line) + "\n").encode())

    def one(self, item):
        if isinstance(item, str):
            if item.startswith("raise"):
                raise ValueError(item)
            if item.startswith("crash"):
                os.abort()
            value = zlib.crc32(item.encode("utf-8", "surrogateescape"))
        else:
            data = bytes(memoryview(item).cast("B")) if not isinstance(item, bytes) else item
            value = data[0] if data and data == data[:1] * len(data) else -1 - zlib.crc32(data)
        self.seen.write(f"{value}\n")
        self.lines += 1
        return {"value": value}
