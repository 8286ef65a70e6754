"""What runs are made of and read from, without the program: TOML, events, models, cards, results."""

from __future__ import annotations

import builtins
import errno
import importlib.util
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any, Dict, List
from unittest import mock

from gpulane._runs import GpulaneError, ModelNotInFile, PlanError, ProgramMissing, run
from gpulane._runs._begin import flags
from gpulane._runs._binary import binary, environment, not_startable
from gpulane._runs._html import card
from gpulane._runs._journal import Journal
from gpulane._runs._results import flat, form_of, last_line, last_metrics, map_rows, shaped
from gpulane._runs._state import RunState
from gpulane._runs._target import ENTRY, _imports, target_of
from gpulane._runs._toml import name_in, toml
from gpulane._runs._words import clock, lane_label, machine_text

HAS_PYARROW = importlib.util.find_spec("pyarrow") is not None


class InAFolder(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)


class Toml(unittest.TestCase):
    def test_a_plan_is_written_one_key_a_line(self) -> None:
        stage = {"name": "s", "command": ["a", Path("b c")], "retries": 1, "timeout": None, "mps": False}
        plan = {"name": "n", "defaults": {"grace": "1s"}, "stage": [stage, {"name": "t", "matrix": {"a.b": range(2)}}]}
        self.assertEqual(
            toml(plan),
            'name = "n"\n\n[defaults]\ngrace = "1s"\n\n[[stage]]\nname = "s"\ncommand = ["a", "b c"]\nretries = 1\n'
            'mps = false\n\n[[stage]]\nname = "t"\nmatrix = { "a.b" = [0, 1] }\n',
        )

    @unittest.skipIf(sys.version_info < (3, 11), "no tomllib before Python 3.11")
    def test_what_is_written_is_read_as_it_was(self) -> None:
        import tomllib

        texts = ['"', "\\", "\n\t\r\x00\x1f\x7f", "{lr}", "Zoë 🦊", "'''", '"""', "# no comment", ""]
        numbers = [0, -1, 2**62, 1e-4, 1e300, -0.5, 1.0, float("inf"), True, False]
        plan = {"name": "x", "stage": [{"texts": texts, "numbers": numbers, "env": dict.fromkeys(texts, "")}]}
        self.assertEqual(tomllib.loads(toml(plan)), plan)

    def test_numbers_of_arrays_are_numbers(self) -> None:
        scalar = mock.Mock(spec=["tolist"], tolist=lambda: [1, 0.5])
        self.assertEqual(toml({"a": scalar}), "a = [1, 0.5]\n")

    def test_what_toml_cannot_say_is_refused_with_its_place(self) -> None:
        for wrong, why in (
            ({"stage": [{"a": {"b": [1, None]}}]}, "stage.0.a.b.1 is None"),
            ({"a": object()}, "a is a object"),
        ):
            with self.assertRaisesRegex(PlanError, why):
                toml(wrong)
        with self.assertRaisesRegex(PlanError, "the key 1 is a int"):
            toml({1: 2})  # type: ignore[dict-item]

    def test_a_name_is_found_before_the_first_table_only(self) -> None:
        self.assertEqual(name_in('# name = "no"\nname = "yes"\n[[stage]]\nname = "s"\n'), "yes")
        self.assertEqual(name_in("name='yes'"), "yes")
        self.assertEqual(name_in('[[stage]]\nname = "s"\n'), "")


def plan(*jobs: str, maps: int = 0) -> Dict[str, Any]:
    stages: List[Dict[str, Any]] = [{"name": "s", "map": {"lone": True} if maps else None}]
    return {"name": "p", "stages": stages, "jobs": [{"stage": 0, "name": name, "config": {}} for name in jobs]}


def after(state: RunState, *events: Dict[str, Any]) -> RunState:
    for event in events:
        state.apply({"time": "2026-01-01T00:00:00.000Z", **event})
    return state


MACHINE = {"kind": "none", "gpus": [], "cpu_lanes": 2}
STARTED = {"event": "run_started", "machine": MACHINE}


def started(job: str, lane: int = 0) -> Dict[str, Any]:
    return {"event": "job_started", "job": job, "attempt": 1, "lane": lane, "gpus": []}


