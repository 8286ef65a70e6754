"""However a worker or a loader ends, what the model has written to files of its own is there."""

from __future__ import annotations

import ctypes
import gzip
import os
import platform
import signal
import sqlite3
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path
from typing import Callable, Dict, List
from unittest import mock

from .fake_feeder import PATIENCE, FakeFeeder, text
from .real_gpulane import until

HOLDERS = {
    "in the module": "KEPT = open('kept.txt', 'w')\ndef write(self): KEPT.write('all')\n",
    "in the model": "def write(self):\n    self.file = open('kept.txt', 'w')\n    self.file.write('all')\n",
    "in another module": (
        "import json\ndef write(self):\n    json.kept = open('kept.txt', 'w')\n    json.kept.write('all')\n"
    ),
    "in a closure": (
        "import functools\n"
        "@functools.lru_cache(None)\n"
        "def opened(): return open('kept.txt', 'w')\n"
        "def write(self): opened().write('all')\n"
    ),
    "by a log": (
        "import logging, logging.handlers\n"
        "log = logging.getLogger('mine')\n"
        "file = logging.FileHandler('kept.txt')\n"
        "file.terminator = ''\n"
        "log.addHandler(logging.handlers.MemoryHandler(100, target=file))\n"
        "def write(self): log.error('all')\n"
    ),
    "by csv": (
        "import csv\n"
        "def write(self):\n"
        "    self.rows = csv.writer(open('kept.txt', 'w'), lineterminator='')\n"
        "    self.rows.writerow(['all'])\n"
    ),
    "by a thread that ends": (
        "import threading, time\n"
        "def late():\n"
        "    file = open('kept.txt', 'w')\n"
        "    time.sleep(0.3)\n"
        "    file.write('all')\n"
        "def write(self): threading.Thread(target=late).start()\n"
    ),
    "by a thread that does not": (
        "import threading\n"
        "written = threading.Event()\n"
        "def run():\n"
        "    file = open('kept.txt', 'w')\n"
        "    file.write('all')\n"
        "    written.set()\n"
        "    threading.Event().wait()\n"
        "def write(self):\n"
        "    threading.Thread(target=run, daemon=True).start()\n"
        "    written.wait()\n"
    ),
    "at exit": ("import atexit\ndef write(self): atexit.register(lambda: open('kept.txt', 'w').write('all'))\n"),
    "by a finalizer": (
        "import weakref\ndef write(self): weakref.finalize(self, lambda: open('kept.txt', 'w').write('all'))\n"
    ),
    "by last words": (
        "class Last:\n"
        "    def __del__(self, open=open): open('kept.txt', 'w').write('all')\n"
        "def write(self): self.last = Last()\n"
    ),
    "in a suspended generator": (
        "def steps():\n"
        "    with open('kept.txt', 'w') as file:\n"
        "        file.write('all')\n"
        "        yield\n"
        "def write(self):\n"
        "    self.steps = steps()\n"
        "    next(self.steps)\n"
    ),
    "by a child": (
        "import multiprocessing, sys\n"
        "def child(queue):\n"
        "    with open('kept.txt', 'w') as file: file.write(queue.get())\n"
        "def write(self):\n"
        "    fork = multiprocessing.get_context('fork')\n"
        "    queue = fork.Queue()\n"
        "    fork.Process(target=child, args=(queue,)).start()\n"
        "    queue.put('all')\n"
    ),
    "by C": (
        "import ctypes\n"
        "libc = ctypes.CDLL(None)\n"
        "libc.fopen.restype = ctypes.c_void_p\n"
        "def write(self):\n"
        "    file = libc.fopen(b'kept.txt', b'w')\n"
        "    libc.fputs(b'all', ctypes.c_void_p(file))\n"
    ),
    "in a file that is moved at its end": (
        "import atexit, os, tempfile\n"
        "def write(self):\n"
        "    self.file = tempfile.NamedTemporaryFile('w', dir='.', delete=False)\n"
        "    self.file.write('all')\n"
        "    atexit.register(lambda: (self.file.close(), os.rename(self.file.name, 'kept.txt')))\n"
    ),
}
"""Ways to keep something that is not written yet, each as `write`, a method of the model."""

MODEL = """
class Model:
    write = write
    def setup(self):
        self.write()
        if {fails!r} == "setup": raise RuntimeError("no weights")
    def predict_batch(self, batch):
        if "poison" in batch: raise ValueError("bad")
        if "exit" in batch: raise SystemExit(9)
        if "wait" in batch:
            import time
            time.sleep(3600)
        return batch
    def load(self, path):
        if not hasattr(self, "loaded"): self.write()
        self.loaded = True
        if path == "wait":
            import time
            time.sleep(3600)
        return path
"""


