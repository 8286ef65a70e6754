"""A stage cleans at its end whatever happens in it; an isolated one runs elsewhere and leaves nothing."""

from __future__ import annotations

import asyncio
import contextlib
import io
import math
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import warnings
from pathlib import Path
from typing import Any, Callable, Iterator, List, Tuple
from unittest import mock

import gpulane
from gpulane import _cleanup, _stage

from . import isolated_stages

HERE = Path(__file__).resolve().parent


class Stages(unittest.TestCase):
    def setUp(self) -> None:
        _cleanup._calls.clear()
        self.cleaned = 0
        patch = mock.patch.object(_stage, "free", self.free)
        patch.start()
        self.addCleanup(patch.stop)

    def free(self) -> _cleanup.Freed:
        self.cleaned += 1
        return _cleanup.Freed()

    def said(self, work: Any) -> str:
        with contextlib.redirect_stderr(io.StringIO()) as said:
            work()
        return said.getvalue()

    def test_a_block_is_cleaned_after_once(self) -> None:
        def work() -> None:
            with gpulane.stage("deconvolution") as stage:
                self.assertEqual(self.cleaned, 0)
            self.assertEqual(stage.freed, _cleanup.Freed())
            self.assertGreaterEqual(stage.seconds or -1, 0)

        self.assertRegex(self.said(work), r"^deconvolution: \d+\.\d s, no GPU memory to free .*, stage complete\n$")
        self.assertEqual(self.cleaned, 1)

    def test_an_error_goes_on_after_the_cleaning(self) -> None:
        def work() -> None:
            with self.assertRaisesRegex(ZeroDivisionError, "division"), gpulane.stage("deconvolution"):
                1 / 0  # noqa: B018

        self.assertRegex(self.said(work), r"stage failed: ZeroDivisionError\n$")
        self.assertEqual(self.cleaned, 1)

    def test_a_function_is_a_stage_by_its_own_name_or_another(self) -> None:
        @gpulane.stage
        def blur(image: int) -> int:
            """Blurs."""
            return image + 1

        @gpulane.stage("sharpening")
        def sharpen() -> None: ...

        @gpulane.stage(quiet=True)
        def silent() -> None: ...

        self.assertRegex(self.said(lambda: self.assertEqual(blur(1), 2)), r"^blur: ")
        self.assertRegex(self.said(sharpen), r"^sharpening: ")
        self.assertEqual(self.said(silent), "")
        self.assertEqual((blur.__name__, blur.__doc__), ("blur", "Blurs."))
        self.assertEqual(self.cleaned, 3)

    def test_variables_of_a_function_are_gone_when_it_is_cleaned(self) -> None:
        class Held:
            pass

        alive: List[bool] = []

        def free() -> _cleanup.Freed:
            import gc

            alive.append(any(isinstance(each, Held) for each in gc.get_objects()))
            return _cleanup.Freed()

        @gpulane.stage(quiet=True)
        def work() -> None:
            held = Held()  # noqa: F841

        with mock.patch.object(_stage, "free", free):
            work()
        self.assertEqual(alive, [False])

    def test_an_async_function_is_cleaned_after_it_is_done(self) -> None:
        @gpulane.stage(quiet=True)
        async def work() -> int:
            await asyncio.sleep(0)
            self.assertEqual(self.cleaned, 0)
            return 3

        self.assertEqual(asyncio.run(work()), 3)
        self.assertEqual(self.cleaned, 1)

    def test_stages_stand_in_stages(self) -> None:
        one = gpulane.stage("one", quiet=True)
        with one, gpulane.stage("two", quiet=True), one:
            pass
        self.assertEqual(self.cleaned, 3)

    def test_generators_are_refused(self) -> None:
        def numbers() -> Iterator[int]:
            yield 1

        with self.assertRaisesRegex(TypeError, "numbers is a generator"):
            gpulane.stage(numbers)

    def warned(self, work: Callable[[], None]) -> List[warnings.WarningMessage]:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            work()
        return told

    def test_a_loop_of_stages_is_warned_of_at_its_line(self) -> None:
        @gpulane.stage(quiet=True)
        def step() -> None: ...

        def blocks() -> None:
            for _ in range(5):
                with gpulane.stage("step", quiet=True):
                    pass

        def calls() -> None:
            for _ in range(5):
                step()

        for loop in (blocks, calls):
            with self.subTest(loop=loop.__name__):
                (told,) = self.warned(loop)
                self.assertRegex(str(told.message), "^5 short stages .*Put one stage around the loop")
                self.assertEqual(told.filename, __file__)
                first = loop.__code__.co_firstlineno
                self.assertIn(told.lineno, range(first + 2, first + 4))

    def test_one_after_another_is_no_loop(self) -> None:
        def work() -> None:
            with gpulane.stage("one", quiet=True):
                pass
            with gpulane.stage("two", quiet=True):
                pass
            with gpulane.stage("three", quiet=True):
                pass
            with gpulane.stage("four", quiet=True):
                pass
            with gpulane.stage("five", quiet=True):
                pass

        self.assertEqual(self.warned(work), [])

    def test_a_name_is_text(self) -> None:
        with self.assertRaisesRegex(TypeError, "a stage's name is text, not 3"):
            gpulane.stage(3)  # type: ignore[call-overload]

    def test_stages_that_take_their_time_are_no_loop(self) -> None:
        def work() -> None:
            for _ in range(9):
                _stage.Stage("step", isolate=False, quiet=True).end(1.5)

        self.assertEqual(self.warned(work), [])

    def test_a_cleanup_is_not_a_stage(self) -> None:
        def work() -> None:
            for _ in range(4):
                gpulane.cleanup(quiet=True)
                with gpulane.stage(quiet=True):
                    pass

        self.assertEqual(self.warned(work), [])


