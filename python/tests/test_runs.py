"""Runs from Python with the real program: what is returned, what is refused, and that nothing outlives its Python."""

from __future__ import annotations

import importlib
import os
import pty
import select
import signal
import subprocess
import sys
import textwrap
import threading
import unittest
from html import escape, unescape
from pathlib import Path
from typing import Optional
from unittest import mock

from gpulane._runs import GpulaneError, PlanError, ResourcesMissing, Run, RunFailed, map, run
from gpulane._runs._child import interrupts_later

from .real_gpulane import PATIENCE_S, ROOT, WithGpulane, processes, until

SLEEPER = ["sh", "-c", "echo $$ > pid-{n}; exec sleep 1000"]
"""A job that does not end by itself and says who it is."""

ONCE = "test -e again-{n} && exit 0; : > again-{n}; echo $$ > pid-{n}; exec sleep 1000"
"""One that sleeps when it is run for the first time, and succeeds the second time."""

LOGS = """
    import gpulane
    config = gpulane.config()
    gpulane.log(step=1, loss=1.0)
    gpulane.log(step=2, loss=config["lr"] / 2)
    print("learning with", config["lr"])
    if config["lr"] == 3:
        raise SystemExit("three is too much")
"""


class Sweeps(WithGpulane):
    def sweep(self, **more: object) -> Run:
        script = self.write("train.py", textwrap.dedent(LOGS))
        with mock.patch.dict(os.environ, PYTHONPATH=str(ROOT / "python")):
            return run(command=[sys.executable, script], sets={"lr": [1, 3]}, gpus="none", quiet=True, **more)

    def test_a_run_is_returned_with_what_became_of_each_job(self) -> None:
        sweep = self.sweep()
        self.assertEqual((sweep.state, sweep.ok, sweep.live), ("failed", False, False))
        good, bad = sweep.jobs.values()
        self.assertEqual((good.name, good.status, good.config), ("run/lr=1", "succeeded", {"lr": 1}))
        self.assertTrue(good.out is not None and good.out.is_dir())
        self.assertEqual((bad.status, bad.reason, bad.message, bad.out), ("failed", "exit", "exit code 1", None))

    def test_results_have_config_and_last_metrics(self) -> None:
        good, bad = self.sweep().results(as_="list")
        self.assertEqual((good["config"], good["metrics"]), ({"lr": 1}, {"step": 2, "loss": 0.5}))
        self.assertEqual((bad["status"], bad["metrics"]["loss"]), ("failed", 1.5))
        self.assertGreater(good["seconds"], 0)

    def test_logs_are_there_by_job_and_by_stream(self) -> None:
        sweep = self.sweep()
        self.assertEqual(sweep.logs("run/lr=1"), "learning with 1\n")
        self.assertEqual(sweep.logs("lr=3", stderr=True), "three is too much\n")
        self.assertEqual(sweep.logs(), "== run/lr=1\nlearning with 1\n\n== run/lr=3\nlearning with 3\n")
        with self.assertRaisesRegex(KeyError, "did you mean 'run/lr=1'"):
            sweep.logs("run/lr=11")

    def test_check_says_what_failed_and_failed_where_to_look(self) -> None:
        sweep = self.sweep()
        with self.assertRaisesRegex(RunFailed, "1 of 2 jobs succeeded, 1 failed\n  run/lr=3: exit code 1: three is"):
            sweep.check()
        with self.assertRaisesRegex(RunFailed, r"\nall it said: \.logs\('run/lr=3', stderr=True\)$"):
            sweep.check()
        (failure,) = sweep.failed()
        self.assertEqual((failure["message"], failure["error"]), ("exit code 1", "three is too much"))
        self.assertEqual(failure["log"].read_text(), "three is too much\n")
        self.assertIn("exit code 1: three is too much", sweep._card())
        self.assertIn(escape(".logs('run/lr=3', stderr=True)"), sweep._card())

    def test_a_run_opened_by_its_directory_says_the_same(self) -> None:
        sweep = self.sweep(run_dir="here")
        again = Run("here")
        self.assertEqual(again.results(as_="list"), sweep.results(as_="list"))
        self.assertEqual(repr(again), repr(sweep))
        self.assertEqual(repr(again), f"<gpulane run {sweep.name!r}: failed, 1 of 2 jobs succeeded, 1 failed, here>")

    def test_a_run_is_opened_by_the_beginning_of_its_name(self) -> None:
        for name in ("early", "early-2", "late"):
            run(command=["true"], gpus="none", run_dir=f"runs/{name}", quiet=True)
        self.assertEqual([Run(text).path.name for text in ("la", "early", "runs/late")], ["late", "early", "late"])
        for text, why in (
            ("ea", "may be one of several runs: early, early-2"),
            ("latte", "there is no run 'latte', and none under runs begins so; did you mean 'late'"),
            ("runs", "runs is no run of gpulane: it has no plan.json"),
        ):
            with self.assertRaisesRegex(FileNotFoundError, why):
                Run(text)

    def test_what_failed_is_run_again_when_asked_for(self) -> None:
        sweep = self.sweep()
        sweep.resume(quiet=True)
        self.assertEqual(sweep.jobs["run/lr=3"].attempts, 1, "nothing to do is no reason to do anything")
        self.write("train.py", "")
        sweep.resume(failed=True, quiet=True)
        self.assertEqual((sweep.state, sweep.jobs["run/lr=3"].attempts), ("succeeded", 2))

    def test_two_runs_of_one_second_have_directories_of_their_own(self) -> None:
        with mock.patch("time.strftime", return_value="20260101-000000"):
            paths = [run(command=["true"], gpus="none", quiet=True).path.name for _ in range(2)]
        self.assertEqual(paths, ["true-20260101-000000", "true-20260101-000000-2"])


