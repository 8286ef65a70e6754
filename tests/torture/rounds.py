"""One round: a story, the faults it meets, the calls it takes to bring it to its end, and the verdict."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import uuid
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from . import disks, faults, journal, maps, plans, proc
from .control import Control, FakeGpus
from .disks import Disk
from .faults import Fault, Kind
from .judge import Judge, read_output
from .judge_maps import MapJudge
from .life import MOST, Life, has_ended
from .program import Program
from .story import Happened, Story
from .verdict import Verdict

# After the last fault a run must come to its end within so many calls.
MOST_LIVES = 10
# Kinds under which a round belongs to another user from its beginning, and numbers that no user has.
OTHERS = {"another user", "few processes"}
FIRST_USER = 100000


@dataclass
class Options:
    """What holds for all rounds."""

    binary: Path
    seed: int
    base: Path
    have: set[str]
    kinds: list[Kind]
    preload: Path | None = None
    nvml: Path | None = None
    # Maps may be of pictures.
    pictures: bool = True


@dataclass
class Outcome:
    """What a round came to."""

    number: int
    planned: Counter[str] = field(default_factory=Counter)
    struck: Counter[str] = field(default_factory=Counter)
    verdict: Verdict = field(default_factory=Verdict)
    jobs: int = 0
    items: int = 0
    calls: int = 0
    peaks: dict[str, int] = field(default_factory=dict)
    story: str = ""
    diary: list[str] = field(default_factory=list)
    folder: Path | None = None


class Round:
    """One round, by its number and the seed alone."""

    def __init__(self, options: Options, number: int) -> None:
        self.options, self.number = options, number
        self.dice = random.Random(f"{options.seed}/{number}")
        self.kinds = {kind.name: kind for kind in options.kinds}
        self.story, self.faults = self.compose()
        self.happened = Happened()
        self.outcome = Outcome(number)
        self.folder = options.base / f"round-{number}"
        # The folder's name is this campaign's own: another one, with the same seed, must not end its processes.
        self.tag = f"{options.base.name}-r{number}-{uuid.uuid4().hex[:8]}"
        self.struck: list[str] = []
        self.boot = 0
        # Whose processes can be counted: nobody else has any as this user.
        # Several tortures may run side by side: a limit of processes counts all of a user.
        self.user = FIRST_USER + (options.seed * 257 + number) % 20000

    def compose(self) -> tuple[Story, list[Fault]]:
        """The story and its faults: the first fault goes through all kinds in turn, others come by chance."""
        usable = [kind for kind in self.options.kinds if kind.needs <= self.options.have | faults.STORIES]
        order = [kind for kind in usable for _ in range(kind.turns)]
        random.Random(self.options.seed).shuffle(order)
        first = order[self.number % len(order)]
        story = maps.make(self.dice, self.options.pictures) if self.wants_map(first) else plans.make(self.dice)
        if "entry" in first.needs:
            # One by one, so that there is a standby most of the time.
            while len(story.stages[0].jobs) < 3:
                story = plans.make(self.dice)
            story.stages[0].keys["parallel"] = 1
            story.stages[0].keys.pop("command", None)
            story.stages[0].keys |= {"entry": "actor.py:main", "python": maps.PYTHON, "standbys": 1}
        story.disk = next((kind for kind in ("small", "image") if kind in first.needs), "plain")
        if "nvml" in first.needs:
            story.nvml, story.gpus, story.lanes = True, "all", None
            for job in story.jobs():
                # On a GPU that cannot be read a job that stands still is told and left alone: it may be at work.
                if job.part.get("how") == "freeze":
                    job.part["how"] = "exit"
        given = {story.disk, "root", "user", "preload"} | ({"nvml"} if story.nvml else set())
        given &= self.options.have | faults.STORIES
        given |= {"map"} if story.map else {"plan", "map"} if story.maps() else {"plan"}
        given |= {"entry"} if any("entry" in stage.keys for stage in story.stages) else set()
        others = [kind for kind in usable if kind.needs <= given and kind.name not in OTHERS]
        # What a round was equipped for is worth more than one try.
        special = [kind for kind in others if kind.needs & first.needs & faults.EQUIPMENT]
        chosen = [self.dice.choice(special) for _ in range(self.dice.choice([1, 1, 2]))] if special else []
        likely = [kind for kind in others for _ in range(kind.turns)]
        chosen += [self.dice.choice(likely) for _ in range(self.dice.choice([0, 1, 2, 2, 3]))] if likely else []
        # The first one comes in the first call: a run may have ended before a later one.
        self.dice.shuffle(chosen)
        chosen.insert(0, first)
        records = 8 * len(story.maps()) + 2 + 3 * len(story.jobs()) - 2 * bool(story.map)
        return story, faults.schedule(self.dice, chosen, records)

    def wants_map(self, first: Kind) -> bool:
        """Whether the round is a map; what needs neither plan nor map has the choice."""
        return "map" in first.needs or (not first.needs & {"plan", "entry"} and self.dice.random() < 0.3)

    # The course of a round ---------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Everything; leaves nothing behind but, after a violation, the round's folder."""
        self.outcome.story = self.story.tell()
        try:
            self.prepare()
            self.live()
            self.judge()
        finally:
            self.clean()
        self.outcome.planned = Counter(fault.kind for fault in self.faults)
        self.outcome.struck = Counter(self.struck)
        self.outcome.diary = self.happened.diary
        return self.outcome

    def prepare(self) -> None:
        """The folder, the actors and the place for the run directory."""
        self.folder.mkdir()
        for name in ("log", "locks", "cache"):
            (self.folder / name).mkdir()
        here = Path(__file__).parent
        shutil.copy(here / "actor.py", self.folder)
        (self.folder / "tag").write_text(self.tag)
        for map_ in self.story.maps().values():
            maps.write(map_, self.folder)
        if not self.story.map:
            (self.folder / "plan.toml").write_text(plans.toml(self.story))
            acts = {job.name: job.part for job in self.story.jobs()}
            (self.folder / "acts.json").write_text(json.dumps({"jobs": acts}, indent=1))
        self.disk = Disk(
            self.story.disk,
            self.folder / "disk",
            self.dice.choice(["commit=1", "commit=300", "commit=300,noauto_da_alloc"]),
        )
        if not self.disk.make(6 << 20):
            raise RuntimeError(f"no disk of kind {self.story.disk} at {self.disk.at}")
        self.place = self.disk.at / "r"
        self.program = Program(self.options.binary, self.folder, self.tag)
        self.control = Control(self.folder / "control")
        if self.options.preload and {"clock jumps", "slow syncs", "failing syncs"} & {f.kind for f in self.faults}:
            self.program.variables |= self.control.variables(self.options.preload)
        self.gpus = None
        if self.story.nvml and self.options.nvml:
            self.gpus = FakeGpus(self.folder / "gpus", self.options.nvml, self.dice.choice([2, 4]))
            self.program.variables |= self.gpus.variables()
        if OTHERS & {fault.kind for fault in self.faults}:
            for path in [self.folder, *self.folder.rglob("*")]:
                os.chown(path, self.user, self.user)

    def live(self) -> None:
        """Call after call until the run has ended and there is nothing to do."""
        last = max((fault.life for fault in self.faults), default=0)
        salvage = again = False
        for number in range(MOST_LIVES):
            life = self.next_life(number)
            arguments = self.arguments(salvage, again)
            salvage = again = False
            life.begin(arguments)
            code = life.live()
            self.after(life, code)
            if code is None:
                return
            # One that was killed before it could refuse has left the journal as it is.
            salvage = life.refusal
            if number >= last and code == 4:
                return
            if number == last + 1 and code in (0, 3) and self.dice.random() < 0.3:
                again = True
        self.violate("the run ends", f"{MOST_LIVES} calls have not brought it to its end")

    def next_life(self, number: int) -> Life:
        """The next call, under the circumstances that hold for all calls of this round."""
        life = Life(self.program, self.story, self.happened, self.disk, self.place, number, self.faults, self.kinds)
        life.control, life.gpus, life.user = self.control, self.gpus, self.user
        life.struck, life.violations = self.struck, self.outcome.verdict.violations
        if OTHERS & {fault.kind for fault in self.faults}:
            life.wish["user"] = self.user
        if self.boot:
            path = self.folder / f"boot-{self.boot}"
            path.write_text(f"{uuid.UUID(int=self.boot)}\n")
            life.wish["boot"] = str(path)
        return life

    def arguments(self, salvage: bool, again: bool) -> list[str]:
        """What is typed next."""
        if (self.place / "plan.json").exists():
            more = ["--salvage"] if salvage else ["--failed"] if again else []
            if self.story.map and self.story.map.most_failures is not None and self.stopped():
                more += ["--max-failures", "100%"]
            return ["resume", str(self.place), "--json", *more]
        if self.place.exists():
            lost = [name for name in self.happened.announced if not self.story.map]
            if lost:
                self.violate("no announced success is lost", f"{self.place} has no plan, {lost} were announced")
            shutil.rmtree(self.place, ignore_errors=True)
        gpus = ["--gpus", self.story.gpus] + (["--lanes", str(self.story.lanes)] if self.story.lanes else [])
        if self.story.map:
            return ["map", *self.story.map.arguments, "--out", str(self.place), "--json", *gpus]
        return ["run", "plan.toml", "--run-dir", str(self.place), "--json", *gpus]

    def stopped(self) -> bool:
        """Whether the last word about a map is that it cannot go on."""
        events = journal.read(self.place / "journal.jsonl").events
        return [event["event"] for event in events if event["event"].startswith("map_")][-1:] == ["map_stopped"]

    def finished(self) -> list[journal.Event]:
        """The journal, if its last word is that all has ended."""
        events = journal.read(self.place / "journal.jsonl").events
        return events if has_ended(events) else []

    def after(self, life: Life, code: int | None) -> None:
        """What must hold when a call has ended."""
        self.outcome.calls += 1
        for target, peak in life.eyes.peaks.items():
            self.outcome.peaks[target] = max(peak, self.outcome.peaks.get(target, 0))
            self.check("memory within bounds", peak < MOST[target], f"{target} held {peak >> 20} MiB")
        self.check(
            "no call hangs", code is not None, f"{' '.join(life.call.arguments)} stands still; {self.happened.diary}"
        )
        for mend in reversed(life.afterwards):
            mend()
        if code is None:
            return
        if life.gpu_lost and self.gpus:
            for gpu in self.gpus.script["gpus"]:
                gpu.pop("lost", None)
            self.gpus.write()
        if life.was_cut:
            self.boot += 1
            if not self.disk.power_on():
                raise RuntimeError("the image cannot be mounted again")
        else:
            self.judge_code(life, code)
        self.judge_left()
        for job in self.story.jobs():
            problem, whole = read_output(self.place / "jobs" / job.name / "out")
            if problem is None:
                self.happened.published.setdefault(job.name, whole["token"])

    def judge_code(self, life: Life, code: int) -> None:
        """The exit code is one that docs/exit-codes.md gives for what happened."""
        allowed = set(life.call.excused)
        if life.refusal:
            allowed |= {2}
        elif life.must:
            allowed |= life.must | ({4} if life.had_ended else set())
            # A map whose end is recorded needs no ledger, also where the end of the run is lost.
            allowed |= {0, 3} if self.happened.doubt else set()
        elif life.had_ended and "--failed" not in life.call.arguments:
            # What was lost with a damaged journal is looked at again.
            allowed |= {0, 3, 4} if "--salvage" in life.call.arguments else {4}
            # A map that was cancelled before it began is taken up again.
            allowed |= {0, 3} if self.happened.cancelled and self.story.maps() else set()
        elif events := self.finished():
            some = (
                events[-1]["failed"]
                or events[-1]["skipped"]
                or any(event.get("failed") for event in events if event["event"] == "map_finished")
            )
            allowed |= {3} if some else {0}
            if "--failed" in life.call.arguments:
                allowed |= {4}
        if not life.refusal and "resume" in life.call.arguments and not self.started_since(life.records):
            # Every job had ended, but for the record of that.
            allowed |= {4}
        if self.story.map and self.story.map.most_failures is not None and self.stopped():
            allowed |= {3}
        if self.happened.refused and not has_ended(events := journal.read(self.place / "journal.jsonl").events):
            # A map that cannot write says so, stops and can be resumed.
            allowed |= {2, 3} if any(event["event"] == "map_stopped" for event in events) else set()
        if self.happened.refused and life.call.excused & {130, 143}:
            # All of it had ended when it was told to end, and that could not be recorded.
            allowed |= {0, 3}
        if self.happened.doubt and not life.refusal:
            # The record of the end may be what was lost.
            allowed |= {4}
        words = life.call.words().strip()[-600:]
        self.check(
            "exit codes as documented",
            code in allowed,
            f"{' '.join(life.call.arguments)} ended with {code}, not one of {sorted(allowed)}: {words}",
        )

    def started_since(self, records: int) -> bool:
        """Whether a job was started after so many records."""
        events = journal.read(self.place / "journal.jsonl").events
        return any(event["event"] == "job_started" for event in events[records:])

    def judge_left(self) -> None:
        """Nothing that was started is left."""
        left = proc.wait_gone(self.tag, 8.0)
        if self.happened.orphans:
            # Out of reach, as the docs say; those with a tag are ended by the next call.
            for process in left:
                proc.send(process.pid, 9)
            left = []
        self.check("no process left", not left, f"{[(each.pid, each.state, each.command[-120:]) for each in left]}")
        proc.end_all(self.tag)

    def judge(self) -> None:
        """The verdict over what the run has come to."""
        notes = self.folder / "log"
        if self.story.map:
            verdict = MapJudge(self.story, "model", self.story.map, self.happened, self.place, notes).judge_alone()
        else:
            verdict = Judge(self.story, self.happened, self.place, notes).judge()
        self.outcome.verdict.add(verdict)
        self.outcome.jobs = len(self.story.jobs())
        self.outcome.items = sum(len(map_.items) for map_ in self.story.maps().values())

    def check(self, invariant: str, holds: bool, otherwise: str) -> None:
        """Counts a check of this round."""
        self.outcome.verdict.check(invariant, holds, otherwise)

    def violate(self, invariant: str, what: str) -> None:
        """Something that must not be."""
        self.check(invariant, False, what)

    def clean(self) -> None:
        """Ends what is left and removes the folder, unless there is something to see in it."""
        proc.end_all(self.tag)
        for call in getattr(self, "program", Program(Path(), Path(), "")).calls:
            call.close()
        kept = bool(self.outcome.verdict.violations)
        if hasattr(self, "disk"):
            if kept and self.story.disk != "plain":
                with contextlib.suppress(OSError):
                    shutil.copytree(self.disk.at, self.folder / "disk-kept", symlinks=True)
            self.disk.remove()
        if kept:
            self.outcome.folder = self.folder
        else:
            shutil.rmtree(self.folder, ignore_errors=True)


__all__ = ["Options", "Outcome", "Round", "disks"]
