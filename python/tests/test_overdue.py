"""Calls that do not come back in time."""

from __future__ import annotations

import contextlib
import io
import threading
import time
import unittest
from typing import Any, List, Optional, Tuple
from unittest import mock

from gpulane import _overdue
from gpulane._loop import _Limited
from gpulane._overdue import Watch, limit_of
from gpulane.loader import Loader

Told = List[Tuple[int, str]]


def wait_for(told: Told) -> None:
    until = time.monotonic() + 20
    while not told and time.monotonic() < until:
        time.sleep(0.01)


class Wire:
    """A connection that keeps what is sent, and a stack that takes long to look at."""

    def __init__(self) -> None:
        self.sent: List[Tuple[str, Optional[int]]] = []
        self.looked = threading.Event()
        self.went_on = threading.Event()

    def send(self, frame: str, **fields: Any) -> None:
        self.sent.append((frame, fields.get("batch")))

    def look(self, _frame: Any) -> str:
        self.looked.set()
        self.went_on.wait(0.5)  # The model's thread may go on meanwhile, if it is let.
        return "model.py:1 in predict_batch"


class SlowLoad:
    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def load(self, _path: str) -> bytes:
        assert self._wire.looked.wait(20)
        return b"data"


def late_stack(wire: Wire) -> Any:
    return mock.patch.object(_overdue, "_shown", wire.look)


class WatchTest(unittest.TestCase):
    def test_where_a_call_is_is_told_once_and_the_log_has_all_of_it(self) -> None:
        told: Told = []
        log = io.StringIO()
        watch = Watch(lambda batch, stack: told.append((batch, stack)))

        def never_returns() -> None:
            wait_for(told)

        with contextlib.redirect_stderr(log):
            watch.begin(0.05, 7)
            never_returns()
            watch.end()
            time.sleep(0.1)
        self.assertEqual([batch for batch, _ in told], [7])
        self.assertRegex(told[0][1], r"in never_returns, called from test_overdue\.py:\d+ in test_where")
        self.assertIn("in never_returns", log.getvalue())

    def test_a_call_that_comes_back_is_not_told(self) -> None:
        told: Told = []
        watch = Watch(lambda batch, stack: told.append((batch, stack)))
        for batch in range(20):
            watch.begin(0.5, batch)
            watch.end()
        time.sleep(1)  # Longer than the limit: one that had not ended would have been told.
        self.assertEqual(told, [])

    def test_a_feeder_that_is_gone_does_not_end_the_watch(self) -> None:
        seen = threading.Event()

        def gone(_batch: int, _stack: str) -> None:
            seen.set()
            raise BrokenPipeError

        watch = Watch(gone)
        with contextlib.redirect_stderr(io.StringIO()):
            for _ in range(2):
                watch.begin(0.01)
                self.assertTrue(seen.wait(20))
                seen.clear()

    def test_a_call_that_is_late_by_a_hair_is_told_before_the_next_begins(self) -> None:
        wire = Wire()
        limited = _Limited(wire, 0.02)  # type: ignore[arg-type]
        with late_stack(wire):
            limited.begin(1, 1)
            self.assertTrue(wire.looked.wait(20))
            limited.end()
            limited.begin(2, 100)
            wire.went_on.set()
            time.sleep(0.1)
            limited.end()
        self.assertEqual(wire.sent, [("began", 1), ("overdue", 1), ("began", 2)])

    def test_a_load_that_is_late_by_a_hair_is_told_before_its_answer(self) -> None:
        wire = Wire()
        loader = Loader(wire, "model.py:Model")  # type: ignore[arg-type]
        loader._limit, loader._model = 0.02, SlowLoad(wire)
        with late_stack(wire):
            loader._load(mock.MagicMock(), {"path": "a", "room": 0, "slot": 0, "offset": 0})
            wire.went_on.set()
            time.sleep(0.1)
        self.assertEqual(wire.sent, [("overdue", 0), ("too_large", None)])

    def test_no_limit_is_no_limit(self) -> None:
        for head, limit in [
            ({}, None),
            ({"item_timeout": None}, None),
            ({"item_timeout": 0}, None),
            ({"item_timeout": 1.5}, 1.5),
        ]:
            self.assertEqual(limit_of(head), limit)


if __name__ == "__main__":
    unittest.main()