class Plans(WithGpulane):
    def test_a_file_and_a_dict_are_the_same_plan(self) -> None:
        self.write(
            "sweep.toml", 'name = "sweep"\n[[stage]]\nname = "s"\ncommand = ["true"]\nmatrix = { a = [1, 2.0] }\n'
        )
        plan = {"name": "sweep", "stage": [{"name": "s", "command": ["true"], "matrix": {"a": [1, 2.0]}}]}
        runs = [run("sweep.toml", gpus="none", quiet=True), run(plan, gpus="none", quiet=True)]
        self.assertEqual(*(list(each.jobs) for each in runs))
        self.assertTrue(all(each.path.name.startswith("sweep-") and each.ok for each in runs))

    def test_mistakes_are_told_in_the_programs_words_and_leave_nothing(self) -> None:
        with self.assertRaisesRegex(PlanError, "did you mean `command`(?s:.*)--> the plan, written as TOML:[0-9]"):
            run({"name": "x", "stage": [{"name": "s", "comand": ["true"]}]})
        with self.assertRaisesRegex(PlanError, "cannot read nowhere.toml"):
            run("nowhere.toml")
        self.assertEqual(list(self.folder.glob("runs/*")), [])

    def test_gpus_that_are_not_here(self) -> None:
        with self.assertRaises(ResourcesMissing):
            run(command=["true"], gpus="sim:1x8GiB", job_gpus=2)

    def test_options_go_to_the_stage_or_to_the_run(self) -> None:
        made = run(
            command=["test", "{a}{b}", "!=", "22"],
            sets={"a": [1, 2], "b": [1, 2]},
            zip=[["a", "b"]],
            retries=1,
            gpus="none",
            lanes=2,
            name="zipped",
            quiet=True,
        )
        self.assertEqual([job.attempts for job in made.jobs.values()], [1, 2])
        self.assertEqual((made.name, made._plan["run"]["lanes"]), ("zipped", 2))

    def test_a_function_by_its_name_or_itself(self) -> None:
        self.write("train.py", "def main(config, out):\n    (out / 'lr').write_text(str(config['lr']))\n")
        sys.path.insert(0, str(self.folder))
        self.addCleanup(sys.path.remove, str(self.folder))
        self.addCleanup(sys.modules.pop, "train", None)
        function = importlib.import_module("train").main
        for entry in ("train.py:main", function):
            made = run(entry=entry, sets={"lr": [0.1, 0.3]}, gpus="none", lanes=1, timeout="60s", quiet=True)
            self.assertTrue(made.ok, made.failed())
            self.assertEqual([(job.out / "lr").read_text() for job in made.jobs.values()], ["0.1", "0.3"])
            self.assertEqual((made.name, list(made.jobs)[0]), ("train", "run/lr=0.1"))
            self.assertEqual(made._plan["stages"][0]["command"][0], sys.executable)
        with self.assertRaisesRegex(PlanError, "entry= is a function, or the text FILE.py:NAME, not 3"):
            run(entry=3, gpus="none", quiet=True)  # type: ignore[call-overload]
        with self.assertRaisesRegex(PlanError, "there is no `other`|has no `other`"):
            run(entry="train.py:other", gpus="none", quiet=True)

    def test_what_goes_together_is_said(self) -> None:
        with self.assertRaisesRegex(PlanError, "give a plan, a command or an entry: run"):
            run()
        with self.assertRaisesRegex(PlanError, "give a plan, a command or an entry, not several"):
            run("a.toml", command=["true"])
        with self.assertRaisesRegex(PlanError, "not several"):
            run(command=["true"], entry="train.py:main")
        with self.assertRaisesRegex(PlanError, "a function is no plan; give it as entry="):
            run(print)  # type: ignore[call-overload]
        with self.assertRaisesRegex(PlanError, "retries= goes with command="):
            run("a.toml", retries=1)
        with self.assertRaisesRegex(PlanError, "a list of words"):
            run(command="python train.py")


