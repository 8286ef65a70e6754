"""What came before does not show: a job finds the same whether its process was a standby or not, and a worker's batches
find what the model left, no more."""

from __future__ import annotations

import json
import sys
import unittest
from typing import Any, Dict

from .entries import Standby
from .fake_feeder import FakeFeeder

STATE = """
import decimal, gc, json, locale, os, resource, signal, sys, threading, warnings

def seen():
    handlers = {one.name: str(signal.getsignal(one)) for one in signal.valid_signals() if hasattr(one, "name")}
    names = [name for name in sorted(dir(resource)) if name.startswith("RLIMIT")]
    limits = [resource.getrlimit(getattr(resource, name)) for name in names]
    umask = os.umask(0)
    os.umask(umask)
    return {
        "argv": sys.argv,
        "cwd": os.getcwd(),
        "decimal": str(decimal.getcontext()),
        "environ": dict(os.environ),
        "flags": str(sys.flags),
        "garbage": [gc.isenabled(), gc.get_threshold(), gc.callbacks, gc.get_debug()],
        "handlers": handlers,
        "hooks": [str(sys.excepthook), str(sys.displayhook), str(threading.excepthook), str(sys.gettrace())],
        "importers": [getattr(one, "__name__", type(one).__name__) for one in sys.meta_path],
        "limits": limits,
        "locale": locale.setlocale(locale.LC_ALL),
        "main": sys.modules["__main__"].__file__,
        "masked": sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, []))),
        "module": __name__,
        "nice": os.nice(0),
        "path": sys.path,
        "recursion": sys.getrecursionlimit(),
        "switch": sys.getswitchinterval(),
        "threads": [one.name for one in threading.enumerate()],
        "umask": umask,
        "warnings": [str(one) for one in warnings.filters],
        "wakeup": signal.set_wakeup_fd(-1),
    }
"""


class Standbys(Standby):
    def found(self, text: str) -> Dict[str, Any]:
        return json.loads(text.splitlines()[-1])  # type: ignore[no-any-return]

    def test_a_job_finds_the_same_in_a_standby(self) -> None:
        self.write(STATE + "def main(): print(json.dumps(seen()))\n")
        job = {**self.job(), "GPULANE_JOB": "train/a", "GPULANE_RUN": str(self.folder)}
        cold = self.cold("train.py:main", **job)
        self.assertEqual(cold.returncode, 0, cold.stderr)
        self.start("train.py:main")
        self.assertIn("ready", self.hear())
        self.hand_over(job)
        self.assertIn("begun", self.hear())
        code, (printed, errors) = self.end()
        self.assertEqual(code, 0, errors)
        one, other = self.found(cold.stdout), self.found(printed)
        self.assertEqual(sorted(one), sorted(other))
        for what in one:
            with self.subTest(what):
                self.assertEqual(one[what], other[what])

    def test_a_standby_holds_no_descriptor_that_a_cold_job_does_not(self) -> None:
        self.write(
            "import os\n"
            "def main():\n"
            "    held = [os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd') if int(n) > 2\n"
            "            if os.path.exists(f'/proc/self/fd/{n}')]\n"
            "    print(len(held))\n"
        )
        cold = self.cold("train.py:main")
        self.start("train.py:main")
        self.assertIn("ready", self.hear())
        self.hand_over(self.job())
        self.assertIn("begun", self.hear())
        _, (printed, _) = self.end()
        self.assertEqual(printed, cold.stdout)


class Workers(unittest.TestCase):
    def test_what_a_failed_batch_leaves_is_only_the_models_own(self) -> None:
        """Between batches gpulane changes nothing of the process, whatever has happened to one of them."""
        feeder = FakeFeeder(
            STATE
            + "def Model(batch):\n"
            + "    if 'poison' in batch: raise ValueError('bad')\n"
            + "    if len(batch) > 2: raise MemoryError\n"
            + "    return [json.dumps(seen()) for _ in batch]\n"
        )
        self.addCleanup(feeder.close)
        feeder.start("text")
        before = feeder.work("a").result
        self.assertEqual(set(feeder.work("a", "poison").failed), {1})
        self.assertEqual(feeder.work(*"abcd").failed, {})
        feeder.crash()
        feeder.accept()
        feeder.give_ring("text")
        self.assertEqual(feeder.work("a").result, before)

    def test_an_item_gets_the_same_result_after_others_as_alone(self) -> None:
        """By what is ours: names, views, columns; with and without failures before it."""
        model = """
            class Model:
                def predict_batch(self, batch):
                    if "poison" in batch: raise ValueError("bad")
                    first = self.items[0]
                    return [{"text": text, "name": name, "first": first} for text, name in zip(batch, self.items)]
        """
        alone = FakeFeeder(model)
        self.addCleanup(alone.close)
        alone.start("text")
        expected = alone.work("x").columns
        for before in (["a"], ["poison"], ["a", "poison", "b"], ["much longer than the others " * 100]):
            with self.subTest(before):
                feeder = FakeFeeder(model)
                self.addCleanup(feeder.close)
                feeder.start("text")
                feeder.work(*before)
                self.assertEqual(feeder.work("x").columns, expected)


if __name__ == "__main__":
    sys.exit(unittest.main())
