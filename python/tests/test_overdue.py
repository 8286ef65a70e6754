"""Calls that do not come back in time."""

from __future__ import annotations

import contextlib
import io
import threading
import time
import unittest
from typing import List

from gpulane._overdue import Watch, limit_of


def wait_for(told: List[str]) -> None:
    until = time.monotonic() + 20
    while not told and time.monotonic() < until:
        time.sleep(0.01)


class WatchTest(unittest.TestCase):
    def test_where_a_call_is_is_told_once_and_the_log_has_all_of_it(self) -> None:
        told: List[str] = []
        log = io.StringIO()
        watch = Watch(told.append)

        def never_returns() -> None:
            wait_for(told)

        with contextlib.redirect_stderr(log):
            watch.begin(0.05)
            never_returns()
            watch.end()
            time.sleep(0.1)
        self.assertEqual(len(told), 1)
        self.assertRegex(told[0], r"in never_returns, called from test_overdue\.py:\d+ in test_where")
        self.assertIn("in never_returns", log.getvalue())

    def test_a_call_that_comes_back_is_not_told(self) -> None:
        told: List[str] = []
        watch = Watch(told.append)
        for _ in range(20):
            watch.begin(30)
            watch.end()
        time.sleep(0.05)
        self.assertEqual(told, [])

    def test_a_feeder_that_is_gone_does_not_end_the_watch(self) -> None:
        seen = threading.Event()

        def gone(_stack: str) -> None:
            seen.set()
            raise BrokenPipeError

        watch = Watch(gone)
        with contextlib.redirect_stderr(io.StringIO()):
            for _ in range(2):
                watch.begin(0.01)
                self.assertTrue(seen.wait(20))
                seen.clear()

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
