"""The judge of maps: every item once, in the results or in `failed.jsonl`; files of one content fare alike."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from . import journal
from .story import Happened, MapStory, Story
from .verdict import Verdict, check_announced, read_notes

# What is said of an item whose worker has died of it.
BROUGHT_DOWN = "brought down its worker"


class MapJudge:
    """Judges a map whose items are all settled: a lone one, or a stage of a plan."""

    def __init__(self, story: Story, stage: str, map_: MapStory, happened: Happened, run: Path, notes: Path) -> None:
        self.stage, self.map, self.happened, self.run = stage, map_, happened, run
        self.within = story.map_folder(stage)
        self.folder = run / self.within
        self.given = {path.name.split("-")[-1]: read_notes(path) for path in notes.glob(f"given-{stage}-*")}
        self.seen = {path.name.split("-")[-1]: path.read_bytes() for path in notes.glob(f"seen-{stage}-*")}
        self.verdict = Verdict()
        self.unlucky: set[str] = set()

    def judge_alone(self) -> Verdict:
        """A lone map: the run is nothing else."""
        reading = journal.read(self.run / "journal.jsonl")
        self.verdict.check("the journal is whole", not reading.faults, "; ".join(reading.faults))
        check_announced(self.verdict, self.happened, reading.events)
        finished = any(event["event"] == "run_finished" for event in reading.events)
        self.verdict.check(
            "the run ends", finished or self.happened.doubt, f"no run_finished; last: {reading.events[-1:]}"
        )
        return self.judge(reading.events)

    def judge(self, events: list[journal.Event], *, complete: bool = True) -> Verdict:
        """Everything, one after the other; a map that was cancelled has settled some of its items."""
        rows = self.read_lines(sorted(self.folder.glob("part-*.jsonl")))
        failed = self.read_lines([self.folder / "failed.jsonl"])
        self.unlucky = self.find_unlucky(events, failed)
        self.judge_items(rows, failed, complete)
        self.judge_twins(rows, failed)
        self.judge_commits()
        self.judge_workers(events)
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

    def find_unlucky(self, events: list[journal.Event], failed: list[dict[str, Any]]) -> set[str]:
        """Items that failed for what the torture did to their workers.

        A worker that may not write is down whatever it is given. An item that two workers were given alone just when
        they were signalled is taken for the cause.
        """
        started = {event["pid"] for event in events if event["event"] == "job_started" and self.is_mine(event["job"])}
        signalled = (started | {int(pid) for pid in self.given}) & self.happened.signalled
        if not self.happened.refused and len(signalled) < 2:
            return set()
        return {row["item"] for row in failed if BROUGHT_DOWN in str(row.get("reason"))}

    def is_mine(self, job: str) -> bool:
        """Whether a job is a worker of this map."""
        return job.split("/")[0] == self.stage

    def judge_items(self, rows: list[dict[str, Any]], failed: list[dict[str, Any]], complete: bool) -> None:
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
            if not complete and sum(times) == 0:
                continue
            check("every item once", sum(times) == 1, f"{item.name!r} has {times[0]} rows and {times[1]} failures")
            if item.expect == "row":
                right = values.get(item.name) == item.value
                seen = values.get(item.name, f"failed: {reasons.get(item.name)}")
                check(
                    "every item as it should be",
                    right or item.name in self.unlucky,
                    f"{item.name!r} must be {item.value}, is {seen}",
                )
            elif item.expect == "failed":
                seen = f"it has the row {values.get(item.name)}"
                check("every item as it should be", losses[item.name] == 1, f"{item.name!r} must fail, {seen}")

    def judge_twins(self, rows: list[dict[str, Any]], failed: list[dict[str, Any]]) -> None:
        """What is in a file decides what becomes of it, not what came before it."""
        values = {row["item"]: "failed" for row in failed} | {row["item"]: row.get("value") for row in rows}
        fates: dict[str, dict[str, Any]] = defaultdict(dict)
        for item in self.map.items:
            if item.twin is not None and item.name in values and item.name not in self.unlucky:
                fates[item.twin][item.name] = values[item.name]
        for seen in fates.values():
            alike = len({str(value) for value in seen.values()}) == 1
            self.verdict.check("files of one content fare alike", alike, f"{seen}")

    def judge_commits(self) -> None:
        """What was announced as committed is there, and no later call has given it to the model again."""
        settled: dict[str, int] = {}
        for name, (data, call) in self.happened.parts.items():
            if not name.startswith(self.within + "part-"):
                continue
            path = self.run / name
            same = path.exists() and path.read_bytes() == data
            self.verdict.check("no announced commit is lost", same, f"{name} is not what was committed")
            settled |= {json.loads(line)["item"]: call for line in data.split(b"\n") if line}
        if self.happened.doubt:
            return
        begun = self.happened.begun
        for pid, notes in self.given.items():
            for note in notes:
                call = sum(note["ns"] > ns for ns in begun) - 1
                again = [name for name in note.get("items", []) if settled.get(name, call) < call]
                text = (
                    f"call {call} gave {again[:3]} to worker {pid}, committed by call {settled.get((again or [''])[0])}"
                )
                self.verdict.check("no committed item is done again", not again, text)

    def judge_workers(self, events: list[journal.Event]) -> None:
        """Files that the model of a worker left open are whole, if the worker ended as its map did."""
        if self.happened.refused:
            return
        living: dict[str, str] = {}
        for event in events:
            if event["event"] == "job_started":
                living[event["job"]] = str(event["pid"])
            elif event["event"] == "job_succeeded" and (pid := living.pop(event["job"], "")) and self.given.get(pid):
                wanted, there = self.given[pid][-1]["lines"], self.seen.get(pid, b"").count(b"\n")
                # Its last item may have crashed it when the map was complete.
                crashed = any(name.startswith("crash") for name in self.given[pid][-1].get("items", []))
                killed = crashed or int(pid) in self.happened.signalled
                text = f"worker {pid} wrote {wanted} lines into a file it never closed, {there} are there"
                self.verdict.check("a model's own files are whole", there >= wanted or killed, text)
