"""What a job says to gpulane arrives, and without a gpulane nothing happens."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
from pathlib import Path
from typing import Any, Dict, Iterator, List
from unittest import mock

import gpulane

HERE = Path(__file__).resolve().parent


class Scalar:
    """As numpy and torch have them."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def item(self) -> Any:
        if isinstance(self.value, list):
            raise ValueError("only one element tensors can be converted to Python scalars")
        return self.value


class InATemporaryFolder(unittest.TestCase):
    """Each test has a folder of its own and an environment without a gpulane."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        clean = {name: value for name, value in os.environ.items() if not name.startswith("GPULANE_")}
        patch = mock.patch.dict(os.environ, clean, clear=True)
        patch.start()
        self.addCleanup(patch.stop)

    @contextlib.contextmanager
    def inside(self, folder: Path) -> Iterator[None]:
        before = os.getcwd()
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


class Metrics(InATemporaryFolder):
    def setUp(self) -> None:
        super().setUp()
        self.file = self.folder / "metrics.jsonl"
        os.environ["GPULANE_METRICS"] = str(self.file)

    def lines(self) -> List[Dict[str, Any]]:
        return [json.loads(line) for line in self.file.read_text().splitlines()]

    def test_a_call_is_a_line_with_its_time(self) -> None:
        gpulane.log(step=1, loss=0.5, note="warm", best=True, missing=None)
        gpulane.log(step=2)
        first, second = self.lines()
        self.assertRegex(first.pop("time"), r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertEqual(first, {"step": 1, "loss": 0.5, "note": "warm", "best": True, "missing": None})
        self.assertEqual(second["step"], 2)

    def test_nothing_is_printed(self) -> None:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            gpulane.log(step=1)
        self.assertEqual(printed.getvalue(), "")

    def test_what_json_lacks_is_said_in_words(self) -> None:
        gpulane.log(a=float("nan"), b=float("inf"), c=float("-inf"), d=[float("nan"), 1.0])
        line = self.lines()[0]
        self.assertEqual([line[key] for key in "abcd"], ["NaN", "Infinity", "-Infinity", ["NaN", 1.0]])

    def test_scalars_of_libraries_are_numbers(self) -> None:
        gpulane.log(a=Scalar(3), b=Scalar(0.25), c=Scalar(float("nan")), d={"x": Scalar(True)})
        line = self.lines()[0]
        self.assertEqual([line[key] for key in "abcd"], [3, 0.25, "NaN", {"x": True}])

    def test_anything_else_is_told_in_short(self) -> None:
        gpulane.log(whole=Scalar([1, 2]), path=Path("a/b"), long="x" * 5000)
        line = self.lines()[0]
        self.assertIn("Scalar", line["whole"])
        self.assertEqual(line["path"], "a/b")
        self.assertEqual(len(line["long"]), 1000)

    def test_a_dict_will_do(self) -> None:
        gpulane.log({"loss": 1, 2: "two"}, step=3)
        self.assertEqual({**self.lines()[0], "time": ""}, {"loss": 1, "2": "two", "step": 3, "time": ""})
        with self.assertWarnsRegex(RuntimeWarning, "metrics are lost"):
            gpulane.log(3)  # type: ignore[arg-type]

    def test_lines_of_many_threads_do_not_mix(self) -> None:
        def write(thread: int) -> None:
            for step in range(200):
                gpulane.log(thread=thread, step=step, text="x" * 300)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seen = {(line["thread"], line["step"]) for line in self.lines()}
        self.assertEqual(len(seen), 8 * 200)

    def test_a_forked_child_writes_by_itself(self) -> None:
        gpulane.log(who="parent")
        child = os.fork()
        if child == 0:
            gpulane.log(who="child")
            os._exit(0)
        os.waitpid(child, 0)
        gpulane.log(who="parent")
        self.assertEqual([line["who"] for line in self.lines()], ["parent", "child", "parent"])

    def test_a_file_that_cannot_be_written_is_warned_of_once(self) -> None:
        os.environ["GPULANE_METRICS"] = str(self.folder / "missing" / "metrics.jsonl")
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            for step in range(3):
                gpulane.log(step=step)
        self.assertEqual(len(warned), 1)
        self.assertIn("metrics.jsonl: No such file or directory", str(warned[0].message))

    def test_nothing_is_raised_even_where_warnings_are_errors(self) -> None:
        class Rude:
            def __str__(self) -> str:
                raise RuntimeError(f"not for you {id(self)}")

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            gpulane.log(step=1, what=Rude())
            gpulane.log(step=2)
        self.assertEqual([line["step"] for line in self.lines()], [2])

    def test_without_a_gpulane_nothing_happens(self) -> None:
        del os.environ["GPULANE_METRICS"]
        gpulane.log(step=1)
        self.assertEqual(os.listdir(self.folder), [])

    def test_time_is_when_it_was_written(self) -> None:
        with self.assertWarnsRegex(RuntimeWarning, "`time` is when"):
            gpulane.log(time=3.5)
        self.assertIn("T", self.lines()[0]["time"])


class Done(InATemporaryFolder):
    def test_the_file_is_made_and_the_bell_rung(self) -> None:
        control = self.folder / "control"
        control.mkdir()
        os.mkfifo(control / "bell")
        bell = os.open(control / "bell", os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, bell)
        os.environ.update(GPULANE_DONE=str(self.folder / "done"), GPULANE_RUN=str(self.folder))
        gpulane.done()
        self.assertTrue((self.folder / "done").exists())
        self.assertEqual(os.read(bell, 10), b"!")

    def test_a_bell_nobody_hears_does_not_matter(self) -> None:
        (self.folder / "control").mkdir()
        os.mkfifo(self.folder / "control" / "bell")
        os.environ.update(GPULANE_DONE=str(self.folder / "done"), GPULANE_RUN=str(self.folder))
        gpulane.done()
        gpulane.done()
        self.assertTrue((self.folder / "done").exists())

    def test_what_was_printed_is_written_before(self) -> None:
        script = "import os, gpulane; print('last words'); gpulane.done(); os._exit(0)"
        environment = {**os.environ, "GPULANE_DONE": str(self.folder / "done"), "PYTHONPATH": str(HERE.parent)}
        environment.pop("PYTHONUNBUFFERED", None)
        printed = subprocess.run([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, check=True)
        self.assertEqual(printed.stdout, b"last words\n")

    def test_a_place_that_is_gone_is_an_error_with_its_name(self) -> None:
        os.environ["GPULANE_DONE"] = str(self.folder / "missing" / "done")
        with self.assertRaisesRegex(OSError, "cannot be told that the work is done"):
            gpulane.done()

    def test_without_a_gpulane_nothing_happens(self) -> None:
        gpulane.done()
        self.assertEqual(os.listdir(self.folder), [])


class Config(InATemporaryFolder):
    def test_it_comes_from_gpulane_first(self) -> None:
        file = self.folder / "config.json"
        file.write_text('{"from": "file"}')
        with mock.patch.object(sys, "argv", ["train.py", "--config", '{"from": "argument"}']):
            self.assertEqual(gpulane.config(), {"from": "argument"})
            os.environ["GPULANE_CONFIG_FILE"] = str(file)
            self.assertEqual(gpulane.config(), {"from": "file"})
            os.environ["GPULANE_CONFIG"] = '{"from": "gpulane"}'
            self.assertEqual(gpulane.config(), {"from": "gpulane"})

    def test_by_hand_it_is_text_or_a_path(self) -> None:
        file = self.folder / "config.json"
        file.write_text('{"lr": 0.1}')
        for argv in (
            ["--config", str(file)],
            [f"--config={file}"],
            ['--config={"lr": 0.1}'],
            ["-v", "--config", '{"lr": 0.1}'],
        ):
            with self.subTest(argv=argv), mock.patch.object(sys, "argv", ["train.py", *argv]):
                self.assertEqual(gpulane.config(), {"lr": 0.1})

    def test_without_any_it_is_empty(self) -> None:
        for argv in ([], ["--configure", "x"]):
            with self.subTest(argv=argv), mock.patch.object(sys, "argv", ["train.py", *argv]):
                self.assertEqual(gpulane.config(), {})

    def test_an_option_without_a_value_is_told(self) -> None:
        for argv in (["--config"], ["--config="], ["--config", "--out", "x"]):
            with self.subTest(argv=argv), mock.patch.object(sys, "argv", ["train.py", *argv]):
                with self.assertRaisesRegex(ValueError, "--config needs a value: write --config config.json"):
                    gpulane.config(lr=1)
        with mock.patch.object(sys, "argv", ["train.py", "--out"]):
            self.assertEqual(gpulane.config(lr=1), {"lr": 1})
            with self.assertRaisesRegex(ValueError, "--out needs a value: write --out DIR"):
                gpulane.out()

    def test_by_hand_too_it_must_be_an_object(self) -> None:
        for text, what in (("[1]", "list"), ('"lr"', "str")):
            with self.subTest(text=text), mock.patch.object(sys, "argv", ["train.py", "--config", text]):
                with self.assertRaisesRegex(ValueError, f"--config must be a JSON object, not {what}"):
                    gpulane.config(lr=1)

    def test_a_file_may_be_called_anything(self) -> None:
        (self.folder / "[1]").write_text('{"lr": 0.1}')
        with mock.patch.object(sys, "argv", ["train.py", "--config", "[1]"]), self.inside(self.folder):
            self.assertEqual(gpulane.config(), {"lr": 0.1})

    def test_it_stands_over_the_defaults(self) -> None:
        os.environ["GPULANE_CONFIG"] = '{"lr": 0.1, "net": {"width": 3}}'
        given = gpulane.config(lr=1e-3, epochs=5, net={"width": 1, "depth": 2})
        self.assertEqual(given, {"lr": 0.1, "epochs": 5, "net": {"width": 3}})

    def test_a_file_can_be_asked_for(self) -> None:
        file = self.folder / "config.json"
        file.write_text('{"lr": 0.1}')
        with mock.patch.object(sys, "argv", ["train.py"]):
            self.assertEqual(gpulane.config(str(file), lr=1, path=2), {"lr": 0.1, "path": 2})
            self.assertEqual(gpulane.config('{"lr": 0.2}'), {"lr": 0.2})
            self.assertEqual(gpulane.config(file), {"lr": 0.1})  # type: ignore[arg-type]
            with self.assertRaisesRegex(TypeError, r"write gpulane.config\(\*\*defaults\)"):
                gpulane.config({"lr": 1})  # type: ignore[arg-type]

    def test_a_file_stands_below_what_the_job_is_given(self) -> None:
        """As by hand, so in a sweep: otherwise its other keys would be missing there."""
        file = self.folder / "config.json"
        file.write_text('{"lr": 0.1, "width": 8}')
        with mock.patch.object(sys, "argv", ["train.py", "--config", '{"lr": 3}']):
            self.assertEqual(gpulane.config(str(file), lr=1, depth=2), {"lr": 3, "width": 8, "depth": 2})
        os.environ["GPULANE_CONFIG"] = '{"lr": 4}'
        self.assertEqual(gpulane.config(str(file)), {"lr": 4, "width": 8})

    def test_a_file_that_is_not_there_is_named(self) -> None:
        with mock.patch.object(sys, "argv", ["train.py", "--config", "missing.json"]):
            with self.assertRaisesRegex(FileNotFoundError, "--config: the config cannot be read.*missing.json"):
                gpulane.config()

    def test_what_is_no_object_is_named(self) -> None:
        for text, what in (("[1]", "must be a JSON object, not list"), ("{", "is not JSON")):
            os.environ["GPULANE_CONFIG"] = text
            with self.subTest(text=text), self.assertRaisesRegex(ValueError, f"GPULANE_CONFIG {what}"):
                gpulane.config()


class Out(InATemporaryFolder):
    def test_it_is_where_gpulane_says(self) -> None:
        os.environ["GPULANE_OUT"] = str(self.folder / "a" / "out")
        self.assertEqual(gpulane.out(), self.folder / "a" / "out")
        self.assertTrue(gpulane.out().is_dir())

    def test_a_run_directory_that_was_moved_is_not_made_again(self) -> None:
        run = self.folder / "run"
        with mock.patch.dict(os.environ, GPULANE_RUN=str(run), GPULANE_OUT=str(run / "jobs/s/main/attempt-1/out")):
            with self.assertRaisesRegex(FileNotFoundError, "moved away or removed"):
                gpulane.out()
        self.assertFalse(run.exists())

    def test_without_a_gpulane_it_is_made_here(self) -> None:
        with self.inside(self.folder):
            self.assertEqual(gpulane.out(), Path("out"))
            self.assertTrue((self.folder / "out").is_dir())

    def test_a_file_in_its_place_is_named(self) -> None:
        (self.folder / "file").write_text("")
        for place in ("file", "file/below"):
            with mock.patch.object(sys, "argv", ["train.py", "--out", str(self.folder / place)]):
                with self.assertRaisesRegex(OSError, "a file stands where the folder for output should be.*file"):
                    gpulane.out()

    def test_by_hand_it_can_be_said(self) -> None:
        for argv in (["--out", str(self.folder / "there")], [f"--out={self.folder / 'there'}"]):
            with self.subTest(argv=argv), mock.patch.object(sys, "argv", ["train.py", *argv]):
                self.assertEqual(gpulane.out(), self.folder / "there")
                os.environ["GPULANE_OUT"] = str(self.folder / "sweep")
                self.assertEqual(gpulane.out(), self.folder / "sweep")
                del os.environ["GPULANE_OUT"]


class Seed(InATemporaryFolder):
    def setUp(self) -> None:
        super().setUp()
        chosen = mock.patch.dict("gpulane._job._chosen", clear=True)
        chosen.start()
        self.addCleanup(chosen.stop)

    def test_it_is_given_or_the_configs_or_zero(self) -> None:
        self.assertEqual(gpulane.seed(5), 5)
        self.assertEqual(gpulane.seed(), 0)
        os.environ["GPULANE_CONFIG"] = '{"seed": 9}'
        self.assertEqual(gpulane.seed(), 9)

    def test_a_default_is_the_configs_too(self) -> None:
        file = self.folder / "config.json"
        file.write_text('{"seed": 9}')
        gpulane.config(lr=0.1, seed=7)
        gpulane.config(lr=0.1)
        self.assertEqual(gpulane.seed(), 7)
        gpulane.config(str(file))
        self.assertEqual(gpulane.seed(), 9)
        os.environ["GPULANE_CONFIG"] = '{"seed": 3}'
        self.assertEqual(gpulane.seed(), 3)

    def test_a_seed_that_is_given_needs_no_job(self) -> None:
        os.environ["GPULANE_RUN"] = str(self.folder)
        self.assertEqual(gpulane.seed(7), 7)
        with self.assertRaisesRegex(RuntimeError, "before there is a job"):
            gpulane.seed()

    def test_a_number_of_numpy_is_a_number(self) -> None:
        class Whole:
            def __index__(self) -> int:
                return 4

        self.assertEqual(gpulane.seed(Whole()), 4)  # type: ignore[arg-type]

    def test_the_same_seed_brings_the_same_numbers(self) -> None:
        gpulane.seed(1)
        first = random.random()
        gpulane.seed(2)
        self.assertNotEqual(random.random(), first)
        gpulane.seed(1)
        self.assertEqual(random.random(), first)

    def test_libraries_that_are_there_are_seeded(self) -> None:
        numpy, torch = mock.Mock(), mock.Mock()
        with mock.patch.dict(sys.modules, {"numpy": numpy, "torch": torch}):
            gpulane.seed(3)
        numpy.random.seed.assert_called_once_with(3)
        torch.manual_seed.assert_called_once_with(3)

    def test_what_is_no_seed_is_refused(self) -> None:
        for wrong in (-1, 2**32, 1.5, "1", True):
            with self.subTest(wrong=wrong), self.assertRaisesRegex(ValueError, "a seed is a whole number"):
                gpulane.seed(wrong)  # type: ignore[arg-type]


class Rank(InATemporaryFolder):
    def setUp(self) -> None:
        super().setUp()
        for name in ("RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS"):
            os.environ.pop(name, None)

    def test_alone_it_is_the_first_of_one(self) -> None:
        self.assertEqual(gpulane.rank(), (0, 1))

    def test_torchrun_comes_before_slurm(self) -> None:
        os.environ.update(SLURM_PROCID="3", SLURM_NTASKS="8")
        self.assertEqual(gpulane.rank(), (3, 8))
        os.environ.update(RANK="1", WORLD_SIZE="2")
        self.assertEqual(gpulane.rank(), (1, 2))

    def test_under_gpulane_slurm_speaks_of_gpulane(self) -> None:
        os.environ.update(SLURM_PROCID="0", SLURM_NTASKS="4", GPULANE_RUN="/runs/a")
        self.assertEqual(gpulane.rank(), (0, 1))

    def test_nonsense_is_not_believed(self) -> None:
        os.environ.update(RANK="x", WORLD_SIZE="2")
        self.assertEqual(gpulane.rank(), (0, 1))
        os.environ.update(RANK="2", WORLD_SIZE="2")
        self.assertEqual(gpulane.rank(), (0, 1))


class Import(unittest.TestCase):
    def test_it_brings_nothing_heavy(self) -> None:
        script = "import sys; before = set(sys.modules); import gpulane; print(*sorted(set(sys.modules) - before))"
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
        # -S: what the interpreter's own site files bring would hide what the package brings.
        argv = [sys.executable, "-S", "-c", script]
        done = subprocess.run(argv, env=environment, stdout=subprocess.PIPE, check=True, text=True)
        self.assertIn("gpulane", done.stdout.split())
        self.assertLess(len(done.stdout.split()), 20)

    def test_a_job_brings_nothing_heavy(self) -> None:
        script = "import sys, gpulane; gpulane.config(); gpulane.log(step=1); gpulane.done(); print(*sys.modules)"
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
        argv = [sys.executable, "-S", "-c", script]
        done = subprocess.run(argv, env=environment, stdout=subprocess.PIPE, check=True, text=True)
        heavy = {"numpy", "torch", "cupy", "IPython", "ctypes", "subprocess", "multiprocessing", "threading", "asyncio"}
        self.assertEqual((heavy | {"socket", "logging", "inspect"}) & set(done.stdout.split()), set())

    def test_every_promised_name_is_there(self) -> None:
        for name in gpulane.__all__:
            with self.subTest(name=name):
                self.assertIn(name, dir(gpulane))
                self.assertTrue(callable(getattr(gpulane, name)))

    def test_its_version_is_the_programs(self) -> None:
        cargo = HERE.parents[1] / "Cargo.toml"
        self.assertIn(f'\nversion = "{gpulane.__version__}"\n', cargo.read_text())

    def test_other_names_are_not(self) -> None:
        with self.assertRaisesRegex(AttributeError, "'gpulane' has no attribute 'nothing'"):
            gpulane.nothing  # noqa: B018


if __name__ == "__main__":
    unittest.main()
