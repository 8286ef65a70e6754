"""What the program says, as Python users read it: their calls and arguments instead of commands and options."""

from __future__ import annotations

import pickle
import re
import subprocess
import unittest
from typing import Any, Dict, Set

import gpulane
from gpulane._runs import GpulaneError, PlanError, ResourcesMissing, Run, map, run
from gpulane._runs._advice import in_python
from gpulane._runs._options import MAP, RESUME, RUN, STAGE
from gpulane._runs._state import RunState

from .real_gpulane import BUILT, WithGpulane

QUIET: Dict[str, Any] = {"gpus": "none", "quiet": True}


class Words(unittest.TestCase):
    def test_commands_and_options_become_calls_and_arguments(self) -> None:
        for said, told in (
            ("error: a is wrong\n\nerror: b is", "a is wrong\n\nerror: b is"),
            ("use --gpus none or --gpus sim:8x24GiB", "use gpus='none' or gpus='sim:8x24GiB'"),
            ("`--max-failures 100%` goes on", "`max_failures='100%'` goes on"),
            ("hint: choose another --run-dir, or empty it", "hint: choose another run_dir=, or empty it"),
            ("write --ring 64MiB or more, --batch 28 or less", "write ring='64MiB' or more, batch=28 or less"),
            ("--gpus nvne: `nvne` is no GPU", "gpus='nvne': `nvne` is no GPU"),
            ("none came free (--wait)", "none came free (wait_for=)"),
            (
                "invalid value 'a' for '--lanes <N>': no\n\nFor more information, try '--help'.",
                "invalid value 'a' for lanes=: no",
            ),
            ("`gpulane resume my run --failed --salvage`", "`gpulane.Run('my run').resume(failed=True, salvage=True)`"),
            ("`gpulane logs out m/worker-0`", "`gpulane.Run('out').logs('m/worker-0', stderr=True)`"),
            ("`--set threshold=0.5`, or `--set`", "args={'threshold': 0.5}, or args="),
        ):
            with self.subTest(said=said):
                self.assertEqual(in_python(said), told)
        self.assertEqual(in_python("then `gpulane resume x --failed`", run=True), "then `.resume(failed=True)`")

    def test_what_is_no_advice_stays(self) -> None:
        for said in (
            'x\n  |\n5 | command = ["a", "--out", "b"]\n  = help: write `["a", "--out"]`',
            "see nvidia-smi --gpu-reset",
            "`gpulane init` writes a starter plan",
            'x\n4 | command = ["a", "--set", "lr=2", "`gpulane resume r`"]\n  |   ^^^',
            "  │ usage: train.py --gpus 3 --set lr=1",
            "  again:    gpulane resume r --failed",
        ):
            self.assertEqual(in_python(said), said)
        self.assertEqual(in_python("note: plan.toml is new\nerror: no --gpus 3"), "no gpus=3")

    def test_what_a_model_says_stays(self) -> None:
        own = "KeyError: pass --gpus 3, see `gpulane resume r`"
        for told, words in (
            (f"the model cannot be set up: {own}; its log has it: `gpulane logs r w/0`; mend it", "`.logs('w/0'"),
            (f"{own}; nothing succeeded. Mend the model, then `gpulane resume r --failed`", "`.resume(failed=True)`"),
        ):
            text = RunState({"name": "x", "stages": [], "jobs": []})._in_python(told)
            self.assertIn(own, text)
            self.assertIn(words, text)


