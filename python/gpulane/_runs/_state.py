"""How a run stands, folded from its events. No files, no clock."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Dict, List, Optional, Tuple

from ._advice import in_python
from ._cells import cells_in

__all__ = ["JobState", "MapState", "RunState", "seconds_of"]

MAP_COMPLETE = "the map is complete"
"""Why a worker is skipped that its map did not need: it lacks nothing."""

NO_FILE = "no such file"

OWN_FAILURES = ("exit", "signal", "oom")
"""Reasons that are a job's own doing: whatever else ended it, the last line it wrote is no error."""

ADVICE = ("; its log has", "; nothing succeeded.")
"""Where advice begins behind what a model has said."""

FINAL = ("succeeded", "failed", "skipped")


@dataclass
class JobState:
    """One job. `status`: `waiting`, `running`, `succeeded`, `failed` or `skipped`."""

    name: str
    stage: str
    config: Dict[str, Any]
    status: str = "waiting"
    attempts: int = 0
    seconds: Optional[float] = None
    peak_vram: Optional[int] = None
    reason: Optional[str] = None
    """The class of a failure, or why it is skipped."""
    message: Optional[str] = None
    """A failure in one line, for a person."""
    lane: int = 0
    gpus: List[str] = field(default_factory=list)
    since: float = 0.0
    """When it was started, in seconds of the Unix epoch."""
    quiet: bool = False
    """It has shown no sign of life for long."""

    @property
    def says_why(self) -> bool:
        """Whether the end of its stderr is why it failed. Who is killed has no time to say something."""
        return self.reason in OWN_FAILURES and "SIGKILL" not in (self.message or "")


@dataclass
class MapState:
    """One map, as far as it is durable."""

    stage: str
    lone: bool
    """It is all there is in the run, and its files are in the run directory itself."""
    listed: bool = False
    """Its items were given as a list."""
    items: Optional[int] = None
    """`None`: not listed yet."""
    rows: int = 0
    failed: int = 0
    finished: bool = False
    stopped: Optional[str] = None
    """Why it could not go on."""
    failures: List[Tuple[str, str]] = field(default_factory=list)
    """The newest items that failed, with their reasons."""

    def reason(self, told: str) -> str:
        """Why an item failed. Who gives a list of texts may mean them and no files."""
        return f"{told}; texts that are no files need decode='value'" if self.listed and told == NO_FILE else told


class RunState:
    """A run and its jobs. Feed it every event in order with `apply`."""

    def __init__(self, plan: Dict[str, Any]) -> None:
        stages = plan["stages"]
        self.name: str = plan["name"]
        self.from_cells = list(cells_in(plan))
        """Names that were written out from a notebook's cells: mending them there changes nothing here."""
        self.machine: Dict[str, Any] = {}
        self.started: Optional[float] = None
        self.last: Optional[float] = None
        self.finished = False
        self.interrupted: Optional[str] = None
        self.held: Optional[str] = None
        self.jobs: Dict[str, JobState] = {}
        for job in plan["jobs"]:
            stage = stages[job["stage"]]["name"]
            self.jobs[f"{stage}/{job['name']}"] = JobState(f"{stage}/{job['name']}", stage, job.get("config") or {})
        self.maps: Dict[str, MapState] = {
            stage["name"]: MapState(
                stage["name"],
                bool(stage["map"].get("lone")),
                any(given.startswith("@") for given in stage["map"].get("input", [])),
            )
            for stage in stages
            if stage.get("map")
        }

    @property
    def lone_map(self) -> Optional[MapState]:
        """The map, where the run is nothing else."""
        return next((each for each in self.maps.values() if each.lone), None)

    def counts(self, live: bool) -> Dict[str, int]:
        """Jobs by status. Where no engine works nothing runs, and what ran is to be done again."""
        counts = dict.fromkeys((*FINAL, "running", "waiting"), 0)
        for job in self.jobs.values():
            counts[job.status] += 1
        if not live:
            counts["waiting"] += counts["running"]
            counts["running"] = 0
        return counts

    def phase(self, live: bool) -> str:
        """`starting`, `running`, `waiting`, `succeeded`, `failed`, `interrupted` or `stopped`."""
        counts = self.counts(live)
        if self.finished:
            bad = counts["failed"] > 0 or any(each.failed for each in self.maps.values())
            return "failed" if bad else "succeeded"
        if not live:
            return "interrupted" if self.interrupted is not None else "stopped"
        if self.started is None:
            return "starting"
        return "waiting" if self.held is not None and counts["running"] == 0 else "running"

    def apply(self, event: Dict[str, Any]) -> None:
        """Takes in one event. One it does not know changes nothing: newer programs have more of them."""
        kind = event.get("event", "")
        time = seconds_of(event["time"])
        self.last = time
        self.started = time if self.started is None else self.started
        # A message is the job's own text, unless its map was stopped.
        advice = "message" if event.get("reason") == "stopped" else "because"
        if event.get(advice):
            event = {**event, advice: self._in_python(event[advice])}
        job = self.jobs.get(event.get("job", ""))
        a_map = self.maps.get(event.get("stage", ""))
        if kind in ("run_started", "run_resumed"):
            self.machine = event.get("machine") or {}
            self.finished, self.interrupted, self.held = False, None, None
            for each in self.maps.values():
                each.stopped = None
        elif kind == "run_finished":
            self.finished = True
        elif kind == "run_interrupted":
            self.interrupted = event.get("because", "")
        elif kind == "starts_held":
            self.held = event.get("because", "")
        elif kind == "starts_released":
            self.held = None
        elif job is not None:
            _on_job(job, kind, event, time)
        elif a_map is not None:
            _on_map(a_map, kind, event)

    def _in_python(self, text: str) -> str:
        """What the program advises. To mend what is written out from a cell takes a new run."""
        at = max([text.rfind(words) for words in ADVICE])
        said, advice = (text[:at], text[at:]) if at >= 0 else ("", text)
        advice = in_python(advice, run=True)
        if self.from_cells:
            advice = advice.replace("then `.resume(failed=True)`", "then begin a new run")
        return said + advice