class Maps(WithGpulane):
    def setUp(self) -> None:
        super().setUp()
        self.write("count.py", "def count(texts):\n    return [{'words': 1 // len(text.split())} for text in texts]\n")
        for number in range(12):
            self.write(f"notes/{number}.txt", "" if number == 7 else "word")

    def count(self, *inputs: object, **more: object) -> Run:
        settings = {"out": "out", "decode": "text", "format": "jsonl", "gpus": "none", "quiet": True, **more}
        return map("count.py:count", *inputs, **settings)  # type: ignore[arg-type]

    def test_rows_come_in_the_order_of_the_items(self) -> None:
        names = [f"notes/{number}.txt" for number in (5, 3, 9, 0)]
        counted = self.count(names, Path("notes/1.txt"), batch=1, lanes=2)
        self.assertEqual(counted.results(as_="list"), [{"item": name, "words": 1} for name in [*names, "notes/1.txt"]])
        self.assertTrue(counted.ok)

    def test_items_that_fail_are_told_with_their_reason(self) -> None:
        counted = self.count("notes")
        (failure,) = counted.failed()
        self.assertEqual((failure["item"], failure["stage"]), ("notes/7.txt", counted.name))
        self.assertIn("ZeroDivisionError", failure["reason"])
        self.assertEqual((counted.state, len(counted.results(as_="list"))), ("failed", 11))
        self.assertIn("11 of 12 items done, 1 failed", repr(counted))

    def test_an_item_that_failed_is_tried_again(self) -> None:
        counted = self.count("notes")
        self.write("notes/7.txt", "word")
        counted.resume(failed=True, quiet=True)
        self.assertEqual((counted.state, counted.failed(), len(counted.results(as_="list"))), ("succeeded", [], 12))

    def test_a_map_that_is_stopped_says_why_once(self) -> None:
        for number in range(90):
            self.write(f"notes/{number}.txt", "")
        counted = self.count("notes", batch=8, lanes=2, workers=2)
        reason = "every item so far failed the same way"
        self.assertEqual(counted._card().count(reason), 1)
        self.assertIn("Mend the model, then `.resume(failed=True)`; `max_failures=", unescape(counted._card()))
        with self.assertRaises(RunFailed) as failed:
            counted.check()
        self.assertEqual(str(failed.exception).count(reason), 1)
        self.assertRegex(str(failed.exception), r"notes/\S+ and \d+ more: ZeroDivisionError")

    def test_results_of_a_stage_that_is_a_map(self) -> None:
        map_stage = {"model": "count.py:count", "input": ["notes/1*.txt"], "decode": "text", "format": "jsonl"}
        plan = {
            "stage": [{"name": "count", "map": map_stage}, {"name": "then", "after": ["count"], "command": ["true"]}]
        }
        both = run({"name": "both", **plan}, gpus="none", quiet=True)
        self.assertEqual([row["job"] for row in both.results(as_="list")], ["then/main"])
        self.assertEqual(
            [row["item"] for row in both.results("count", as_="list")], [f"notes/{n}.txt" for n in (1, 10, 11)]
        )
        with self.assertRaisesRegex(KeyError, "no stage 'cuont'; did you mean 'count'"):
            both.results("cuont")

    def test_a_result_that_is_there_is_not_overwritten(self) -> None:
        self.count("notes/1.txt")
        with self.assertRaisesRegex(PlanError, "out holds a run already"):
            self.count("notes/1.txt")

    def test_lists_that_cannot_be_are_refused(self) -> None:
        for wrong, why in (((), "no input"), ((["a\nb"],), "line break"), (([1],), "not a path")):
            with self.assertRaisesRegex(PlanError, why):
                self.count(*wrong)


