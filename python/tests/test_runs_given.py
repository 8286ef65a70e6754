"""What `gpulane.run` and `gpulane.map` are given: a model's arguments, and mistakes that are told before a start."""

from __future__ import annotations

import unittest
from typing import Any, Dict
from unittest import mock

from gpulane._runs import PlanError, Run, map
from gpulane._runs._arguments import words_of

from .real_gpulane import WithGpulane

GIVEN: Dict[str, Any] = {
    "number": 3,
    "text": "3",
    "truth": True,
    "word": "true",
    "small": 1e-05,
    "whole": 1.0,
    "large": 2**64 - 1,
    "empty": "",
    "odd": ' a "b" \\ = \n# Zoë',
    "listed": [1, "1", [0.5, {"a b": "[x]"}]],
    "table": {"lr": 0.1, "on": False},
}
"""Every kind of value, and texts that look like others."""


class Words(unittest.TestCase):
    def test_each_value_is_written_as_what_it_is(self) -> None:
        self.assertEqual(
            words_of({"a": 3, "b": "3", "c": [1, "x"]}, {"d": True}), ["a=3", 'b="3"', 'c=[1, "x"]', "d=true"]
        )
        self.assertEqual((words_of(None, "a=3"), words_of({}, ["a=3", "b=x"])), (["a=3"], ["a=3", "b=x"]))
        self.assertEqual(words_of({"n": mock.Mock(spec=["tolist"], tolist=lambda: 0.5)}, None), ["n=0.5"])

    def test_what_would_arrive_as_something_else_is_refused_with_its_place(self) -> None:
        for value, why in (
            (None, "argument a is None"),
            ({"b": [1, None]}, r"argument a\.b\.1 is None"),
            ([float("nan")], r"argument a\.0 is nan"),
            (2**64, "argument a does not fit into 64 bits"),
            ("\0", "argument a has a NUL"),
            (mock.Mock(spec=["tolist"], tolist=lambda: [float("inf")]), r"argument a\.0 is inf"),
            (object(), "a is a object"),
        ):
            with self.subTest(value=value), self.assertRaisesRegex(PlanError, why):
                words_of({"a": value}, None)

    def test_names_are_names_and_given_once(self) -> None:
        for key in ("a=b", "1st", "", 3):
            with self.subTest(key=key), self.assertRaisesRegex(PlanError, "cannot be the name"):
                words_of({key: 1}, None)  # type: ignore[dict-item]
        with self.assertRaisesRegex(PlanError, "both give 'least'"):
            words_of({"least": 1}, {"least": 2})
        with self.assertRaisesRegex(TypeError, "args= is a dict"):
            words_of(["least=3"], None)  # type: ignore[arg-type]


class Mapped(WithGpulane):
    def setUp(self) -> None:
        super().setUp()
        self.write("model.py", "def told(texts, **given):\n    return [{'given': repr(given)} for text in texts]\n")
        self.write("a.txt", "a")

    def told(self, *inputs: Any, **more: Any) -> Run:
        settings = {"out": "out", "decode": "text", "format": "jsonl", "gpus": "none", "quiet": True, **more}
        return map("model.py:told", *(inputs or ["a.txt"]), **settings)


class Arguments(Mapped):
    def test_the_model_gets_them_as_they_are(self) -> None:
        (row,) = self.told(args=GIVEN).results(as_="list")
        self.assertEqual(eval(row["given"]), GIVEN)

    def test_the_words_of_the_command_line_do_as_well(self) -> None:
        (row,) = self.told(args={"a": "1"}, set={"b": 2}).results(as_="list")
        self.assertEqual(eval(row["given"]), {"a": "1", "b": 2})
        (row,) = self.told(set=["a=1", "b=x"], out="other").results(as_="list")
        self.assertEqual(eval(row["given"]), {"a": 1, "b": "x"})


class Changed(Mapped):
    def test_a_map_that_changed_is_gone_on_with_when_that_is_accepted(self) -> None:
        self.write("b.txt", "b")
        self.write("model.py", "def told(texts):\n    return [{'a': 1 // (text == 'a')} for text in texts]\n")
        made = self.told("a.txt", "b.txt")
        self.assertEqual((made.state, len(made.failed())), ("failed", 1))
        self.write("model.py", "def told(texts):\n    return [{'a': 2} for text in texts]\n")
        with self.assertRaises(PlanError) as refused:
            made.resume(failed=True, quiet=True)
        said = str(refused.exception)
        self.assertIn("has changed", said)
        self.assertTrue(said.endswith("\nin Python: run.resume(failed=True, accept_changes=True)"), said)
        made.resume(accept_changes=True, batch=8, failed=True, quiet=True)
        self.assertEqual((made.state, [row["a"] for row in made.results(as_="list")]), ("succeeded", [1, 2]))

    def test_other_refusals_say_nothing_of_it(self) -> None:
        with self.assertRaises(PlanError) as refused:
            self.told().resume(lanes="many", quiet=True)
        self.assertNotIn("in Python", str(refused.exception))


if __name__ == "__main__":
    unittest.main()