def _on_job(job: JobState, kind: str, event: Dict[str, Any], time: float) -> None:
    if kind in ("hang_suspected", "job_revived"):
        job.quiet = kind == "hang_suspected"
        return
    if kind not in ("job_started", "job_succeeded", "job_failed", "job_retrying", "job_requeued", "job_skipped"):
        return
    job.quiet = False
    if kind in ("job_started", "job_succeeded", "job_failed"):
        job.attempts = max(job.attempts, event.get("attempt", 0))
        job.reason = job.message = None
    if kind == "job_started":
        job.status, job.since, job.seconds = "running", time, None
        job.lane, job.gpus = event.get("lane", 0), event.get("gpus") or []
    elif kind == "job_succeeded":
        job.status, job.seconds, job.peak_vram = "succeeded", event.get("seconds"), event.get("peak_vram")
    elif kind == "job_failed":
        # What gpulane or the machine did to it is not the job's fault: it waits for another try.
        excused = event.get("reason") in ("lost", "interrupted") or event.get("shared") or event.get("disk_full")
        job.status, job.seconds = "waiting" if excused else "failed", event.get("seconds")
        job.reason, job.message = event.get("reason"), _described(event)
    elif kind == "job_skipped":
        because = event.get("because", "")
        job.status, job.reason = ("succeeded", None) if because == MAP_COMPLETE else ("skipped", because)
    else:
        job.status = "waiting"


def _on_map(state: MapState, kind: str, event: Dict[str, Any]) -> None:
    if kind == "map_opened":
        state.items, state.stopped = event.get("items"), None
    elif kind == "item_failed":
        state.failures = [*state.failures[-4:], (str(event.get("item")), state.reason(str(event.get("reason"))))]
    elif kind == "batch_committed":
        state.rows += event.get("rows", 0)
        state.failed += event.get("failed", 0)
    elif kind == "map_finished":
        state.rows, state.failed = event.get("rows", 0), event.get("failed", 0)
        state.finished = True
    elif kind == "map_stopped":
        state.stopped = event.get("because", "")
    elif kind == "map_reopened":
        state.failed, state.finished, state.failures = 0, False, []


def _described(event: Dict[str, Any]) -> str:
    """As the program says it: `exit code 3`, `killed by SIGKILL`, `out of GPU memory: …`."""
    reason = str(event.get("reason", ""))
    words = {
        "start": "could not start",
        "oom": "out of GPU memory",
        "host_oom": "out of host memory",
        "publish": "output could not be published",
    }
    base = words.get(reason, reason.replace("_", " "))
    if reason == "exit" and event.get("code") is not None:
        base = f"exit code {event['code']}"
    elif reason == "signal" and event.get("signal") is not None:
        try:
            base = f"killed by {signal.Signals(event['signal']).name}"
        except ValueError:
            base = f"killed by signal {event['signal']}"
    message = event.get("message")
    return f"{base}: {message}" if message else base


def seconds_of(time: str) -> float:
    """A time of an event, in seconds of the Unix epoch."""
    return datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp()
