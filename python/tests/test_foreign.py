"""A run directory that somebody else has made: what it says is checked before it is used, and nothing in it is waited
for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any, Dict

import gpulane
from gpulane._runs._journal import Journal
from gpulane._runs._results import map_rows

from .fake_feeder import PACKAGE


def plan(job: str = "a", stage: str = "s", **more: Any) -> Dict[str, Any]:
    stages = [{"name": stage, "command": ["true"], "after": [], "map": None, "entry": None}]
    return {"format": 1, "name": "x", "stages": stages, "jobs": [{"stage": 0, "name": job, "config": {}}], **more}


class Foreign(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.run_dir = Path(folder.name) / "r"
        self.run_dir.mkdir()

    def write(self, name: str, value: Any) -> None:
        (self.run_dir / name).write_text(value if isinstance(value, str) else json.dumps(value))

    def test_names_that_lead_elsewhere_are_refused(self) -> None:
        for wrong in (
            plan(job="../../../elsewhere"),
            plan(job=".."),
            plan(stage="../elsewhere"),
            plan(stage=""),
            plan(job="\x1b]0;title\x07"),
            plan(job="two\nlines"),
            plan(jobs=[{"stage": 0, "name": 7}]),
        ):
            with self.subTest(wrong):
                self.write("plan.json", wrong)
                with self.assertRaisesRegex(gpulane.GpulaneError, "is no name of a stage or job") as told:
                    gpulane.Run(self.run_dir)
                self.assertTrue(str(told.exception).isprintable())
        self.write("plan.json", plan(job="lr=0.1,type=a b"))
        self.assertEqual(gpulane.Run(self.run_dir).state, "stopped")

    def test_a_plan_that_is_none_is_told(self) -> None:
        for wrong in ("", "[]", "{}", "[" * 100_000, plan(jobs=[{"stage": 5, "name": "a"}]), plan(stages=None)):
            with self.subTest(str(wrong)[:40]):
                self.write("plan.json", wrong)
                with self.assertRaisesRegex(gpulane.GpulaneError, "is no plan of gpulane, or damaged"):
                    gpulane.Run(self.run_dir)

    def test_a_line_nested_without_end_is_left_out(self) -> None:
        self.write("journal.jsonl", "[" * 100_000 + "\n" + '{"event": "x"}\n')
        self.assertEqual(Journal(self.run_dir / "journal.jsonl").news()[1], [{"event": "x"}])

    def test_pipes_in_the_place_of_files_keep_nobody_waiting(self) -> None:
        for name in ("lock", "journal.jsonl", "plan.json"):
            with self.subTest(name):
                self.write("plan.json", plan())
                (self.run_dir / name).unlink(missing_ok=True)
                os.mkfifo(self.run_dir / name)
                script = f"import gpulane; print(gpulane.Run({str(self.run_dir)!r}).state)"
                told = subprocess.run(
                    [sys.executable, "-c", script], cwd=PACKAGE, capture_output=True, text=True, timeout=20
                )
                self.assertIn("damaged" if name == "plan.json" else "", told.stdout + told.stderr)
                (self.run_dir / name).unlink()

    def test_parts_are_looked_for_in_their_folder_alone(self) -> None:
        (self.run_dir.parent / "part-00000.jsonl").write_text('{"item": "secret"}\n')
        for part in ("../part-00000.jsonl", str(self.run_dir.parent / "part-00000.jsonl"), 7, None):
            with self.subTest(part):
                self.write("items.list", "secret\n")
                self.write("commits.jsonl", json.dumps({"commit": 0, "part": part, "rows": 1}) + "\n")
                self.assertEqual(map_rows(self.run_dir, "list"), [])


if __name__ == "__main__":
    unittest.main()
