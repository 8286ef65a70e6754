"""What `gpulane.run` and `gpulane.map` are given: a model's arguments, and mistakes that are told before a start."""

from __future__ import annotations

import contextlib
import io
import tarfile
import unittest
import warnings
from html import escape
from typing import Any, Callable, Dict
from unittest import mock

from gpulane._runs import PlanError, Run, map, run
from gpulane._runs._arguments import words_of
from gpulane._runs._show import View

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


class Members(Mapped):
    def test_a_list_of_extensions_is_what_the_command_line_takes(self) -> None:
        self.write(
            "beside.py",
            "class Model:\n    def predict_batch(self, batch):\n"
            "        return [{'beside': repr(sample)} for sample in self.samples]\n",
        )
        with tarfile.open(self.folder / "s.tar", "w") as tar:
            for name in ("k.txt", "k.jpg", "k.json", "k.cls"):
                info = tarfile.TarInfo(name)
                info.size = len(name)
                tar.addfile(info, io.BytesIO(name.encode()))
        for members in (["json", "txt"], "json,txt"):
            settings = {"decode": "bytes", "format": "jsonl", "gpus": "none", "quiet": True, "members": members}
            made = map("beside.py:Model", "s.tar", out=f"out-{len(members)}", **settings)
            (row,) = made.results(as_="list")
            self.assertEqual(eval(row["beside"]), {"json": b"k.json", "txt": b"k.txt"})


class Inputs(Mapped):
    def test_no_items_are_told_before_anything_starts(self) -> None:
        for nothing in ([[]], [iter(())], [[], ()]):
            with self.subTest(nothing=nothing), self.assertRaisesRegex(ValueError, "map has no items"):
                self.told(*nothing)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["a.txt", "model.py"])

    def test_texts_that_are_no_files_are_told_how_to_be_items(self) -> None:
        made = self.told(["a b", "c d"])
        told = "no such file; texts that are no files need decode='value'"
        self.assertEqual([row["reason"] for row in made.failed()], ["no such file"] * 2)
        self.assertIn(escape(told), made._card())
        self.assertEqual(len(self.told(["a b", "c d"], decode="value", out="values").results(as_="list")), 2)

    def test_what_will_be_needed_to_read_results_is_told_at_the_start(self) -> None:
        for here, format, warned in ((None, None, True), (None, "jsonl", False), (object(), "parquet", False)):
            with self.subTest(here=here, format=format), warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                unseen = mock.patch("gpulane._runs._run.view_of", return_value=View())
                with unseen, mock.patch("importlib.util.find_spec", return_value=here):
                    self.told(format=format, out=f"out-{format}", quiet=False)
            self.assertEqual(["needs pyarrow" in str(each.message) for each in heard], [True] if warned else [])
            self.assertTrue(all(each.filename == __file__ for each in heard))

    def test_an_empty_list_beside_others_changes_nothing(self) -> None:
        self.assertEqual([row["item"] for row in self.told([], "a.txt").results(as_="list")], ["a.txt"])

    def test_what_is_neither_a_path_nor_a_list_is_named(self) -> None:
        for wrong in (3, b"a.txt", None):
            with self.subTest(wrong=wrong), self.assertRaisesRegex(PlanError, "inputs are paths, patterns, or lists"):
                self.told(wrong)


class Commands(unittest.TestCase):
    def test_what_is_no_list_of_words_is_named(self) -> None:
        for wrong, what in (
            (3, "not a int"),
            (print, "not a builtin"),
            ({"a": 1}, "not a dict"),
            (iter("a"), "not a "),
        ):
            with self.subTest(wrong=wrong), self.assertRaisesRegex(TypeError, f"command= is a list of words, {what}"):
                run(command=wrong)  # type: ignore[arg-type]

    def test_words_that_are_none_are_named(self) -> None:
        for wrong in (None, ["train.py"], b"train.py"):
            with self.subTest(wrong=wrong), self.assertRaisesRegex(TypeError, "in command= is a .*words are text"):
                run(command=["python", wrong])


class DryRuns(Mapped):
    def printed(self, call: Callable[[], object]) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertIsNone(call())
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["a.txt", "model.py"])
        return said.getvalue()

    def test_a_run_is_told_and_not_started(self) -> None:
        said = self.printed(lambda: run(command=["echo", "{lr}"], sets={"lr": [1, 2]}, gpus="none", dry_run=True))
        self.assertRegex(said, r"run/lr=1\s+echo 1\nrun/lr=2\s+echo 2\n2 jobs in 1 stage; nothing was started\n$")

    def test_a_map_is_told_and_not_started(self) -> None:
        for inputs in ("a.txt", ["a.txt"]):
            with self.subTest(inputs=inputs):
                said = self.printed(lambda given=inputs: self.told(given, dry_run=True))  # type: ignore[misc]
                self.assertRegex(said, r"^1 item, 1 worker\n[^$]*nothing was started\n$")

    def test_mistakes_are_the_same_errors(self) -> None:
        with self.assertRaisesRegex(PlanError, "retries"):
            run(command=["true"], retries="many", dry_run=True)
        with self.assertRaisesRegex(PlanError, "cannot read nowhere.toml"):
            run("nowhere.toml", dry_run=True)


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
        self.assertIn("`.resume(failed=True, accept_changes=True)` goes on with", said)
        self.assertNotIn("--", said)
        made.resume(accept_changes=True, batch=8, failed=True, quiet=True)
        self.assertEqual((made.state, [row["a"] for row in made.results(as_="list")]), ("succeeded", [1, 2]))


if __name__ == "__main__":
    unittest.main()