class Ends(WithGpulane):
    def start(self, command: object = SLEEPER, jobs: int = 2, **more: object) -> Run:
        begun = run(command=command, sets={"n": range(jobs)}, gpus="none", lanes=2, wait=False, quiet=True, **more)  # type: ignore[arg-type]
        until(lambda: all((self.folder / f"pid-{n}").exists() for n in range(jobs)), "the jobs run")
        return begun

    def test_a_timeout_leaves_the_run_alone(self) -> None:
        begun = self.start()
        with self.assertRaisesRegex(TimeoutError, "it goes on"):
            begun.wait(timeout=0)
        self.assertEqual(begun.state, "running")
        begun.stop()

    def test_stopped_it_has_ended_with_its_jobs_and_can_be_resumed(self) -> None:
        begun = self.start(["sh", "-c", ONCE])
        begun.stop()
        self.assertEqual(begun.state, "interrupted")
        until(lambda: not processes(self.folder), "nothing is left")
        self.assertEqual(begun.resume(quiet=True).state, "succeeded")

    def test_cancelled_jobs_count_as_failed(self) -> None:
        begun = self.start()
        begun.cancel("run/n=0").cancel("n=1").wait()
        self.assertEqual([job.reason for job in begun.jobs.values()], ["cancelled", "cancelled"])

    def test_a_with_block_waits_or_stops_if_left_by_an_exception(self) -> None:
        with run(command=["true"], gpus="none", wait=False, quiet=True) as quick:
            pass
        self.assertTrue(quick.ok)
        with self.assertRaises(ZeroDivisionError), self.start() as begun:
            1 // 0  # noqa: B018
        self.assertEqual(begun.state, "interrupted")

    def test_a_run_of_another_process_is_waited_for_and_not_ended(self) -> None:
        begun = self.start()
        seen = Run(begun.path)
        self.assertEqual((seen.state, seen.live), ("running", True))
        with self.assertRaises(TimeoutError):
            seen.wait(timeout=0.1, quiet=True)
        with self.assertRaisesRegex(GpulaneError, "not started here"):
            seen.stop()
        waiting = threading.Thread(target=seen.wait, kwargs={"quiet": True})
        waiting.start()
        begun.stop()
        waiting.join()
        self.assertEqual(seen.state, "interrupted")


SCRIPT = """
    import sys, pathlib, signal
    signal.signal(signal.SIGINT, signal.default_int_handler)  # Tests in the background inherit that it is ignored.
    sys.path.insert(0, {package!r})
    from gpulane._runs import run
    {before}
    begun = run(command={command!r}, sets={{"n": [0]}}, gpus="none", run_dir="killed", wait=False, quiet=True)
    {then}
"""


