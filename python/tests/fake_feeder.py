"""A feeder for tests: a socket, a ring with one slot per batch, and the real worker or loader as a process."""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import textwrap
from array import array
from itertools import accumulate
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from gpulane._ring import ARRAY, BYTES, ENTRY, TEXT
from gpulane._wire import Connection, Frame, encode

PACKAGE = Path(__file__).resolve().parent.parent
SLOT_BYTES = 4 << 20
CAPACITY = 1024
TABLE_BYTES = -(-CAPACITY * ENTRY.size // 4096) * 4096
PATIENCE = 30.0
"""Seconds after which a test gives up on an answer; none takes a tenth of it."""

Item = Tuple[Any, ...]
"""Kind, element type, shape and data; then, where they count, orientation and chroma."""


class FakeFeeder:
    """Starts a worker for a model given as source text, and speaks to it."""

    def __init__(
        self,
        model: str,
        target: str = "Model",
        role: str = "worker",
        slots: int = 3,
        gpus: str = "",
        slot_bytes: int = SLOT_BYTES,
        beside: Sequence[str] = (),
        **environment_too: str,
    ) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name)
        (self.path / "model.py").write_text(textwrap.dedent(model), encoding="utf-8")
        for name in beside:
            (self.path / name).write_text(f"raise SystemExit('{name} is not what was asked for')", encoding="utf-8")
        self._listener = self._listen()
        self.slots, self.slot_bytes = slots, slot_bytes
        self.memory = os.memfd_create("ring")
        os.ftruncate(self.memory, slots * slot_bytes)
        self.log = open(self.path / "stderr.log", "w+", encoding="utf-8")
        environment = {key: value for key, value in os.environ.items() if not key.startswith("GPULANE_")}
        environment.update(
            PYTHONPATH=str(PACKAGE),
            GPULANE_FEED=str(self.path),
            GPULANE_JOB="map/worker-0",
            GPULANE_ATTEMPT="2",
            GPULANE_ATTEMPT_DIR=str(self.path),
            CUDA_VISIBLE_DEVICES=gpus,
        )
        environment.update(environment_too)
        command = [sys.executable, str(PACKAGE / "gpulane" / "_start.py"), role, f"model.py:{target}"]
        self.process = subprocess.Popen(command, cwd=self.path, env=environment, stdout=self.log, stderr=self.log)
        self.connection: Optional[Connection] = None
        self.socket: Optional[socket.socket] = None

    def _listen(self) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(self.path / "feed.sock"))
        listener.listen(1)
        listener.settimeout(PATIENCE)
        return listener

    def accept(self) -> Dict[str, Any]:
        """Waits for the worker to connect; its `hello`."""
        self.socket, _ = self._listener.accept()
        self.socket.settimeout(PATIENCE)
        self.connection = Connection(self.socket)
        return self.receive("hello").head

    def start(
        self, decode: str, nan: str = "keep", members: Optional[Sequence[str]] = None, **args: Any
    ) -> Dict[str, Any]:
        """From `hello` to the ring; what the worker said in `ready`."""
        self.accept()
        self.send("setup", **({"args": args} if args else {}))
        ready = self.receive("ready").head
        self.give_ring(decode, nan, members)
        return ready

    def send(self, frame: str, **fields: Any) -> None:
        assert self.connection is not None
        self.connection.send(frame, **fields)

    def receive(self, expected: str) -> Frame:
        assert self.connection is not None
        frame = self.connection.receive()
        assert frame.head["frame"] == expected, f"{frame.head} instead of {expected}\n{self.said()}"
        return frame

    def give_ring(self, decode: str, nan: str = "keep", members: Optional[Sequence[str]] = None) -> None:
        assert self.socket is not None
        head = {"frame": "ring", "slots": self.slots, "slot_bytes": self.slot_bytes, "capacity": CAPACITY}
        beside = {} if members is None else {"members": list(members)}
        data = encode({**head, "decode": decode, **beside, "nan": nan})
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", self.memory))]
        self.socket.sendmsg([data[:1]], rights)
        self.socket.sendall(data[1:])

    def fill(self, slot: int, items: Sequence[Item], packed: bool = False) -> Dict[str, Any]:
        """Writes items into a slot; the fields of `batch` that say where."""
        at, table, names = TABLE_BYTES, b"", b""
        names_at = self.slot_bytes - 16 * len(items)
        for number, item in enumerate(items):
            (kind, element, shape, data), (orientation, chroma) = item[:4], item[4:] or (1, 0)
            at = at if packed else -(-at // 64) * 64
            name = f"item-{number}".encode()
            sides = (*shape, 0, 0, 0, 0)[:4]
            place = names_at + len(names)
            ndim = len(shape) if kind == ARRAY else 0
            about = (kind, element, orientation, chroma, ndim, *sides)
            table += ENTRY.pack(number, at, len(data), *about, place, len(name))
            names += name
            os.pwrite(self.memory, data, slot * self.slot_bytes + at)
            at += len(data)
        os.pwrite(self.memory, table, slot * self.slot_bytes)
        os.pwrite(self.memory, names, slot * self.slot_bytes + names_at)
        return {"slot": slot, "first": 0, "count": len(items), "packed": packed, "data": TABLE_BYTES, "data_end": at}

    def ask(
        self, batch: int, items: Sequence[Item], slot: int = 0, packed: bool = False, careful: bool = False
    ) -> None:
        """Sends a batch."""
        self.send("batch", batch=batch, careful=careful, **self.fill(slot, items, packed))

    def answer(self, batch: int) -> Answer:
        """Waits for a batch's results."""
        assert self.receive("began").head["batch"] == batch
        frame = self.receive("results")
        assert frame.head["batch"] == batch
        return Answer(frame)

    def work(self, *texts: str, batch: int = 1) -> Answer:
        """One batch of texts, from asking to the answer."""
        self.ask(batch, [text(one) for one in texts])
        return self.answer(batch)

    def give_members(self, slot: int, samples: Sequence[Dict[str, bytes]]) -> None:
        """Writes members beside the items that `fill` has put into a slot."""
        at = self.slot_bytes // 2
        for number, members in enumerate(samples):
            named = [(name.encode(), data) for name, data in members.items()]
            block = b"".join(struct.pack("<II", len(name), len(data)) + name + data for name, data in named)
            os.pwrite(self.memory, block, slot * self.slot_bytes + at)
            place = struct.pack("<II", at, len(block)) if block else bytes(8)
            os.pwrite(self.memory, place, slot * self.slot_bytes + number * ENTRY.size + 56)
            at += len(block)

    def bye(self) -> int:
        """Ends the worker in good order; its exit code."""
        self.send("bye")
        return self.process.wait(PATIENCE)

    def crash(self) -> None:
        """The feeder is gone, and a new one listens."""
        assert self.connection is not None
        self._listener.close()
        os.unlink(self.path / "feed.sock")
        self._listener = self._listen()
        self.connection.close()

    def said(self) -> str:
        """What the worker printed."""
        self.log.flush()
        return (self.path / "stderr.log").read_text(encoding="utf-8")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        if self.connection is not None:
            self.connection.close()
        self._listener.close()
        self.log.close()
        os.close(self.memory)
        self.folder.cleanup()


class Answer:
    """A `results` frame, its columns read back."""

    LETTERS = {"f32": "f", "f64": "d", "i64": "q", "u64": "Q", "i32": "i", "u32": "I", "i16": "h", "u16": "H"}
    LETTERS.update({"i8": "b", "u8": "B", "bool": "B"})

    def __init__(self, frame: Frame) -> None:
        self.head = frame.head
        self.failed = {failure["at"]: failure["reason"] for failure in frame.head["failed"]}
        self.columns: Dict[str, List[Any]] = {}
        self.types: Dict[str, str] = {}
        at = 0
        for column in frame.head["columns"]:
            data = frame.body[at : at + column["bytes"]]
            at += column["bytes"]
            self.types[column["name"]] = column["type"]
            self.columns[column["name"]] = self._values(column, data, frame.head["count"])
        assert at == len(frame.body), "columns and body differ in length"
        assert all(len(values) == frame.head["count"] for values in self.columns.values())

    def _values(self, column: Dict[str, Any], data: bytes, count: int) -> List[Any]:
        values: List[Any]
        if column["type"] == "json":
            values = json.loads(data)
            for row in column.get("nan", ()):
                assert values[row] is None
                values[row] = math.nan
            return values
        lengths = array("I")
        if column.get("ragged"):
            lengths.frombytes(data[: 4 * count])
            data = data[4 * count :]
        flat = array(self.LETTERS[column["type"]])
        flat.frombytes(data)
        values = list(map(bool, flat)) if column["type"] == "bool" else flat.tolist()
        for side in reversed(column["shape"]):
            values = [values[at : at + side] for at in range(0, len(values), side)]
        if column.get("ragged"):
            ends = list(accumulate(lengths))
            values = [values[end - length : end] for end, length in zip(ends, lengths)]
        return [None if row in column.get("nulls", ()) else value for row, value in enumerate(values)]

    @property
    def result(self) -> List[Any]:
        return self.columns["result"]


def text(value: str) -> Item:
    return (TEXT, 1, (), value.encode())


def raw(value: bytes) -> Item:
    return (BYTES, 1, (), value)


def u8(shape: Tuple[int, ...], data: bytes) -> Item:
    return (ARRAY, 1, shape, data)


__all__ = ["Answer", "FakeFeeder", "raw", "text", "u8"]
