"""The judge of plans: by journal, outputs and what jobs noted, whether every job is in a state its story allows.

Shares no code with gpulane; docs/run-directory.md and docs/exit-codes.md are its law.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from . import journal
from .judge_maps import MapJudge
from .story import REASONS, UNCOUNTED, Happened, JobStory, StageStory, Story
from .verdict import Verdict, check_announced, read_notes

# What a job says of a full disk.
FULL = "No space left on device"


@dataclass
class Fate:
    """What became of a job, by the journal."""

    state: str = "waiting"
    # Failures since it was last given a fresh start that use up a try.
    counted: int = 0
    # Those on a full disk, which do not.
    disk_full: int = 0
    failures: list[journal.Event] = field(default_factory=list)
    last: journal.Event = field(default_factory=dict)
    # The process of its latest attempt; 0 where no record of its start can be read.
    pid: int = 0
    # Attempts of which it was said that they show no life and may live.
    told: set[int] = field(default_factory=set)


class Judge:
    """Judges a plan's run that has come to its end."""

    def __init__(self, story: Story, happened: Happened, run: Path, notes: Path) -> None:
        self.story, self.happened, self.run, self.folder = story, happened, run, notes
        self.verdict = Verdict()
        self.notes = {job.name: read_notes(notes / job.name.replace("/", "@")) for job in story.jobs()}
        self.fates = {job.name: Fate() for job in story.jobs()}
        self.jobs = {job.name: job for job in story.jobs()}
        self.stages = {stage.name: stage for stage in story.stages}
        # Workers of maps, by the state they are in, and maps whose items are all settled.
        self.workers = {job.name: "waiting" for stage in story.stages if stage.map for job in stage.jobs}
        self.settled: set[str] = set()

    def judge(self) -> Verdict:
        """Everything, one after the other."""
        reading = journal.read(self.run / "journal.jsonl")
        self.verdict.check("the journal is whole", not reading.faults, "; ".join(reading.faults))
        check_announced(self.verdict, self.happened, reading.events)
        for event in reading.events:
            self.fold(event)
        for job in self.story.jobs():
            self.judge_state(job)
            self.judge_output(job)
            self.judge_notes(job)
        for stage, map_ in self.story.maps().items():
            if any(event["event"] == "map_opened" and event["stage"] == stage for event in reading.events):
                judge = MapJudge(self.story, stage, map_, self.happened, self.run, self.folder)
                verdict = judge.judge(reading.events, complete=stage in self.settled)
                self.verdict.add(verdict)
        self.judge_end(reading.events)
        return self.verdict

    def fold(self, event: journal.Event) -> None:
        """Takes one record in."""
        name, kind = event.get("job"), str(event.get("event"))
        if kind in ("map_finished", "map_reopened"):
            (self.settled.add if kind == "map_finished" else self.settled.discard)(event["stage"])
        if name in self.workers:
            self.fold_worker(name, kind)
        if name not in self.fates:
            return
        fate, job = self.fates[name], self.jobs[name]
        check = self.verdict.check
        if kind == "job_started":
            check("no success is run again", fate.state != "succeeded", f"{name} was started after its success")
            self.judge_order(job)
            gone = self.given_up(self.story.stage_of(job))
            check("a stage stops when it must", not gone, f"{name} was started after {gone} had failed for good")
            fate.state, fate.pid = "running", event["pid"]
        elif kind == "job_succeeded":
            check("every job ends once", fate.state != "succeeded", f"{name} succeeded twice")
            fate.state = "succeeded"
        elif kind == "job_failed":
            check("every job ends once", fate.state != "succeeded", f"{name} failed after its success")
            fate.state, fate.last = "failed", event
            fate.failures.append(event)
            fate.counted += event["reason"] not in UNCOUNTED and not event.get("shared") and not event.get("disk_full")
            if event.get("disk_full"):
                self.judge_disk_full(job, fate, event)
            self.judge_reason(job, event)
            fate.pid = 0
        elif kind == "job_retrying":
            limit = self.story.stage_of(job).retries
            fine = fate.counted <= limit or self.happened.doubt
            check(
                "retries are counted", fine, f"{name} is tried again after {fate.counted} failures, retries = {limit}"
            )
            fate.state = "waiting"
        elif kind == "hang_suspected" and not event["frozen"]:
            fate.told.add(event["attempt"])
        elif kind == "job_skipped":
            fate.state = "skipped"
        elif kind == "job_requeued":
            check("every job ends once", fate.state != "succeeded", f"{name} is queued again after its success")
            fate.state, fate.counted, fate.disk_full = "waiting", 0, 0

    def fold_worker(self, name: str, kind: str) -> None:
        """Takes in a record of a worker."""
        states = {"job_started": "running", "job_succeeded": "succeeded", "job_failed": "failed"}
        states |= {"job_retrying": "waiting", "job_skipped": "skipped", "job_requeued": "waiting"}
        if kind == "job_started" and self.workers[name] == "waiting":
            stage = self.stages[name.split("/")[0]]
            self.judge_order(JobStory(name, stage.name, {}))
        self.workers[name] = states.get(kind, self.workers[name])
        if kind == "job_skipped" and name.split("/")[0] in self.settled:
            # There was nothing left to do for it, which is no less than to have done it.
            self.workers[name] = "succeeded"

    def given_up(self, stage: StageStory) -> list[str]:
        """The jobs that have failed for good, if they are so many that the stage must stop."""
        if stage.most_failures is None or self.happened.doubt:
            return []
        fates = {job.name: self.fates[job.name] for job in stage.jobs}
        gone = [name for name, fate in fates.items() if fate.state == "failed" and fate.counted > stage.retries]
        gone = [name for name in gone if fates[name].last["reason"] != "cancelled"]
        return gone if len(gone) >= stage.most_failures else []

    def judge_order(self, job: JobStory) -> None:
        """A job starts when those it follows have ended as it needs."""
        if self.happened.doubt:
            return
        stage = self.stages[job.stage]
        if job.source:
            state = self.fates[job.source].state
            self.verdict.check("order", state == "succeeded", f"{job.name} started while {job.source} was {state}")
            return
        for other in self.story.stages:
            if other.name in stage.after and other.map:
                self.verdict.check("order", other.name in self.settled, f"{job.name} started before {other.name} ended")
            elif other.name in stage.after:
                states = {each.name: self.fates[each.name].state for each in other.jobs}
                fine = set(states.values()) == {"succeeded"}
                self.verdict.check("order", fine, f"{job.name} started with stage {other.name} at {states}")

    def judge_disk_full(self, job: JobStory, fate: Fate, event: journal.Event) -> None:
        """A try on a full disk does not count, where one was full; of another than the run's, three times."""
        fate.disk_full += event["disk_full"] == "other"
        fine = self.happened.refused and (fate.disk_full <= 3 or self.happened.doubt)
        text = f"{job.name} failed {fate.disk_full} times on a full disk without that being counted"
        self.verdict.check("retries are counted", fine, text)

    def was_full(self, event: journal.Event) -> bool:
        """Whether the disk was full when this was recorded, and a moment before and after."""
        at = datetime.fromisoformat(event["time"].replace("Z", "+00:00")).timestamp()
        return any(begun + 0.2 < at < ended - 0.2 for begun, ended in self.happened.full)

    def judge_reason(self, job: JobStory, event: journal.Event) -> None:
        """Every failure has a cause in the story, or in what the torture did."""
        reason, attempt = event["reason"], event["attempt"]
        notes = [note for note in self.notes[job.name] if note["attempt"] == attempt]
        own = any(note["at"] == "failing" and REASONS[note["how"]] == reason for note in notes)
        # Of a damaged journal the record of its start may be gone; its own note is not, if it came to write one.
        pids = {self.fates[job.name].pid, *(note.get("pid") for note in notes)} - {None, 0}
        nameless = self.happened.doubt and not pids and bool(self.happened.signalled)
        done = {
            "exit": self.happened.refused or any(note["at"] == "trouble" for note in notes),
            "signal": bool(pids & self.happened.signalled) or nameless,
            "timeout": self.happened.slowed and "timeout" in self.story.stage_of(job).keys,
            "cancelled": {"*", job.name} & self.happened.cancelled,
            "interrupted": True,
            "lost": True,
            "publish": self.happened.refused,
            "start": self.happened.refused,
            "stopped": True,
        }
        text = f"{job.name} attempt {attempt} failed by {reason}: {json.dumps(event)}; it noted {notes}"
        # One that somebody ended has failed for that.
        met_full_disk = any(note["at"] == "trouble" and FULL in note["what"] for note in notes)
        if met_full_disk and reason == "exit" and self.was_full(event):
            self.verdict.check("a full disk burns no job", bool(event.get("disk_full")), text)
        self.verdict.check("every failure has its cause", bool(own or done.get(reason)), text)

    def judge_state(self, job: JobStory) -> None:
        """The state a job is left in."""
        fate, stage = self.fates[job.name], self.story.stage_of(job)
        check = self.verdict.check
        ended = fate.state in ("succeeded", "failed", "skipped")
        check("every job in one state its story allows", ended, f"{job.name} is left {fate.state}")
        if fate.state == "failed" and fate.last["reason"] != "cancelled" and not self.happened.doubt:
            right = fate.counted == stage.retries + 1 or bool(self.given_up(stage) and fate.counted <= stage.retries)
            check(
                "retries are counted",
                right,
                f"{job.name} has failed for good after {fate.counted} failures, retries = {stage.retries}: {fate.last}",
            )
        if fate.state == "skipped":
            before = [self.stages[name] for name in stage.after]
            needed = [job.source] if job.source else [e.name for s in before if not s.map for e in s.jobs]
            cause = [name for name in needed if self.fates[name].state != "succeeded"] + self.given_up(stage)
            cause += [s.name for s in before if s.map and s.name not in self.settled]
            # With a part of the journal the failures that stopped the stage may be lost.
            stopped = stage.most_failures is not None and self.happened.doubt
            fine = bool(cause) or stopped or "*" in self.happened.cancelled
            check("every job in one state its story allows", fine, f"{job.name} was skipped without a cause")
        if job.name in self.happened.announced:
            check(
                "no announced success is lost",
                fate.state == "succeeded",
                f"{job.name} was announced and is {fate.state}",
            )

    def judge_output(self, job: JobStory) -> None:
        """The output is there and whole if the job succeeded, and not there otherwise."""
        fate, out = self.fates[job.name], self.run / "jobs" / job.name / "out"
        check = self.verdict.check
        if fate.state != "succeeded":
            check("every output once and whole", not out.exists(), f"{job.name} is {fate.state} and has an output")
            return
        problem, whole = read_output(out)
        if not check("every output once and whole", problem is None, f"{job.name}: {problem}"):
            return
        first = self.happened.published.get(job.name, whole["token"])
        check("every output once and whole", first == whole["token"], f"{job.name}: {first} was published before it")
        then = self.happened.announced.get(job.name)
        if then is not None:
            same = json.loads(then) == whole if then else False
            check("no announced success is lost", same, f"{job.name}: output {whole} is not what was announced: {then}")
        starts = [note for note in self.notes[job.name] if note["at"] == "start"]
        last = starts[-1]["token"] if starts else None
        check(
            "no success is run again",
            last == whole["token"],
            f"{job.name}: published by {whole['token']}, last started as {last}",
        )
        if job.source:
            _, source = read_output(self.run / "jobs" / job.source / "out")
            fine = source is not None and source["token"] == whole["source"]
            check(
                "inputs are published outputs",
                fine,
                f"{job.name} was given {whole['source']}, {job.source} is {source}",
            )

    def judge_notes(self, job: JobStory) -> None:
        """What the job itself has seen."""
        check = self.verdict.check
        for note in self.notes[job.name]:
            if note["at"] == "twice":
                check(
                    "nothing twice at once", False, f"{job.name} attempt {note['attempt']} found {note['what']} in use"
                )
            if note["at"] == "start":
                check("nothing twice at once", True, "")
                clean = not note["ignored"] and not note["blocked"]
                check(
                    "jobs start with clean signals",
                    clean,
                    f"{job.name}: ignored {note['ignored']}, blocked {note['blocked']}",
                )
            if note["at"] == "woke" and not self.happened.slowed and not self.happened.doubt:
                told = note["attempt"] in self.fates[job.name].told
                check("what is quiet is told", told, f"{job.name} slept for {job.part['quiet']} s and nobody was told")
        if self.fates[job.name].state == "skipped" and not self.fates[job.name].failures:
            never = not any(note["at"] == "start" for note in self.notes[job.name])
            # Where the journal could not be written and the engine was killed, the record of a start is lost.
            unrecorded = self.happened.doubt or self.happened.refused
            check(
                "every job in one state its story allows",
                never or unrecorded,
                f"{job.name} is skipped but ran",
            )

    def judge_end(self, events: list[journal.Event]) -> None:
        """The last record counts what there is."""
        last = next((event for event in reversed(events) if event["event"] == "run_finished"), None)
        if last is None and self.happened.doubt:
            return
        if not self.verdict.check("the run ends", last is not None, f"no run_finished; last: {events[-1:]}"):
            return
        assert last is not None
        states = Counter([*(fate.state for fate in self.fates.values()), *self.workers.values()])
        said = {key: last[key] for key in ("succeeded", "failed", "skipped")}
        right = all(said[key] == states[key] for key in said)
        self.verdict.check("the run ends", right, f"run_finished says {said}, jobs are {dict(states)}")


def read_output(out: Path) -> tuple[str | None, dict[str, Any]]:
    """What is wrong with an output, and what it says of itself."""
    try:
        whole = json.loads((out / "whole.json").read_bytes())
    except (OSError, ValueError) as error:
        return f"{out}/whole.json: {error}", {}
    expected = set(whole["files"]) | {"whole.json"}
    there = {str(path.relative_to(out)) for path in out.rglob("*") if not path.is_dir()} - {"result.txt"}
    if expected != there:
        return f"{out} holds {sorted(there)}, not {sorted(expected)}", whole
    for name, checksum in whole["files"].items():
        data = (out / name).read_bytes()
        if hashlib.sha256(data).hexdigest() != checksum:
            return f"{out}/{name} is damaged: {len(data)} bytes", whole
        if data.split(b"\n", 1)[0] != whole["token"].encode():
            return f"{out}/{name} is of another attempt", whole
    return None, whole