class Refusals(WithGpulane):
    def setUp(self) -> None:
        super().setUp()
        self.write("model.py", "def same(texts):\n    return texts\n")
        self.write("a.txt", "a")

    def mapped(self, **more: Any) -> Run:
        settings: Dict[str, Any] = {"out": "out", "decode": "text", "format": "jsonl", **QUIET, **more}
        return map("model.py:same", "a.txt", **settings)

    def test_a_result_that_is_there(self) -> None:
        self.mapped()
        with self.assertRaises(PlanError) as refused:
            self.mapped()
        self.assertEqual(
            str(refused.exception),
            "out holds a run already\n"
            "hint: `gpulane.Run('out')` shows it, its `.resume()` goes on with it; or choose another out=",
        )

    def test_values_that_are_wrong(self) -> None:
        with self.assertRaises(PlanError) as refused:
            self.mapped(decode="txt")
        said = r"^`decode`: `txt` is no way to decode \(did you mean `text`\?\); write [^\n]*$"
        self.assertRegex(str(refused.exception), said)
        with self.assertRaisesRegex(PlanError, "^invalid value 'many' for lanes=: [^-]*$"):
            self.mapped(lanes="many")
        with self.assertRaisesRegex(ResourcesMissing, "^GPU 99 is not here: .*; use gpus='none' or gpus='sim:"):
            self.mapped(gpus=99)

    def test_arguments_that_are_not_known_are_told_before_anything_starts(self) -> None:
        for call, told in (
            (
                lambda: self.mapped(batch_size=3),
                "map.. got an .* 'batch_size'; did you mean 'batch'. .for the model: args=",
            ),
            (lambda: run(command=["true"], lr=[1, 2]), r"run.. got an .* 'lr' .for the jobs: sets=.'lr': …"),
            (lambda: run(command=["true"], retrys=1), "did you mean 'retries'"),
            (lambda: run(command=["true"], sets=[{"lr": 1}]), "sets= is a dict, not a list: sets={'lr'"),  # type: ignore[call-overload]
        ):
            with self.subTest(told=told), self.assertRaisesRegex(TypeError, told):
                call()
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["a.txt", "model.py"])
        with self.assertRaisesRegex(TypeError, "resume.. got an .* 'nobatch'; did you mean 'batch'"):
            self.mapped().resume(nobatch=3)
        self.assertTrue(Run("out").resume(wait_for="1h").ok, "as of run and map")
        with self.assertRaisesRegex(TypeError, "'faild'; did you mean 'failed'"):
            Run("out").resume(faild=True)

    def test_what_is_known_is_what_the_program_takes(self) -> None:
        ours = {"out", "decode", "batch", "format", "set", "gpus", "lanes", "python", "wait", "dry-run"}
        shells = {"help", "json", "quiet", "detach"}
        self.assertEqual(self.options("map") - ours - shells, {name.replace("_", "-") for name in MAP})
        self.assertEqual(self.options("resume") - {"failed", "wait"} - shells, {n.replace("_", "-") for n in RESUME})
        self.assertLessEqual({name.replace("_", "-") for name in RUN}, self.options("run"))
        with self.assertRaises(PlanError) as refused:
            run({"name": "x", "stage": [{"name": "s", "command": ["true"], "qqqqqqqq": 1}]})
        known = re.search("known here: (.*)", str(refused.exception))
        assert known is not None
        of_matrix = {"zip", "include", "exclude", "job_gpus"}
        self.assertEqual(
            set(known[1].split(", ")) - {"name", "command", "entry", "gpus", "map"}, set(STAGE) - of_matrix
        )

    def options(self, command: str) -> Set[str]:
        told = subprocess.run([str(BUILT), command, "--help"], capture_output=True, text=True, check=True).stdout
        return set(re.findall(r"^ +(?:-\w, )?--([a-z-]+)", told, re.MULTILINE))


class Errors(unittest.TestCase):
    def test_they_are_shown_and_pickled_as_what_is_imported(self) -> None:
        for name in gpulane.__all__:
            kind = getattr(gpulane, name)
            if isinstance(kind, type) and issubclass(kind, Exception):
                self.assertEqual(kind.__module__, "gpulane")
                again = pickle.loads(pickle.dumps(kind("x")))
                self.assertEqual((type(again), str(again)), (kind, "x"))
        self.assertTrue(issubclass(gpulane.RunFailed, GpulaneError))


if __name__ == "__main__":
    unittest.main()