class Isolated(unittest.TestCase):
    def test_more_descriptors_than_select_knows(self) -> None:
        least, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        if 0 <= most < 2048:
            self.skipTest(f"only {most} descriptors are allowed here")
        resource.setrlimit(resource.RLIMIT_NOFILE, (2048, most))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (least, most))
        null = os.open(os.devnull, os.O_RDONLY)
        many = [null] + [os.dup(null) for _ in range(1100)]
        for descriptor in many:
            self.addCleanup(os.close, descriptor)
        self.assertEqual(gpulane.stage(isolate=True, quiet=True)(math.sqrt)(9), 3)

    def test_it_runs_in_a_fresh_process_each_time(self) -> None:
        first, second = isolated_stages.where(1, key="v"), isolated_stages.where()
        self.assertEqual((first["args"], first["kwargs"], first["argv"]), ((1,), {"key": "v"}, sys.argv))
        self.assertEqual((first["calls"], second["calls"], isolated_stages.calls), (1, 1, []))
        self.assertEqual(len({first["pid"], second["pid"], os.getpid()}), 3)

    def test_large_arguments_and_results_come_through(self) -> None:
        data = os.urandom(1 << 20) * 5
        self.assertEqual(isolated_stages.Grouped.double(data), data * 2)

    def test_functions_of_modules_and_under_other_decorators(self) -> None:
        self.assertEqual(gpulane.stage(isolate=True, quiet=True)(math.sqrt)(9), 3)
        self.assertEqual(isolated_stages.decorated(4), [4])

    def test_a_line_says_where_it_was(self) -> None:
        with contextlib.redirect_stderr(io.StringIO()) as said:
            gpulane.stage("roots", isolate=True)(math.sqrt)(9)
            with self.assertRaises(ValueError):
                gpulane.stage("roots", isolate=True)(math.sqrt)(-1)
        first, second = said.getvalue().splitlines()
        self.assertRegex(first, r"^roots: \d+\.\d s in a process of its own, gone with all .*, stage complete$")
        self.assertRegex(second, r"stage failed: \w+$")

    def test_exceptions_come_back_with_their_traceback(self) -> None:
        with self.assertRaisesRegex(KeyError, "no such thing") as caught:
            isolated_stages.fail()
        cause = str(caught.exception.__cause__)
        self.assertIn('raise KeyError("no such thing")', cause)
        self.assertNotIn("_isolated.py", cause)

    def test_an_exception_that_wants_other_arguments_keeps_its_class(self) -> None:
        with self.assertRaisesRegex(isolated_stages.Odd, "^a b$") as caught:
            isolated_stages.fail_oddly()
        self.assertEqual((caught.exception.first, caught.exception.args), ("a", ("a b",)))
        self.assertIn("raise Odd", str(caught.exception.__cause__))

    def test_an_exception_that_cannot_be_made_again_is_told(self) -> None:
        for kind in ("Holding", "OfTheSystem", "Hidden"):
            with self.subTest(kind=kind), self.assertRaisesRegex(RuntimeError, f"^{kind}: a b$") as caught:
                isolated_stages.fail_as(kind)
            self.assertIs(type(caught.exception), RuntimeError)
            self.assertIn(f"{kind}: a b", str(caught.exception.__cause__))

    def test_results_on_the_gpu_are_refused(self) -> None:
        with self.assertRaisesRegex(TypeError, "`on_the_gpu` returns what lives on the GPU.*cpu"):
            isolated_stages.on_the_gpu()

    def test_what_cannot_be_pickled_is_named(self) -> None:
        with self.assertRaisesRegex(TypeError, "`unpicklable` returns what cannot be pickled"):
            isolated_stages.unpicklable()
        with self.assertRaisesRegex(TypeError, "arguments of an isolated stage are pickled"):
            isolated_stages.where(lambda: 1)

    def test_a_process_that_dies_says_how(self) -> None:
        with self.assertRaisesRegex(gpulane.StageDied, "killed: its process ended without a result .ended by SIGKILL."):
            isolated_stages.killed()
        with self.assertRaisesRegex(gpulane.StageDied, "exit code 3"):
            isolated_stages.leave(3)

    def test_functions_nobody_else_finds_are_refused(self) -> None:
        def inner() -> None: ...

        in_a_cell = lambda: None  # noqa: E731
        in_a_cell.__module__, in_a_cell.__qualname__ = "__main__", "work"
        with self.assertRaisesRegex(ValueError, "made inside another function"):
            gpulane.stage(isolate=True, quiet=True)(inner)()
        with self.assertRaisesRegex(ValueError, "%%writefile stages.py.*from stages import work"):
            gpulane.stage(isolate=True, quiet=True)(in_a_cell)()

    def test_nothing_is_said_of_a_process_that_never_was(self) -> None:
        def inner() -> None: ...

        with contextlib.redirect_stderr(io.StringIO()) as said:
            with self.assertRaisesRegex(ValueError, "made inside another function"):
                gpulane.stage("work", isolate=True)(inner)()
            with self.assertRaisesRegex(TypeError, "arguments of an isolated stage are pickled"):
                gpulane.stage("work", isolate=True)(math.sqrt)(lambda: 1)
        self.assertEqual(said.getvalue(), "")

    def test_a_block_cannot_be_isolated(self) -> None:
        with self.assertRaisesRegex(ValueError, "decorate that: @gpulane.stage"), gpulane.stage("x", isolate=True):
            self.fail("it was entered")

    def test_stdout_stays_the_functions(self) -> None:
        script = "from tests import isolated_stages; isolated_stages.talk()"
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=HERE.parent, capture_output=True, check=True, text=True
        )
        self.assertEqual((done.stdout, done.stderr), ("to stdout\n", "to stderr\n"))

    def test_no_descriptors_are_left_open(self) -> None:
        isolated_stages.where()
        before = os.listdir("/proc/self/fd")
        isolated_stages.where()
        with self.assertRaises(gpulane.StageDied):
            isolated_stages.leave(1)
        self.assertEqual(len(os.listdir("/proc/self/fd")), len(before))