def told_to(feeder: FakeFeeder) -> int:
    """Ends it by `bye`."""
    feeder.start("text")
    feeder.work("a")
    return feeder.bye()


def after_a_failure(feeder: FakeFeeder) -> int:
    feeder.start("text")
    assert feeder.work("a", "poison").failed.keys() == {1}
    return feeder.bye()


def terminated(feeder: FakeFeeder) -> int:
    """The exit code after SIGTERM, sent again to one that slept through it: Python may begin a sleep after a signal."""
    feeder.process.send_signal(signal.SIGTERM)
    try:
        return feeder.process.wait(PATIENCE / 3)
    except subprocess.TimeoutExpired:
        feeder.process.send_signal(signal.SIGTERM)
    return feeder.process.wait(PATIENCE)


def terminated_at_work(feeder: FakeFeeder) -> int:
    feeder.start("text")
    feeder.ask(1, [text("wait")])
    feeder.receive("began")
    return terminated(feeder)


def terminated_idle(feeder: FakeFeeder) -> int:
    feeder.start("text")
    feeder.work("a")
    feeder.process.send_signal(signal.SIGTERM)
    return feeder.process.wait(PATIENCE)


def by_itself(feeder: FakeFeeder) -> int:
    feeder.start("text")
    feeder.ask(1, [text("exit")])
    feeder.receive("began")
    return feeder.process.wait(PATIENCE)


def without_a_setup(feeder: FakeFeeder) -> int:
    feeder.accept()
    feeder.send("setup")
    feeder.receive("setup_failed")
    return feeder.process.wait(PATIENCE)


WAYS: Dict[Callable[[FakeFeeder], int], int] = {
    told_to: 0,
    after_a_failure: 0,
    terminated_at_work: 143,
    terminated_idle: 143,
    by_itself: 9,
    without_a_setup: 1,
}
"""How a worker may end, with its exit code."""


class WithAFeeder(unittest.TestCase):
    def start(self, model: str, **more: str) -> FakeFeeder:
        feeder = FakeFeeder(model, **more)
        self.addCleanup(feeder.close)
        return feeder

    def kept(self, feeder: FakeFeeder, name: str = "kept.txt") -> Path:
        return feeder.path / name