class States(unittest.TestCase):
    def test_a_job_goes_its_way(self) -> None:
        state = after(RunState(plan("a", "b")), STARTED, started("s/a"))
        self.assertEqual((state.jobs["s/a"].status, state.phase(True)), ("running", "running"))
        self.assertEqual(state.counts(False)["waiting"], 2, "without an engine nothing runs")
        failed = {"event": "job_failed", "job": "s/a", "attempt": 1, "reason": "oom", "message": "at step 3"}
        after(state, failed)
        self.assertEqual(state.jobs["s/a"].message, "out of GPU memory: at step 3")
        after(state, {"event": "job_retrying", "job": "s/a"}, started("s/a"))
        after(state, {"event": "job_succeeded", "job": "s/a", "attempt": 2, "seconds": 3.5})
        job = state.jobs["s/a"]
        self.assertEqual((job.status, job.attempts, job.seconds, job.message), ("succeeded", 2, 3.5, None))

    def test_what_was_not_the_jobs_fault_waits(self) -> None:
        excuses: List[Dict[str, Any]] = [{"reason": "lost"}, {"reason": "interrupted"}, {"shared": True}]
        excuses += [{"disk_full": "run"}, {"disk_full": "other"}]
        for excuse in ({}, *excuses):
            failed = {"event": "job_failed", "job": "s/a", "attempt": 1, "reason": "exit", "code": 1, **excuse}
            job = after(RunState(plan("a")), started("s/a"), failed).jobs["s/a"]
            self.assertEqual(job.status, "waiting" if excuse else "failed", excuse)

    def test_a_run_says_in_a_word_how_it_stands(self) -> None:
        state = RunState(plan("a"))
        self.assertEqual(state.phase(True), "starting")
        self.assertEqual(after(state, STARTED).phase(False), "stopped")
        self.assertEqual(after(state, {"event": "starts_held", "because": "full"}).phase(True), "waiting")
        self.assertEqual(after(state, {"event": "run_interrupted", "because": "SIGINT"}).phase(False), "interrupted")
        after(state, {"event": "run_resumed"}, {"event": "job_skipped", "job": "s/a", "because": "b failed"})
        self.assertEqual(after(state, {"event": "run_finished"}).phase(False), "succeeded")

    def test_a_map_counts_what_is_durable_and_what_is_tried_again(self) -> None:
        state = after(RunState(plan("w", maps=1)), {"event": "map_opened", "stage": "s", "items": 10})
        after(state, {"event": "batch_committed", "stage": "s", "rows": 8, "failed": 2})
        lone = state.lone_map
        assert lone is not None
        self.assertEqual((lone.items, lone.rows, lone.failed), (10, 8, 2))
        after(state, {"event": "run_finished"})
        self.assertEqual(state.phase(False), "failed")
        after(state, {"event": "map_reopened", "stage": "s"}, {"event": "batch_committed", "stage": "s", "rows": 2})
        self.assertEqual((lone.rows, lone.failed, state.phase(False)), (10, 0, "succeeded"))

    def test_a_map_that_goes_on_is_no_longer_stopped(self) -> None:
        state = after(RunState(plan("w", maps=1)), STARTED, {"event": "map_stopped", "stage": "s", "because": "no"})
        self.assertEqual(state.maps["s"].stopped, "no")
        self.assertIsNone(after(state, {"event": "run_resumed"}).maps["s"].stopped)

    def test_what_the_program_advises_is_what_to_do_here(self) -> None:
        stopped = {"event": "map_stopped", "stage": "s", "because": "Mend it, then `gpulane resume x --failed`"}
        given = plan("w", maps=1)
        self.assertEqual(after(RunState(given), stopped).maps["s"].stopped, "Mend it, then `.resume(failed=True)`")
        failed = {"event": "job_failed", "job": "s/w", "attempt": 1, "reason": "exit", "message": "no --out"}
        self.assertEqual(after(RunState(given), failed).jobs["s/w"].message, "exit: no --out", "the job's own words")
        given["stages"][0]["map"]["model"] = "runs/cells/0123abcd/words.py:Words"
        self.assertEqual(after(RunState(given), stopped).maps["s"].stopped, "Mend it, then begin a new run")

    def test_events_of_newer_programs_change_nothing(self) -> None:
        state = after(
            RunState(plan("a")), STARTED, {"event": "from_the_future", "job": "s/a"}, {"event": "x", "stage": "q"}
        )
        self.assertEqual(state.jobs["s/a"].status, "waiting")


