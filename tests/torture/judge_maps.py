"""The judge of maps: every item once, in the results or in `failed.jsonl`; files of one content fare alike."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from . import journal
from .judge import Verdict, check_announced
from .story import Happened, Story


class MapJudge:
    """Judges a lone map that has come to its end."""

    def __init__(self, story: Story, happened: Happened, run: Path) -> None:
        assert story.map is not None
        self.map, self.happened, self.run = story.map, happened, run
        self.verdict = Verdict()

    def judge(self) -> Verdict:
        """Everything, one after the other."""
        reading = journal.read(self.run / "journal.jsonl")
        self.verdict.check("the journal is whole", not reading.faults, "; ".join(reading.faults))
        check_announced(self.verdict, self.happened, reading.events)
        rows = self.read_lines(sorted(self.run.glob("part-*.jsonl")))
        failed = self.read_lines([self.run / "failed.jsonl"])
        self.judge_items(rows, failed)
        self.judge_twins(rows)
        for name, text in self.happened.parts.items():
            path = self.run / name
            same = path.exists() and path.read_bytes() == text
            self.verdict.check("no announced commit is lost", same, f"{name} is not what was committed")
        finished = any(event["event"] == "run_finished" for event in reading.events)
        self.verdict.check(
            "the run ends", finished or self.happened.doubt, f"no run_finished; last: {reading.events[-1:]}"
        )
        return self.verdict

    def read_lines(self, paths: list[Path]) -> list[dict[str, Any]]:
        """The objects in these files, one a line."""
        found = []
        for path in paths:
            try:
                lines = path.read_bytes().split(b"\n")
                found += [json.loads(line) for line in lines if line]
            except (OSError, ValueError) as error:
                self.verdict.check("every part is whole", False, f"{path}: {error}")
        return found

    def judge_items(self, rows: list[dict[str, Any]], failed: list[dict[str, Any]]) -> None:
        """Each item is settled once, and as it should be."""
        check = self.verdict.check
        results, losses = Counter(row["item"] for row in rows), Counter(row["item"] for row in failed)
        values = {row["item"]: row.get("value") for row in rows}
        reasons = {row["item"]: row.get("reason") for row in failed}
        known = {item.name for item in self.map.items}
        for name in (set(results) | set(losses)) - known:
            check("every item once", False, f"{name!r} is no item of this map")
        for item in self.map.items:
            times = (results[item.name], losses[item.name])
            check("every item once", sum(times) == 1, f"{item.name!r} has {times[0]} rows and {times[1]} failures")
            if item.expect == "row":
                right = values.get(item.name) == item.value
                seen = values.get(item.name, f"failed: {reasons.get(item.name)}")
                check("every item as it should be", right, f"{item.name!r} must be {item.value}, is {seen}")
            elif item.expect == "failed":
                seen = f"it has the row {values.get(item.name)}"
                check("every item as it should be", losses[item.name] == 1, f"{item.name!r} must fail, {seen}")

    def judge_twins(self, rows: list[dict[str, Any]]) -> None:
        """What is in a file decides what becomes of it, not what came before it."""
        values = {row["item"]: row.get("value") for row in rows}
        fates: dict[str, dict[str, Any]] = defaultdict(dict)
        for item in self.map.items:
            if item.twin is not None:
                fates[item.twin][item.name] = values.get(item.name, "failed")
        for seen in fates.values():
            alike = len({str(value) for value in seen.values()}) == 1
            self.verdict.check("files of one content fare alike", alike, f"{seen}")