class Workers(WithAFeeder):
    def assert_kept(self, holders: List[str], way: Callable[[FakeFeeder], int]) -> None:
        for holder in holders:
            with self.subTest(holder, way=way.__name__):
                fails = "setup" if way is without_a_setup else ""
                feeder = self.start(HOLDERS[holder] + MODEL.format(fails=fails))
                code = way(feeder)
                self.assertEqual(code, WAYS[way], feeder.said())
                self.assertEqual(self.kept(feeder).read_text() if self.kept(feeder).exists() else None, "all")
                self.assertNotIn("did not end within", feeder.said())

    def test_nothing_is_lost_when_the_map_is_done(self) -> None:
        self.assert_kept(list(HOLDERS), told_to)

    def test_nothing_is_lost_after_a_batch_that_failed(self) -> None:
        self.assert_kept(["in the module", "in the model", "by a log"], after_a_failure)

    def test_nothing_is_lost_when_the_map_is_cancelled(self) -> None:
        self.assert_kept([name for name in HOLDERS if name != "by a child"], terminated_at_work)

    def test_nothing_is_lost_when_an_idle_worker_is_terminated(self) -> None:
        self.assert_kept(["in the module", "by last words"], terminated_idle)

    def test_nothing_is_lost_when_the_model_exits(self) -> None:
        self.assert_kept(["in the module", "by last words"], by_itself)

    def test_nothing_is_lost_when_the_setup_fails(self) -> None:
        self.assert_kept(["in the module", "in the model", "by last words"], without_a_setup)

    def test_archives_and_databases_get_their_end(self) -> None:
        feeder = self.start(
            """
            import gzip, sqlite3, zipfile
            class Model:
                def setup(self):
                    self.zip, self.gzip = zipfile.ZipFile("kept.zip", "w"), gzip.open("kept.gz", "wt")
                    self.rows = sqlite3.connect("kept.db", isolation_level=None)
                    self.rows.execute("pragma journal_mode=wal")
                    self.rows.execute("create table kept (text)")
                def predict_batch(self, batch):
                    self.zip.writestr("kept.txt", "all")
                    self.gzip.write("all")
                    self.rows.execute("insert into kept values ('all')")
                    return batch
            """
        )
        self.assertEqual(told_to(feeder), 0, feeder.said())
        self.assertEqual(zipfile.ZipFile(self.kept(feeder, "kept.zip")).read("kept.txt"), b"all")
        self.assertEqual(gzip.decompress(self.kept(feeder, "kept.gz").read_bytes()), b"all")
        self.assertFalse(self.kept(feeder, "kept.db-wal").exists(), "SQLite's own end was made")
        rows = sqlite3.connect(self.kept(feeder, "kept.db"))
        self.addCleanup(rows.close)
        self.assertEqual(rows.execute("select text from kept").fetchall(), [("all",)])

    def test_what_the_model_has_open_at_sigterm_is_closed_by_itself(self) -> None:
        feeder = self.start(
            """
            import time, zipfile
            def Model(batch):
                with zipfile.ZipFile("kept.zip", "w") as file:
                    file.writestr("kept.txt", "all")
                    open("begun", "w").close()
                    time.sleep(3600)
            """
        )
        feeder.start("text")
        feeder.ask(1, [text("a")])
        until(self.kept(feeder, "begun").exists, "the call")
        feeder.process.send_signal(signal.SIGTERM)
        self.assertEqual(feeder.process.wait(PATIENCE), 143)
        self.assertEqual(zipfile.ZipFile(self.kept(feeder, "kept.zip")).namelist(), ["kept.txt"])

    def test_a_model_that_catches_sigterm_ends_after_its_call(self) -> None:
        feeder = self.start(
            """
            import time
            kept = open("kept.txt", "w")
            def Model(batch):
                try:
                    open("begun", "w").close()
                    time.sleep(3600)
                except BaseException: kept.write("caught")
                return batch
            """
        )
        feeder.start("text")
        feeder.ask(1, [text("a")])
        until(self.kept(feeder, "begun").exists, "the call")
        feeder.process.send_signal(signal.SIGTERM)
        self.assertEqual(feeder.process.wait(PATIENCE), 143, feeder.said())
        self.assertEqual(self.kept(feeder).read_text(), "caught")

    def test_sigterm_during_the_setup_is_no_setup_that_failed(self) -> None:
        feeder = self.start(
            """
            import time
            kept = open("kept.txt", "w")
            class Model:
                def setup(self):
                    kept.write("all")
                    open("begun", "w").close()
                    time.sleep(3600)
                def predict_batch(self, batch): ...
            """
        )
        feeder.accept()
        feeder.send("setup")
        until(self.kept(feeder, "begun").exists, "the setup")
        feeder.process.send_signal(signal.SIGTERM)
        self.assertEqual(feeder.process.wait(PATIENCE), 143, feeder.said())
        self.assertEqual(self.kept(feeder).read_text(), "all")
        assert feeder.connection is not None
        with self.assertRaises(ConnectionError):
            feeder.connection.receive()

    def test_a_signal_that_another_thread_gets_is_answered(self) -> None:
        feeder = self.start(
            """
            from gpulane._device import _host
            _host.Plain.prefetches = True  # As with a GPU: threads receive and send.
            kept = open("kept.txt", "w")
            def Model(batch):
                kept.write("all")
                return batch
            """
        )
        feeder.start("text")
        feeder.work("a")
        pid = feeder.process.pid
        other = max(int(thread) for thread in os.listdir(f"/proc/{pid}/task"))
        self.assertNotEqual(other, pid)
        tgkill = {"x86_64": 234, "aarch64": 131}[platform.machine()]
        self.assertEqual(ctypes.CDLL(None).syscall(tgkill, pid, other, int(signal.SIGTERM)), 0)
        self.assertEqual(feeder.process.wait(PATIENCE), 143, feeder.said())
        self.assertEqual(self.kept(feeder).read_text(), "all")

    def test_work_on_the_gpu_that_fails_later_loses_no_file(self) -> None:
        feeder = self.start(
            """
            from gpulane import _loop
            from gpulane._device import _host
            _host.Plain.prefetches = True  # As with a GPU: threads receive and send.
            def send(*_): raise RuntimeError("device-side assert")
            _loop.send_results = send
            kept = open("kept.txt", "w")
            def Model(batch):
                kept.write("all")
                return batch
            """
        )
        feeder.start("text")
        feeder.ask(1, [text("a")])
        feeder.receive("began")
        self.assertEqual(feeder.process.wait(PATIENCE), 13, feeder.said())
        self.assertEqual(self.kept(feeder).read_text(), "all")


