"""One call of gpulane on a run, from start to end: faults strike as its journal grows, its processes are watched.

Owns who is who among the processes of a run, and the deadlines.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import proc
from .control import Control, FakeGpus
from .disks import Disk
from .faults import Fault, Kind
from .journal import Event, Follower, read
from .program import Call, Program
from .story import Happened, Story

# Without a record for so long, while nobody is stopped, a run hangs: no job takes longer than a few seconds.
STILL = 45.0
# Busy for this share of this time without a record: a loop without progress.
SPIN_SHARE, SPIN_SECONDS = 0.7, 10.0
# A child that has ended is reaped within this time.
ZOMBIE_SECONDS = 5.0
# The most memory each of gpulane's own processes may ever hold.
MOST = {"front": 300 << 20, "guardian": 100 << 20, "engine": 300 << 20, "feeder": 1500 << 20}


@dataclass
class Eyes:
    """What was seen of gpulane's own processes: CPU time since the last record, peak memory."""

    since: dict[int, tuple[float, float, float]] = field(default_factory=dict)
    peaks: dict[str, int] = field(default_factory=dict)
    # Children that have ended and were not reaped, and when that was first seen.
    zombies: dict[int, float] = field(default_factory=dict)
    next_look: float = 0.0


@dataclass
class Life:
    """A call, and what is done to it."""

    program: Program
    story: Story
    happened: Happened
    disk: Disk
    run: Path
    number: int
    faults: list[Fault]
    kinds: dict[str, Kind]
    struck: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    wish: dict[str, Any] = field(default_factory=dict)
    call: Call = field(init=False)
    journal: Follower = field(init=False)
    eyes: Eyes = field(default_factory=Eyes)
    # Exit codes that what was done before the call explains.
    excused: set[int] = field(default_factory=set)
    # The same for calls beside this one.
    excused_beside: set[int] = field(default_factory=set)
    refusal: bool = False
    # What was done to its surroundings lets it end with one of these only.
    must: set[int] = field(default_factory=set)
    was_cut: bool = False
    # The run goes on in the background, and the call is a `watch` that waits for its end.
    detached: bool = False
    # The user that the run belongs to where that is another one.
    user: int = 0
    # When something was announced for the last time.
    heard: float = 0.0
    # What is to be set right when the call has ended.
    afterwards: list[Callable[[], object]] = field(default_factory=list)
    # There was nothing left to do before the call.
    had_ended: bool = False
    # How many records the journal had then.
    records: int = 0
    _due: dict[Fault, float] = field(default_factory=dict)
    _later: list[tuple[float, Callable[[], object]]] = field(default_factory=list)
    _beside: list[tuple[Call, set[int]]] = field(default_factory=list)
    # Records there were before the call.
    lines_before: int = 0
    control: Control = field(default_factory=lambda: Control(Path()))
    gpus: FakeGpus | None = None
    gpu_lost: bool = False

    def begin(self, arguments: list[str]) -> None:
        """Starts the call, under the circumstances this life has."""
        self.journal = Follower(self.run / "journal.jsonl")
        self.journal.poll()
        self.lines_before = len(self.journal.seen)
        for fault in self.mine("between") + self.mine("start"):
            self.strike(fault)
        events = read(self.run / "journal.jsonl").events
        self.had_ended, self.records = has_ended(events), len(events)
        self.happened.begun.append(time.monotonic_ns())
        self.call = self.program.start(arguments + ["--detach"] * self.detached, self.wish)
        if self.detached and self.call.wait(STILL) == 0:
            same = {"user": self.wish["user"]} if "user" in self.wish else None
            self.call = self.program.start(["watch", str(self.run), "--json"], same)
        self.call.excused |= self.excused

    def mine(self, when: str) -> list[Fault]:
        """The faults of this life that strike then and have not struck."""
        return [fault for fault in self.faults if fault.life == self.number and self.kinds[fault.kind].when == when]

    def strike(self, fault: Fault) -> bool:
        """Lets a fault happen; true: it did."""
        if not self.kinds[fault.kind].strike(self, fault):
            return False
        self.struck.append(fault.kind)
        return True

    def live(self) -> int | None:
        """Goes on until the call ends, and gives its exit code; None: it hung."""
        waiting = self.mine("during")
        changed = time.monotonic()
        while True:
            if self.journal.poll() or self._later:
                changed = time.monotonic()
            self.hear()
            waiting = [fault for fault in waiting if not self.attempt(fault)]
            self.do_later()
            code = self.call.ended()
            if code is not None and not self._later:
                break
            now = time.monotonic()
            if now - changed > STILL:
                break
            self.watch(now, changed)
            time.sleep(0.01)
        for _, what in self._later:
            what()
        self._later = []
        self.finish_beside()
        self.call.hear()
        return self.call.ended()

    def attempt(self, fault: Fault) -> bool:
        """Lets a fault happen if its moment has come; true: it did, or never will."""
        now = time.monotonic()
        if self.call.ended() is not None:
            return True
        if fault not in self._due:
            if len(self.journal.seen) - self.lines_before < fault.records:
                return False
            self._due[fault] = now + fault.delay
        return now >= self._due[fault] and self.strike(fault)

    def hear(self) -> None:
        """Takes in what `--json` announces, with the token each announced output bears."""
        heard = self.call.hear()
        if self.detached:
            # `watch` shows what is in the journal, which may be lost until it is synced.
            return
        for event in heard:
            if "seq" in event:
                self.heard = time.monotonic()
                self.happened.records[event["seq"]] = (event["event"], event.get("job"))
            if event.get("event") == "job_succeeded":
                self.happened.announced.setdefault(event["job"], token_of(self.run, event["job"]))
            if event.get("event") == "batch_committed" and event.get("part"):
                path = self.story.map_folder(event["stage"]) + event["part"]
                with contextlib.suppress(OSError):
                    self.happened.parts.setdefault(path, ((self.run / path).read_bytes(), self.number))

    def do_later(self) -> None:
        """Does what was put off and is due."""
        now = time.monotonic()
        due = [what for when, what in self._later if when <= now]
        self._later = [(when, what) for when, what in self._later if when > now]
        for what in due:
            what()

    def watch(self, now: float, changed: float) -> None:
        """Looks for loops without progress and for memory, twice a second."""
        if now < self.eyes.next_look:
            return
        self.eyes.next_look = now + 0.5
        for target in ("front", "guardian", "engine", "feeder"):
            for process in self.find(target):
                self.look_for_zombies(target, process, now)
                used = proc.spent(process.pid)
                self.eyes.peaks[target] = max(self.eyes.peaks.get(target, 0), used.peak)
                at, wanted, since = self.eyes.since.get(process.pid, (now, used.wanted, changed))
                if since != changed or process.pid not in self.eyes.since:
                    at, wanted = now, used.wanted
                self.eyes.since[process.pid] = (at, wanted, changed)
                busy, time_passed = used.wanted - wanted, now - at
                if time_passed > SPIN_SECONDS and busy > SPIN_SHARE * time_passed:
                    self.violate(f"no loop without progress: {target}: {busy:.1f} s of CPU in {time_passed:.1f} s")
                    self.eyes.since[process.pid] = (now, used.wanted, changed)

    def look_for_zombies(self, target: str, process: proc.Process, now: float) -> None:
        """A child that has ended is reaped within seconds, unless its parent was stopped."""
        zombies = proc.zombies(process.pid) if process.state not in "tT" else []
        for pid in zombies:
            since = self.eyes.zombies.setdefault(pid, now)
            if now - since > ZOMBIE_SECONDS:
                self.violate(f"children are reaped: {pid} of the {target} has ended {now - since:.1f} s ago")
                self.eyes.zombies[pid] = now + 3600
        if not zombies and target == "engine":
            self.eyes.zombies.clear()

    # What faults use ---------------------------------------------------------------------------------------

    def find(self, target: str) -> list[proc.Process]:
        """The living processes of that kind which belong to this call."""
        front = proc.look(self.call.pid)
        if front and "processes" in self.wish:
            # Only another process can be the first of a namespace.
            front = next(iter(proc.children(front.pid)), None)
        if target == "front":
            return [front] if front and not self.detached else []
        around = proc.tagged(self.program.tag) if self.detached else proc.children(front.pid) if front else []
        guardians = [each for each in around if each.name == "lane-guardian"]
        if target == "guardian":
            return guardians
        engines = [each for one in guardians for each in proc.children(one.pid) if each.name == "gpulane-engine"]
        if target == "engine":
            return engines
        under = [each for one in engines for each in proc.children(one.pid)]
        if target == "feeder":
            return [each for each in under if each.command.startswith("lane-feeder")]
        jobs = {event["pid"] for event in self.journal.seen if event.get("event") == "job_started"}
        if target == "standby":
            return [e for e in under if proc.inner(e.pid) not in jobs and proc.has_variable(e.pid, "GPULANE_STANDBY")]
        if target == "worker":
            workers = {name for stage in self.story.stages if stage.map for name in (job.name for job in stage.jobs)}
            started = [event for event in self.journal.seen if event.get("event") == "job_started"]
            jobs = {event["pid"] for event in started if self.story.map or event["job"] in workers}
        return [each for each in under if proc.inner(each.pid) in jobs]

    def excuse_early(self, number: int, target: str) -> None:
        """A front that was signalled before it began its work may die of the signal."""
        if target == "front" and len(self.journal.seen) == self.lines_before:
            self.call.excused.add(-number)
            if number == signal.SIGINT and self.wish:
                # Python, which prepares the process, may still be starting.
                self.call.excused.add(1)

    def later(self, seconds: float, what: Callable[[], object]) -> None:
        """Puts something off; it is done even if the call ends before."""
        self._later.append((time.monotonic() + seconds, what))

    def beside(self, arguments: list[str], codes: set[int], wish: dict[str, Any] | None = None) -> None:
        """Another call beside this one; it must end by itself, with one of these codes."""
        same = {"user": self.wish["user"]} if "user" in self.wish else None
        self._beside.append((self.program.start(arguments, wish or same), codes))

    def finish_beside(self) -> None:
        """Waits for the calls beside this one."""
        for call, codes in self._beside:
            code = call.wait(STILL)
            if code is None:
                self.violate(f"no call hangs: {' '.join(call.arguments)} has not ended")
            elif code not in codes | self.excused_beside:
                words = call.words().strip()[-400:]
                self.violate(f"exit codes as documented: {' '.join(call.arguments)} ended with {code}: {words}")
            call.close()
        self._beside = []

    def expect_refusal(self) -> None:
        """The journal is damaged: the next call must refuse it, and whoever looks at the run now may."""
        self.refusal = True
        self.excused_beside.add(2)

    def after_cut(self) -> None:
        """The power was cut: the next call finds what the disk kept, after another boot."""
        self.was_cut = True

    def say(self, what: str) -> None:
        """A line for the diary."""
        self.happened.diary.append(f"call {self.number}, after {len(self.journal.seen)} records: {what}")

    def violate(self, what: str) -> None:
        """Something that must not be."""
        self.violations.append(what)


def token_of(run: Path, job: str) -> str | None:
    """The token in a job's published output; None if there is no such output."""
    try:
        text = (run / "jobs" / job / "out" / "whole.json").read_text()
    except OSError:
        return None
    return text


def has_ended(events: list[Event]) -> bool:
    """Whether everything has ended: a map that stopped has not, and is taken up again."""
    if not events or events[-1]["event"] != "run_finished":
        return False
    states = ("map_opened", "map_finished", "map_stopped", "map_reopened")
    maps = [event["event"] for event in events if event["event"] in states]
    return not maps or maps[-1] == "map_finished"