class Journals(InAFolder):
    def test_lines_are_read_once_and_when_they_are_whole(self) -> None:
        path = self.folder / "journal.jsonl"
        journal = Journal(path)
        self.assertEqual(journal.news(), (False, []))
        path.write_bytes(b'{"seq":1}\n{"seq"')
        self.assertEqual(journal.news(), (True, [{"seq": 1}]))
        with open(path, "ab") as file:
            file.write(b":2}\n")
        self.assertEqual(journal.news(), (False, [{"seq": 2}]))
        self.assertEqual(journal.news(), (False, []))

    def test_a_journal_that_was_salvaged_is_read_anew(self) -> None:
        path = self.folder / "journal.jsonl"
        path.write_bytes(b'{"seq":1}\n{"seq":2}\n')
        journal = Journal(path)
        journal.news()
        path.write_bytes(b'{"seq":1}\n')
        self.assertEqual(journal.news(), (True, [{"seq": 1}]))


class Cards(unittest.TestCase):
    def card(self, state: RunState, **how: Any) -> str:
        settings: Dict[str, Any] = {"path": "runs/x", "live": True, "now": 1767225605.0, "maps": {}, **how}
        return card(state, **settings)

    def test_nothing_in_it_is_taken_for_html(self) -> None:
        evil = "<script>alert('x')</script>"
        given = plan(evil)
        given["name"] = evil
        state = after(RunState(given), STARTED, started(f"s/{evil}"), {"event": "starts_held", "because": evil})
        after(state, {"event": "job_failed", "job": f"s/{evil}", "attempt": 1, "reason": "start", "message": evil})
        for live in (True, False):
            html = self.card(state, path=evil, live=live, last_line_of=lambda job: evil)
            self.assertNotIn("<script", html)
            self.assertIn("&lt;script&gt;", html)

    def test_it_shows_lanes_failures_and_what_to_do(self) -> None:
        state = after(RunState(plan("a", "b")), STARTED, started("s/a", 1), started("s/b"))
        after(state, {"event": "job_failed", "job": "s/b", "attempt": 1, "reason": "exit", "code": 3})
        html = self.card(state)
        for part in (
            "1 failed · 1 running of 2 jobs · 2 CPU lanes",
            "lane 1",
            "5.0 s",
            "exit code 3",
            "<code>.logs(&#x27;s/b&#x27;)</code>",
        ):
            self.assertIn(part, html)
        after(state, {"event": "run_interrupted", "because": "SIGINT"})
        self.assertIn("gpulane.Run(&#x27;runs/x&#x27;).resume()", self.card(state, live=False))

    def test_the_last_line_is_told_where_it_is_an_error(self) -> None:
        failed = {"event": "job_failed", "job": "s/a", "attempt": 1}
        for event, told in (
            ({"reason": "exit", "code": 1}, "exit code 1: ValueError: x"),
            ({"reason": "oom", "message": "ValueError: x at step 3"}, "out of GPU memory: ValueError: x at step 3"),
            ({"reason": "timeout"}, "timeout"),
            ({"reason": "signal", "signal": 9}, "killed by SIGKILL"),
        ):
            html = self.card(after(RunState(plan("a")), {**failed, **event}), last_line_of=lambda job: "ValueError: x")
            self.assertIn(f">{told}</span>", html)
            self.assertIn(".logs(&#x27;s/a&#x27;, stderr=True)", html)

    def test_a_map_shows_its_pace(self) -> None:
        state = after(RunState(plan("w", maps=1)), STARTED, {"event": "map_opened", "stage": "s", "items": 40000})
        told = {"done": 1200, "failed": 3, "rate": 2310.4, "eta": 17.0, "bottleneck": "decoding", "pressed": 0.96}
        html = self.card(state, maps={"s": told})
        self.assertIn("1,203 of 40,000 items · 3 failed · 2,310/s · about 17 s left · decoding limits (96% busy)", html)

    def test_many_failures_are_counted_not_listed(self) -> None:
        state = RunState(plan(*(f"j{n}" for n in range(9))))
        for n in range(9):
            after(state, {"event": "job_failed", "job": f"s/j{n}", "attempt": 1, "reason": "exit", "code": n})
        html = self.card(state)
        self.assertEqual(html.count("✗"), 5)
        self.assertIn("and 4 more", html)