STUCK = {
    "exit handler": "import atexit, time\natexit.register(lambda: time.sleep(3600))\n",
    "thread": "import threading, time\nthreading.Thread(target=lambda: time.sleep(3600)).start()\n",
    "last words": (
        "import time\n"
        "class Last:\n"
        "    def __del__(self, sleep=time.sleep): sleep(3600)\n"
        "import builtins\n"
        "builtins.last = Last()\n"
    ),
}


class Limit(WithAFeeder):
    def test_whoever_does_not_end_is_ended_says_so_and_loses_no_file(self) -> None:
        for name, stuck in STUCK.items():
            for way in (told_to, terminated_idle):
                with self.subTest(name, way=way.__name__):
                    feeder = self.start(stuck + HOLDERS["in the module"] + MODEL.format(fails=""), GPULANE_GRACE="1")
                    way(feeder)
                    self.assertEqual(self.kept(feeder).read_text(), "all")
                    told = feeder.said()
                    # While Python takes its modules apart, only C can tell.
                    self.assertRegex(told, "Timeout|did not end within 0.7 s")
                    if name == "exit handler":
                        self.assertRegex(told, r"model.py:2, in <lambda>.*`grace` of the stage")

    def test_a_file_that_cannot_be_written_to_keeps_no_other(self) -> None:
        feeder = self.start(
            """
            import os, threading
            ends = os.pipe()
            full = open(ends[1], "w")
            def fill(): full.write("x" * (1 << 20))
            threading.Thread(target=fill, daemon=True).start()
            kept = open("kept.txt", "w")
            def Model(batch):
                kept.write("all")
                return batch
            """,
            GPULANE_GRACE="2",
        )
        told_to(feeder)
        self.assertEqual(self.kept(feeder).read_text(), "all")

    def test_it_is_shorter_than_the_time_until_sigkill(self) -> None:
        from gpulane import _leaving

        for given, expected in [("10", 7.0), ("2.5", 1.75), ("0", 0.0), ("", 7.0), ("soon", 7.0), ("-1", 7.0)]:
            with self.subTest(given), mock.patch.dict(os.environ, {"GPULANE_GRACE": given}):
                self.assertEqual(_leaving._limit(), expected)


class Loaders(WithAFeeder):
    def loader(self, holder: str) -> FakeFeeder:
        feeder = FakeFeeder(HOLDERS[holder] + MODEL.format(fails=""), role="loader")
        self.addCleanup(feeder.close)
        feeder.accept()
        feeder.give_ring("load")
        feeder.receive("ready")
        return feeder

    def load(self, feeder: FakeFeeder, path: str) -> None:
        feeder.send("load", path=path, slot=0, offset=0, room=1 << 20)

    def test_nothing_is_lost_however_they_end(self) -> None:
        for holder in ("in the module", "in the model", "by last words"):
            for way, code in {"bye": 0, "gone": 1, "terminated": 143, "terminated at work": 143}.items():
                with self.subTest(holder, way=way):
                    feeder = self.loader(holder)
                    self.load(feeder, "a")
                    feeder.receive("loaded")
                    if way == "bye":
                        feeder.send("bye")
                    elif way == "gone":
                        assert feeder.connection is not None
                        feeder.connection.close()
                    elif way == "terminated at work":
                        self.load(feeder, "wait")
                    ended = terminated(feeder) if way.startswith("terminated") else feeder.process.wait(PATIENCE)
                    self.assertEqual(ended, code, feeder.said())
                    self.assertEqual(self.kept(feeder).read_text(), "all")


class WithABrokenDevice(unittest.TestCase):
    """Objects of a broken GPU context abort the process when they are freed."""

    CODE = """
import atexit, os, sys
sys.path.insert(0, sys.argv[1])
from gpulane._leaving import keep_until_exit, leave

class Tensor:
    def __del__(self):
        os.abort()

def fail():
    tensor = Tensor()
    raise RuntimeError("device-side assert")

kept = open("kept.txt", "w")
kept.write("all")
atexit.register(lambda: print("exit handler"))
try:
    fail()
except RuntimeError as error:
    keep_until_exit(error)
leave(13)
"""

    def test_nothing_is_freed_and_files_are_written(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, "-c", self.CODE, str(Path(__file__).resolve().parent.parent)],
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
            self.assertEqual((done.returncode, done.stdout), (13, "exit handler\n"), done.stderr)
            self.assertEqual((Path(folder) / "kept.txt").read_text(), "all")


if __name__ == "__main__":
    sys.exit(unittest.main())
