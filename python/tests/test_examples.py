"""The example that needs no packages works as a worker's model."""

from __future__ import annotations

import unittest
from pathlib import Path

from .fake_feeder import FakeFeeder

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "map"


class Words(unittest.TestCase):
    def test_words_are_counted(self) -> None:
        feeder = FakeFeeder((EXAMPLES / "words.py").read_text(encoding="utf-8"), target="Words")
        self.addCleanup(feeder.close)
        self.assertEqual(feeder.start("text")["decode"], "text")
        answer = feeder.work("The cat, the hat and the rabbit.", "")
        self.assertEqual(
            answer.columns,
            {"words": [7, 0], "distinct": [5, 0], "longest": ["rabbit", ""], "commonest": ["the", ""]},
        )


class All(unittest.TestCase):
    def test_each_opens_with_how_to_run_it(self) -> None:
        for path in EXAMPLES.glob("*.py"):
            source = path.read_text(encoding="utf-8")
            compile(source, str(path), "exec")
            self.assertIn(f"gpulane map examples/map/{path.name}:", source)


if __name__ == "__main__":
    unittest.main()