class Words(unittest.TestCase):
    def test_times(self) -> None:
        told = [clock(seconds) for seconds in (-1, 0.44, 12.4, 59.6, 185, 7800)]
        self.assertEqual(told, ["0.0 s", "0.4 s", "12 s", "1 min 00 s", "3 min 05 s", "2 h 10 min"])

    def test_places(self) -> None:
        sim = {"kind": "sim", "gpus": [{"uuid": f"GPU-{n}"} for n in range(4)], "lanes_per_gpu": 2}
        self.assertEqual(lane_label(sim, 5, ["GPU-2"]), "gpu 2.1")
        self.assertEqual(lane_label(sim, 0, ["GPU-0", "GPU-2"]), "gpu 0,2")
        self.assertEqual(lane_label(sim, 9, []), "cpu 1")
        self.assertEqual(lane_label(MACHINE, 1, []), "lane 1")
        self.assertEqual(machine_text(sim), "4 simulated GPUs, 2 lanes each")
        real = {"kind": "nvml", "gpus": [{"name": "NVIDIA H200"}] * 2, "lanes_per_gpu": 1, "packing": True}
        self.assertEqual(machine_text(real), "2 GPUs (NVIDIA H200), packed by memory")

    def test_keyword_arguments_are_options(self) -> None:
        given = {"max_failures": "5%", "salvage": True, "quiet": False, "lanes": None, "zip": ["a,b", "c,d"], "ring": 0}
        self.assertEqual(flags(given), ["--max-failures=5%", "--salvage", "--zip=a,b", "--zip=c,d", "--ring=0"])


def somewhere() -> Any:
    class Inner:
        def predict_batch(self, batch: Any) -> Any:
            return batch

    return Inner


def a_function(batch: Any) -> Any:
    """At the top level of this file."""
    return batch


class Targets(InAFolder):
    def test_text_and_what_is_in_a_file(self) -> None:
        self.assertEqual(target_of("model.py:Tagger"), "model.py:Tagger")
        with mock.patch.object(sys.modules[__name__], "__file__", self.file("def a_function(batch): ...\n")):
            self.assertEqual(target_of(a_function), f"{self.folder / 'm.py'}:a_function")

    def file(self, text: str) -> str:
        path = self.folder / "m.py"
        path.write_text(text, encoding="utf-8")
        return str(path)

    def test_what_workers_cannot_find_is_refused(self) -> None:
        for wrong, why in ((somewhere(), "inside something else"), (a_function.__code__, "is no model")):
            with self.assertRaisesRegex(ModelNotInFile, why):
                target_of(wrong)

    def test_a_module_that_needs_its_package_is_refused_with_a_way_out(self) -> None:
        with mock.patch.object(sys.modules[__name__], "__file__", self.file("from . import other\n")):
            with self.assertRaisesRegex(ModelNotInFile, f"`from {__name__} import a_function`"):
                target_of(a_function)

    def test_imports_are_found_for_modules_and_their_parts(self) -> None:
        known = {"np": json, "Place": Path, "os": os, "table": {}, "mine": 3}
        source = (
            "def f(x, Place=Place):\n    import sys\n    y = [np.loads(z) for z in x]\n    return os, sys, len(y)\n"
        )
        self.assertEqual(
            _imports(source, known), (f"from {Path.__module__} import Path as Place\nimport json as np\nimport os", [])
        )

    def test_names_that_only_the_notebook_has_are_told(self) -> None:
        source = (
            "class A(Base):\n    k = table\n    def f(self):\n        return A, self.k, nowhere, [mine for x in self]\n"
        )
        known = {"table": {}, "mine": 3, "Base": type("Base", (), {"__module__": "__main__"})}
        self.assertEqual(_imports(source, known)[1], ["Base", "mine", "nowhere", "table"])

    def test_a_lambda_is_called_so(self) -> None:
        nameless = lambda batch: batch  # noqa: E731
        nameless.__qualname__ = "<lambda>"
        with self.assertRaisesRegex(ModelNotInFile, "a lambda has no name by which jobs .* the function with `def`$"):
            target_of(nameless, ENTRY)

    def test_builtins_are_those_of_every_python(self) -> None:
        def mine() -> None: ...

        mine.__module__ = "__main__"
        source = "def f(x):\n    display(sum(x), len(x), open)\n    return get_ipython()\n"
        with mock.patch.object(builtins, "display", print, create=True):
            found = _imports(source, {"sum": mine, "open": mock.Mock(), "get_ipython": object()})
        self.assertEqual(found, ("", ["display", "get_ipython (also behind `!` and `%`)", "sum"]))
        self.assertEqual(_imports(source, {"open": mine})[1][-1], "open")