class Leftovers(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def assert_ended(self, pid: int) -> None:
        """It ends, or is a zombie of nobody's concern, before the deadline."""
        deadline = time.monotonic() + 20
        while is_alive(pid):
            self.assertLess(time.monotonic(), deadline, f"process {pid} is still alive")
            time.sleep(0.01)

    def test_what_a_stage_started_ends_with_it(self) -> None:
        self.assert_ended(isolated_stages.with_a_child_that_stays())

    def test_files_it_has_not_closed_are_written(self) -> None:
        isolated_stages.keeps_files(str(self.folder))
        self.assertEqual([(self.folder / f"{name}.txt").read_text() for name in ("module", "thread")], ["all", "all"])

    def test_an_exit_that_takes_too_long_is_told(self) -> None:
        with mock.patch("gpulane._isolate.EXIT_S", 0.5):
            with self.assertWarnsRegex(
                RuntimeWarning, "exits_slowly: .* did not exit within 0.5 s, and was killed"
            ) as told:
                self.assertEqual(isolated_stages.exits_slowly(), "answered")
        self.assertEqual(told.filename, __file__)

    def test_a_child_that_holds_the_pipes_does_not_hide_a_death(self) -> None:
        file = self.folder / "child"
        with self.assertRaisesRegex(gpulane.StageDied, "exit code 4"):
            isolated_stages.die_with_a_child_that_stays(str(file))
        self.assert_ended(int(file.read_text()))

    def caller(self, call: str) -> Tuple[subprocess.Popen[str], int]:
        """Another Python that calls a stage which waits; and the stage's own process."""
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        script = f"from tests import isolated_stages; isolated_stages.wait({str(fifo)!r}{call})"
        caller = subprocess.Popen(
            [sys.executable, "-c", script], cwd=HERE.parent, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        self.addCleanup(caller.communicate)
        self.addCleanup(caller.kill)
        with open(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK), encoding="utf-8") as told:
            self.assertTrue(select.select([told], [], [], 60)[0], "the stage never began")
            return caller, int(told.read())

    def test_ctrl_c_ends_it(self) -> None:
        for call in ("", ", stubborn=True"):
            with self.subTest(call=call):
                caller, stage = self.caller(call)
                caller.send_signal(signal.SIGINT)
                _, said = caller.communicate(timeout=60)
                self.assertIn("KeyboardInterrupt", said)
                self.assertFalse(is_alive(stage))
                (self.folder / "fifo").unlink()

    def test_it_dies_with_its_caller(self) -> None:
        caller, stage = self.caller("")
        caller.kill()
        caller.wait()
        self.assert_ended(stage)


def is_alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


if __name__ == "__main__":
    unittest.main()