def lives(pid: int) -> bool:
    """Where nobody waits for orphans, they stay when they have ended."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


class OtherEnds(WithGpulane):
    """The Python that started a run ends, in one way or another."""

    def python(self, then: str, command: object = SLEEPER, before: str = "") -> subprocess.Popen[bytes]:
        text = textwrap.dedent(SCRIPT).format(package=str(ROOT / "python"), command=command, then=then, before=before)
        started = subprocess.Popen([sys.executable, "-c", text], stderr=subprocess.PIPE)
        self.addCleanup(started.stderr.close)  # type: ignore[union-attr]
        self.addCleanup(started.wait)
        self.addCleanup(started.kill)
        until(lambda: (self.folder / "pid-0").exists() or started.poll() is not None, "the job runs")
        return started

    def gone(self) -> None:
        until(lambda: not processes(self.folder), "nothing is left")
        self.assertIn(Run("killed").state, ("interrupted", "stopped"))

    def test_killed_it_leaves_nothing_and_the_run_can_be_resumed(self) -> None:
        started = self.python("begun.wait()", ["sh", "-c", ONCE])
        started.kill()
        started.wait()
        self.gone()
        self.assertEqual(Run("killed").resume(quiet=True).state, "succeeded")

    def test_killed_although_a_fork_of_it_lives(self) -> None:
        fork = (
            "import os, time; os.fork() or (open('fork', 'w').write(str(os.getpid())), time.sleep(999)); begun.wait()"
        )
        started = self.python(fork)
        until(lambda: (self.folder / "fork").exists() and bool((self.folder / "fork").read_text()), "the fork lives")
        started.kill()
        self.addCleanup(os.kill, int((self.folder / "fork").read_text()), signal.SIGKILL)
        self.gone()

    def test_killed_right_after_it_has_started_gpulane(self) -> None:
        text = f"""
            import os, signal, subprocess, sys
            sys.path.insert(0, {str(ROOT / "python")!r})
            class Popen(subprocess.Popen):
                def __init__(self, *given, **named):
                    super().__init__(*given, **named)
                    open("begun", "w").write(str(self.pid))
                    os.kill(os.getpid(), 9)
            signal.signal(signal.SIGTERM, getattr(signal, sys.argv[1]))
            subprocess.Popen = Popen
            from gpulane._runs import run
            run(command={SLEEPER!r}, sets={{"n": [0]}}, gpus="none", run_dir="killed-" + sys.argv[1], quiet=True)
        """
        for what_signals_do in ("SIG_DFL", "SIG_IGN"):
            killed = subprocess.run([sys.executable, "-c", textwrap.dedent(text), what_signals_do])
            self.assertEqual(killed.returncode, -signal.SIGKILL)
            gpulane = int((self.folder / "begun").read_text())
            until(lambda: not lives(gpulane), "gpulane has ended")  # noqa: B023
            until(lambda: not processes(self.folder), "nothing is left")

    def test_killed_where_signals_are_ignored(self) -> None:
        started = self.python("begun.wait()", before="signal.signal(signal.SIGTERM, signal.SIG_IGN)")
        started.kill()
        self.gone()

    def test_a_gpulane_that_nobody_can_listen_to_is_ended(self) -> None:
        with mock.patch("threading.Thread.start", side_effect=RuntimeError("can't start new thread")):
            with self.assertRaisesRegex(RuntimeError, "new thread"):
                run(command=SLEEPER, sets={"n": [0]}, gpus="none", run_dir="killed", quiet=True)
        until(lambda: not processes(self.folder), "nothing is left")

    def test_interrupted_it_says_how_to_go_on(self) -> None:
        started = self.python("begun.wait()")
        started.send_signal(signal.SIGINT)
        _, told = started.communicate()
        self.assertIn(b"KeyboardInterrupt: stopped; gpulane.Run('killed').resume() goes on", told)
        self.gone()

    def test_interrupted_twice_it_does_not_wait_for_jobs_that_ignore_it(self) -> None:
        stubborn = "trap ': > told' TERM; trap '' INT; echo $$ > pid-{n}; while :; do sleep 1; done"
        started = self.python("begun.wait()", ["sh", "-c", stubborn])
        started.send_signal(signal.SIGINT)
        until(lambda: (self.folder / "told").exists(), "the job was asked to end")
        started.send_signal(signal.SIGINT)
        started.communicate()
        self.gone()

    def test_a_script_that_ends_takes_its_run_with_it(self) -> None:
        started = self.python("while not pathlib.Path('pid-0').exists(): pass")
        _, told = started.communicate()
        self.assertEqual((started.returncode, told), (0, b""))
        self.gone()


class Terminals(WithGpulane):
    def test_ctrl_c_is_shown_and_ends_everything(self) -> None:
        then = "begun._quiet = False; begun.wait()"
        text = textwrap.dedent(SCRIPT).format(package=str(ROOT / "python"), command=SLEEPER, then=then, before="")
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv(sys.executable, [sys.executable, "-c", text])
        self.addCleanup(os.close, terminal)
        until(lambda: (self.folder / "pid-0").exists(), "the job runs")
        said = self.read(terminal, b"run/n=0")  # The program's own view has been drawn.
        os.write(terminal, b"\x03")
        said += self.read(terminal, None)
        os.waitpid(pid, 0)
        self.assertIn(b"stopped; gpulane.Run('killed').resume() goes on", said)
        self.assertIn(b"gpulane resume", said, "the view's summary")
        until(lambda: not processes(self.folder), "nothing is left")
        self.assertEqual(Run("killed").state, "interrupted")

    def read(self, terminal: int, word: Optional[bytes]) -> bytes:
        """What comes until this word, or until the other side has gone."""
        said = b""
        while word is None or word not in said:
            readable, _, _ = select.select([terminal], [], [], PATIENCE_S)
            self.assertTrue(readable, said)
            try:
                said += os.read(terminal, 1 << 16)
            except OSError:
                break
        return said


class Scripts(WithGpulane):
    MODEL = """
        import sys
        sys.path.insert(0, {package!r})
        import gpulane

        def count(texts):
            return [len(text) for text in texts]

        {guard}
            counted = gpulane.map(count, "a.txt", out="out", decode="text", format="jsonl", gpus="none")
            print(counted.results(as_="list"))
    """

    def script(self, guard: str) -> subprocess.CompletedProcess[str]:
        self.write("a.txt", "abc")
        text = textwrap.dedent(self.MODEL).format(package=str(ROOT / "python"), guard=guard)
        self.write("script.py", text)
        return subprocess.run([sys.executable, "script.py"], capture_output=True, text=True)

    def test_a_model_in_the_script_itself(self) -> None:
        self.assertEqual(self.script('if __name__ == "__main__":').stdout, "[{'item': 'a.txt', 'result': 3}]\n")

    def test_a_call_that_each_worker_would_make_again_is_refused(self) -> None:
        said = self.script("if True:")
        self.assertIn("would come to this very call (line 10)", said.stderr)
        self.assertFalse((self.folder / "out").exists())

    def test_a_script_that_is_no_file(self) -> None:
        text = f"""
            import sys
            sys.path.insert(0, {str(ROOT / "python")!r})
            import gpulane
            def main(config, out): return gpulane
            gpulane.{{}}
        """
        for call, told in (
            ("run(entry=main)", "Jobs are other .* function from a file. Put the function .* into a file main.py and"),
            (
                "map(main, '.', out='never')",
                "Workers are other .* model from a file. Put the model .* give 'main.py:main'",
            ),
        ):
            said = subprocess.run(
                [sys.executable, "-"], input=textwrap.dedent(text).format(call), capture_output=True, text=True
            )
            self.assertRegex(said.stderr, f"gpulane.ModelNotInFile: main is in no file, and its source is not.*{told}")
            self.assertNotIn("%%", said.stderr)


class Interrupts(unittest.TestCase):
    def test_one_that_comes_while_a_process_is_started_waits(self) -> None:
        reached = []
        with self.assertRaises(KeyboardInterrupt), interrupts_later():
            os.kill(os.getpid(), signal.SIGINT)
            reached.append(True)
        self.assertEqual((reached, signal.getsignal(signal.SIGINT)), ([True], signal.default_int_handler))


if __name__ == "__main__":
    unittest.main()