class Binaries(InAFolder):
    def test_the_named_one_the_one_beside_python_then_the_path(self) -> None:
        program = self.folder / "gpulane"
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        with mock.patch.dict(os.environ, {"GPULANE_BINARY": str(program)}):
            self.assertEqual(binary(), str(program))
        with mock.patch.dict(os.environ, {"GPULANE_BINARY": "", "PATH": ""}):
            with mock.patch.object(sys, "executable", str(self.folder / "python")):
                self.assertEqual(binary(), str(program))
        with mock.patch.dict(os.environ, {"GPULANE_BINARY": "", "PATH": str(self.folder)}):
            with mock.patch.object(sys, "executable", "/nowhere/python"):
                self.assertEqual(binary(), str(program))

    def test_none_at_all_is_told_with_what_to_do(self) -> None:
        with mock.patch.dict(os.environ, {"GPULANE_BINARY": "", "PATH": ""}):
            with mock.patch.object(sys, "executable", "/nowhere/python"):
                with self.assertRaisesRegex(ProgramMissing, r"\./x wheel.*pip install target/wheels.*GPULANE_BINARY"):
                    binary()
        with mock.patch.dict(os.environ, {"GPULANE_BINARY": str(self.folder)}):
            with self.assertRaisesRegex(ProgramMissing, "no program that can be run"):
                binary()

    def test_one_that_the_system_does_not_start_is_named(self) -> None:
        program = self.folder / "gpulane"
        program.write_bytes(b"\x7fELF of another machine")
        program.chmod(0o755)
        with mock.patch.dict(os.environ, {"GPULANE_BINARY": str(program)}):
            for call in (
                lambda: run(command=["true"], run_dir=self.folder / "run"),
                lambda: run(command=["true"], dry_run=True),
            ):
                with self.assertRaisesRegex(ProgramMissing, f"{program} cannot be run: .*built for this machine"):
                    call()
        self.assertFalse((self.folder / "run").exists())

    def test_other_reasons_are_not_the_programs(self) -> None:
        full = not_startable(["gpulane"], OSError(errno.ENOMEM, "Cannot allocate memory"))
        self.assertIs(type(full), GpulaneError)
        self.assertRegex(str(full), "short of something: Cannot allocate memory")
        long = not_startable(["gpulane", "map", "x" * 200_000], OSError(errno.E2BIG, "Argument list too long"))
        self.assertIsInstance(long, PlanError)
        self.assertRegex(str(long), "200,000 characters in `xxx.*as a file")

    def test_this_python_is_the_active_one(self) -> None:
        with mock.patch.dict(os.environ, {"PATH": "/usr/bin"}):
            with mock.patch.object(sys, "executable", "/venv/bin/python"):
                self.assertEqual(environment()["PATH"], "/venv/bin:/usr/bin")


class Results(InAFolder):
    def test_the_newest_value_of_each_metric(self) -> None:
        lines = [{"step": n, "loss": 1 / n, "time": "t"} for n in range(1, 3000)]
        text = json.dumps({"early": 1}) + "\n" + "".join(json.dumps(line) + "\n" for line in lines) + '{"torn'
        (self.folder / "metrics.jsonl").write_text(text)
        self.assertEqual(last_metrics(self.folder), {"step": 2999, "loss": 1 / 2999})
        self.assertEqual(last_metrics(self.folder / "nowhere"), {})

    def test_a_crash_of_python_is_told_by_its_fault(self) -> None:
        dump = (
            "epoch 1\nFatal Python error: Segmentation fault\n\n"
            "Thread 0x07 (most recent call first):\n  <no Python frame>\n\n"
            'Current thread 0x08 (most recent call first):\n  File "train.py", line 3 in main\n'
            '  File "/r/.python/gpulane/_entry.py", line 4 in <module>\n\nExtension modules: a (total: 1)\n'
        )
        log = self.folder / "log"
        log.write_text(dump)
        self.assertEqual(last_line(log), 'Fatal Python error: Segmentation fault, File "train.py", line 3 in main')
        log.write_text(dump + "RuntimeError: a worker died\n")
        self.assertEqual(last_line(log), "RuntimeError: a worker died")
        log.write_text("Fatal Python error: init failed\n")
        self.assertEqual(last_line(log), "Fatal Python error: init failed")

    def test_the_last_line_of_a_log(self) -> None:
        log = self.folder / "stderr.log"
        for text, line in (
            ("Traceback:\n  x\nValueError: lr too high\n\n \n", "ValueError: lr too high"),
            (
                "Traceback (most recent call last):\nImportError: x\ngpulane: this is the Python of y\n",
                "ImportError: x",
            ),
            ("gpulane: there is no file z\n", "gpulane: there is no file z"),
            ("\x1b[31mred\x1b[0m: 1%\r\x1b[31mred\x1b[0m: 2%", "red: 2%"),
            ("x" * 100_000, "x" * 299 + "…"),
            ("\n", ""),
        ):
            log.write_text(text)
            self.assertEqual(last_line(log), line)
        self.assertEqual(last_line(self.folder / "nowhere"), "")

    def test_columns_whose_names_are_taken(self) -> None:
        row = {"job": "j", "config": {"lr": 1, "status": 2}, "status": "failed", "metrics": {"lr": 3, "loss": 4}}
        expected = {"job": "j", "lr": 1, "config.status": 2, "metrics.lr": 3, "loss": 4, "status": "failed"}
        self.assertEqual(flat(row), expected)

    def test_forms(self) -> None:
        self.assertEqual(shaped([{"a": 1}], "list"), [{"a": 1}])
        with self.assertRaisesRegex(ValueError, "'list', 'pandas', 'arrow'"):
            form_of("polars")

    def a_map(self, *commits: Dict[str, Any]) -> None:
        lines = [{"ledger": 1, "format": "jsonl"}, *commits]
        (self.folder / "commits.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        names = ["f\tb", "f\ta\\\\b\\tc", "m\tz\t0\t0\t9", "f\tb"]
        (self.folder / "items.list").write_text("gpulane items 1\n" + "".join(f"{name}\n" for name in names))

    def test_rows_in_order_and_only_what_the_ledger_has(self) -> None:
        self.a_map(
            {"commit": 0, "part": "part-00000.jsonl"},
            {"commit": 1, "part": "part-00001.jsonl"},
            {"commit": 2, "part": None},
            {"commit": 3, "part": "part-00003.jsonl"},
            {"lost": 0},
        )
        for part, names in ((0, ["lost"]), (1, ["z", "b"]), (3, ["a\\b\tc", "b"]), (4, ["not durable"])):
            text = "".join(json.dumps({"item": name, "part": part}) + "\n" for name in names)
            (self.folder / f"part-0000{part}.jsonl").write_text(text)
        rows = map_rows(self.folder, "list")
        self.assertEqual([(row["item"], row["part"]) for row in rows], [("b", 1), ("b", 3), ("a\\b\tc", 3), ("z", 1)])

    @unittest.skipUnless(HAS_PYARROW, "pyarrow is not installed")
    def test_parquet_parts_of_which_only_one_has_a_column(self) -> None:
        import pyarrow
        import pyarrow.parquet

        self.a_map({"commit": 0, "part": "part-00000.parquet"}, {"commit": 1, "part": "part-00001.parquet"})
        for part, columns in enumerate(({"item": ["z"], "v": [1]}, {"item": ["b"], "v": [2], "w": ["x"]})):
            pyarrow.parquet.write_table(pyarrow.table(columns), self.folder / f"part-0000{part}.parquet")
        expected = [{"item": "b", "v": 2, "w": "x"}, {"item": "z", "v": 1, "w": None}]
        self.assertEqual(map_rows(self.folder, "list"), expected)
        self.assertEqual(map_rows(self.folder, "arrow").to_pylist(), expected)

    @unittest.skipUnless(HAS_PYARROW, "pyarrow is not installed")
    def test_parquet_parts_of_an_unfinished_map_with_other_types(self) -> None:
        import pyarrow
        import pyarrow.parquet

        self.a_map({"commit": 0, "part": "part-00000.parquet"}, {"commit": 1, "part": "part-00001.parquet"})
        for part, columns in enumerate(({"item": ["z"], "v": [2**53 + 1]}, {"item": ["b"], "v": ["0.5"]})):
            pyarrow.parquet.write_table(pyarrow.table(columns), self.folder / f"part-0000{part}.parquet")
        expected = [{"item": "b", "v": "0.5"}, {"item": "z", "v": 2**53 + 1}]
        self.assertEqual(map_rows(self.folder, "list"), expected)
        with self.assertRaisesRegex(ValueError, "gpulane resume"):
            map_rows(self.folder, "arrow")

    def test_parquet_without_pyarrow_says_what_to_do(self) -> None:
        self.a_map({"commit": 0, "part": "part-00000.parquet"})
        with mock.patch("importlib.util.find_spec", return_value=None):
            with self.assertRaisesRegex(ImportError, "pip install pyarrow.*--format jsonl"):
                map_rows(self.folder, "list")


if __name__ == "__main__":
    unittest.main()
