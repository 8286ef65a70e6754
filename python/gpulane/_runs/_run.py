"""A run, live or finished: what `gpulane.run` and `gpulane.map` return, and `Run(path)` opens."""

from __future__ import annotations

import contextlib
import json
import threading
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple, Type, Union

from ._advice import in_python
from ._begin import ask, begin, flags, refuse, stopped
from ._binary import binary
from ._cells import cells_in
from ._child import Child
from ._errors import GpulaneError, RunFailed
from ._html import card
from ._journal import Journal, find_run, is_live, plan_of
from ._options import RESUME, check_known, nearest
from ._results import failed_items, flat, form_of, last_line, last_metrics, map_rows, shaped
from ._show import BETWEEN_S, View, cell, view_of
from ._state import JobState, MapState, RunState
from ._target import changed, edited
from ._words import number, plural, with_error

__all__ = ["Job", "Run", "start"]

FRESH_S = 10.0
"""A feeder's word on how its map does, when it is older than this, is none."""
NOTHING_TO_DO = 4
MOST_REASONS = 5


@dataclass(frozen=True)
class Job:
    """One job of a run, as it stood when it was asked for."""

    name: str
    """`STAGE/NAME`."""
    status: str
    """`waiting`, `running`, `succeeded`, `failed` or `skipped`."""
    config: Mapping[str, Any]
    out: Optional[Path]
    """Its published output; None until it has succeeded."""
    seconds: Optional[float]
    attempts: int
    peak_vram: Optional[int]
    """The most GPU memory it held, in bytes, where measured."""
    reason: Optional[str]
    """The class of its failure (`exit`, `oom`, `timeout`, …), or why it was skipped."""
    message: Optional[str]
    """Its failure in one line."""


class Run:
    """A run of gpulane, by its directory or the beginning of its name under `runs`. Live or finished, started here or
    elsewhere.

    A run that was started here ends with this Python, however that ends, and can then be resumed; so it does when
    waiting for it is interrupted, or when a `with` block is left by an exception. One that was started elsewhere is
    only looked at.
    """

    def __init__(self, path: Union[str, Path]) -> None:
        # A notebook may change its directory.
        self.path = find_run(path).absolute()
        self._plan = plan_of(self.path)
        self._journal = Journal(self.path / "journal.jsonl")
        self._known = RunState(self._plan)
        # Threads may look at one run; the fold must see each event once.
        self._lock = threading.Lock()
        self._child: Optional[Child] = None
        self._quiet = False
        self._stopping = False
        self._told = False
        self._shown_in: Optional[int] = None
        self._look()

    @property
    def name(self) -> str:
        """The name of the plan."""
        return self._known.name

    @property
    def live(self) -> bool:
        """Whether gpulane works on it now."""
        mine = self._child
        return (mine is not None and not mine.ended.is_set()) or is_live(self.path)

    @property
    def state(self) -> str:
        """`starting`, `running`, `waiting`, `succeeded`, `failed`, `interrupted` (on request) or `stopped` (killed);
        the last two can be resumed."""
        live = self.live  # Asked first: the last events of a run that just ended are still to be read.
        return self._look().phase(live)

    @property
    def ok(self) -> bool:
        """Everything has succeeded."""
        return self.state == "succeeded"

    @property
    def jobs(self) -> Dict[str, Job]:
        """All jobs by name, in the order of the plan."""
        return {name: self._job(job) for name, job in self._look().jobs.items()}

    def wait(self, timeout: Optional[float] = None, *, quiet: Optional[bool] = None) -> Run:
        """Waits for its end and shows how it goes, unless `quiet` here or when it was started. Returns the run itself,
        whatever became of it: see `ok`, `check()`.

        `timeout`, in seconds: then TimeoutError, and the run goes on. An interrupt (Ctrl-C, the notebook's stop
        button) ends a run that was started here, with everything it started; a second one kills what takes its
        time. `resume()` continues it.
        """
        child, mine = self._waited_for()
        if child is None:
            return self
        deadline = None if timeout is None else time.monotonic() + timeout
        quiet = self._quiet if quiet is None else quiet
        view = view_of(self, quiet)
        try:
            view.open()
            self._shown_in = None if quiet else cell()
            while not child.ended.wait(_step(deadline)):
                view.tick()
                if deadline is not None and time.monotonic() >= deadline:
                    raise TimeoutError(f"{self._place()} has not ended after {timeout} s; it goes on")
        except KeyboardInterrupt:
            if not mine:
                raise
            self._stop(child, view)
            raise KeyboardInterrupt(stopped(self._place())) from None
        finally:
            if not mine:
                child.signal(15)  # It only looks.
            if self.live:
                view.leave()
            else:
                view.close()
                self._told = True
        return self

    def check(self) -> Run:
        """Raises `RunFailed` unless everything has succeeded; returns the run."""
        state = self.state
        if state == "succeeded":
            return self
        failures = self.failed()
        lines = [f"{self._place()}: {state}, {self._counted()}", *_reasons(failures)]
        errors = [failure["job"] for failure in failures if failure.get("error")]
        if errors:
            lines.append(f"all it said: .logs({errors[0]!r}, stderr=True)")
        if self._child is not None and self._child.ended.is_set() and self._child.code not in (0, 3):
            lines.append(in_python(self._child.said, run=True))
        raise RunFailed("\n".join(filter(None, lines)))

    def stop(self) -> Run:
        """Ends it with everything it started, as Ctrl-C would, and waits for that; `resume()` continues it. Only for
        a run that was started here."""
        child = self._child
        if child is None:
            if self.live:
                raise GpulaneError(
                    f"{self._place()} was not started here; use cancel(), or end the gpulane that runs it"
                )
        elif not child.ended.is_set():
            self._stop(child, View())
        return self

    def cancel(self, *jobs: str) -> Run:
        """Ends these jobs, or all, for good: they count as failed; `resume(failed=True)` takes them up again."""
        argv = [binary(), "cancel", str(self.path), *(self._named(job).name for job in jobs)]
        code, _, said = ask(argv)
        if code not in (0, NOTHING_TO_DO):
            raise GpulaneError(in_python(said, run=True))
        return self

    def resume(
        self,
        failed: bool = False,
        *,
        wait: bool = True,
        wait_for: Optional[str] = None,
        quiet: bool = False,
        **options: Any,
    ) -> Run:
        """Goes on with what has not ended; `failed`: also with what failed or was skipped. Where there is nothing to do
        it returns at once. `wait`, `wait_for` and `quiet` as in `gpulane.run`.

            counts.resume(failed=True, batch=8)            # what failed once more, in smaller batches from now on
            counts.resume(accept_changes=True)             # although the map's model or inputs have changed

        `options` are those of `gpulane resume`: `gpus="0,1"`, `lanes=2`, `salvage=True`, and for a map
        `accept_changes=True`, `batch`, `threads`, `workers`, `max_failures`, `ring`, `python`. Results that are there
        stay as they are. Unless `accept_changes`, a map whose model or inputs have changed is a `PlanError`. What was
        defined in a notebook's cell stays as it was when the run began: if it has changed since, there is a warning.
        """
        check_known(self.resume, options, RESUME)
        cells = cells_in(self._plan) if self.state != "succeeded" else {}
        for file in edited(cells):
            warnings.warn(
                f"{file} was edited since gpulane wrote it, and the run goes on with it as it is now. For what the "
                "notebook has, begin a new run",
                RuntimeWarning,
                stacklevel=2,
            )
        for name in changed(cells):
            warnings.warn(
                f"{name} is not what it was when this run began, and the run goes on with the old one. For the new "
                "one begin a new run; or put it into a file with %%writefile, which can be mended and resumed",
                RuntimeWarning,
                stacklevel=2,
            )
        words = flags({"failed": failed, "wait": wait_for, **options})
        argv = [binary(), "resume", "--json", *words, "--", str(self.path)]
        child = begin(argv)
        if child.code == NOTHING_TO_DO and not child.heard:
            return self
        refuse(child, run=True)
        self._plan = plan_of(self.path)
        self._adopt(child, quiet)
        return self.wait() if wait else self

    def results(self, stage: Optional[str] = None, *, as_: Optional[str] = None) -> Any:
        """What it has brought so far.

        A run: one row per job with its config, status, seconds, output folder and the last value of each metric. A map:
        one row per item with a result, in the order of the items; of a plan with maps, `stage` says which.

        `as_`: `"list"` (of dicts), `"pandas"` or `"arrow"`; by default a pandas DataFrame where pandas is installed,
        else a list. In a list, config and metrics are dicts of their own; in a table they are columns, with
        `config.` or `metrics.` before a name that is taken.
        """
        form = form_of(as_)
        state = self._look()
        one = state.lone_map
        if stage is None and one is not None:
            stage = one.stage
        if stage is not None and stage in state.maps:
            return map_rows(self._folder(state.maps[stage]), form)
        if stage is not None and stage not in {job.stage for job in state.jobs.values()}:
            raise KeyError(
                f"{self._place()} has no stage {stage!r}{nearest(stage, [s['name'] for s in self._plan['stages']])}"
            )
        rows = [
            self._row(job) for job in state.jobs.values() if job.stage not in state.maps and stage in (None, job.stage)
        ]
        return rows if form == "list" else shaped([flat(row) for row in rows], form)

    def failed(self) -> List[Dict[str, Any]]:
        """What failed: jobs with `job`, `reason`, `message`, `error` (the last line of their stderr, where that is why
        they failed), `log`; items of maps with `item`, `reason`, `stage`."""
        state = self._look()
        found: List[Dict[str, Any]] = [
            {
                "job": job.name,
                "reason": job.reason,
                "message": job.message,
                "error": (self._last_line(job) or None) if job.says_why else None,
                "log": self._attempt(job) / "stderr.log",
            }
            for job in state.jobs.values()
            if job.status == "failed"
        ]
        for each in state.maps.values():
            found += [{**row, "stage": each.stage} for row in failed_items(self._folder(each))]
        return found

    def logs(self, job: Optional[str] = None, *, stderr: bool = False) -> str:
        """What a job's newest attempt printed; of all jobs under a line with their names, if none is named. `stderr`:
        what it wrote there instead, where tracebacks are."""
        if job is not None:
            return self._log(self._named(job), stderr)
        jobs = [each for each in self._look().jobs.values() if each.attempts]
        if len(jobs) == 1:
            return self._log(jobs[0], stderr)
        return "\n".join(f"== {each.name}\n{self._log(each, stderr)}" for each in jobs)

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        """Waits for it; after an exception it is stopped instead, if it was started here."""
        if error is None:
            self.wait()
        elif self._child is not None:
            self.stop()

    def __repr__(self) -> str:
        return f"<gpulane run {self.name!r}: {self.state}, {self._counted()}, {self._place()}>"

    def _repr_html_(self) -> Optional[str]:
        # The cell that waited for it shows it already.
        return None if self._shown_in is not None and self._shown_in == cell() else self._card()

    # What follows is for this package alone.

    def _adopt(self, child: Child, quiet: bool) -> None:
        """Takes a process for the one that works on this run."""
        self._child, self._quiet = child, quiet
        self._stopping = self._told = False

    def _place(self) -> str:
        """Its directory as a person writes it here."""
        with contextlib.suppress(ValueError, OSError):
            return str(self.path.relative_to(Path.cwd()))
        return str(self.path)

    def _waited_for(self) -> Tuple[Optional[Child], bool]:
        """The process whose end is the run's, and whether it is ours. For a run that was started elsewhere it is one
        that looks on."""
        mine = self._child
        # One that ended before anybody waited is shown all the same, once.
        if mine is not None and not (mine.ended.is_set() and self._told):
            return mine, True
        if not is_live(self.path):
            return None, False
        return Child([binary(), "watch", "--json", str(self.path)]), False

    def _stop(self, child: Child, view: View) -> None:
        self._stopping = True
        child.end(meanwhile=view.tick)

    def _look(self) -> RunState:
        """How it stands, with everything the journal has by now."""
        with self._lock:
            anew, events = self._journal.news()
            if anew:
                self._known = RunState(self._plan)
            for event in events:
                self._known.apply(event)
            return self._known

    def _card(self) -> str:
        live, state = self.live, self._look()
        maps = {each.stage: told for each in state.maps.values() for told in self._feeder(each) if live}
        return card(
            state,
            path=self._place(),
            live=live,
            now=time.time(),
            maps=maps,
            last_line_of=self._last_line,
            stopping=self._stopping,
        )

    def _last_line(self, job: JobState) -> str:
        return last_line(self._attempt(job) / "stderr.log")

    def _feeder(self, each: MapState) -> Iterator[Dict[str, Any]]:
        """What the map's feeder says just now, if one does."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            told = json.loads((self._folder(each) / "live.json").read_bytes())
            if time.time() - told["time"] / 1000 < FRESH_S and not each.finished:
                yield {"done": 0, "failed": 0, **told}

    def _folder(self, each: MapState) -> Path:
        return self.path if each.lone else self.path / "maps" / each.stage

    def _attempt(self, job: JobState) -> Path:
        return self.path / "jobs" / job.name / f"attempt-{max(1, job.attempts)}"

    def _log(self, job: JobState, stderr: bool) -> str:
        try:
            text = (self._attempt(job) / ("stderr.log" if stderr else "stdout.log")).read_bytes()
        except FileNotFoundError:
            return ""
        return text.decode(errors="replace")

    def _named(self, name: str) -> JobState:
        """The job of this name; its stage may be left out where that is clear."""
        jobs = self._look().jobs
        if name in jobs:
            return jobs[name]
        found = [job for key, job in jobs.items() if key.partition("/")[2] == name]
        if len(found) == 1:
            return found[0]
        raise KeyError(f"{self._place()} has no job {name!r}{nearest(name, list(jobs))}")

    def _job(self, job: JobState) -> Job:
        out = self.path / "jobs" / job.name / "out"
        return Job(
            name=job.name,
            status=job.status,
            config=dict(job.config),
            out=out if job.status == "succeeded" else None,
            seconds=job.seconds,
            attempts=job.attempts,
            peak_vram=job.peak_vram,
            reason=job.reason,
            message=job.message,
        )

    def _row(self, state: JobState) -> Dict[str, Any]:
        job = self._job(state)
        return {
            "job": job.name,
            "config": job.config,
            "status": job.status,
            "seconds": job.seconds,
            "attempts": job.attempts,
            "peak_vram": job.peak_vram,
            "reason": job.reason,
            "out": None if job.out is None else str(job.out),
            "metrics": last_metrics(self._attempt(state)),
        }

    def _counted(self) -> str:
        state = self._look()
        one = state.lone_map
        if one is not None:
            bad = f", {number(one.failed)} failed" if one.failed else ""
            return f"{number(one.rows)} of {plural(one.items or 0, 'item')} done{bad}"
        counts = state.counts(self.live)
        bad = f", {number(counts['failed'])} failed" if counts["failed"] else ""
        return f"{number(counts['succeeded'])} of {plural(len(state.jobs), 'job')} succeeded{bad}"


def start(argv: List[str], path: Path, *, quiet: bool, **how: Any) -> Run:
    """Starts a run in the directory that its arguments name, and waits until it has begun."""
    try:
        child = begin(argv, **how)
    except KeyboardInterrupt:
        if (path / "journal.jsonl").exists():
            raise KeyboardInterrupt(stopped(str(path))) from None
        raise
    refuse(child)
    try:
        run = Run(path)
        run._adopt(child, quiet)
    except BaseException:
        child.end()
        raise
    return run


def _step(deadline: Optional[float]) -> float:
    return BETWEEN_S if deadline is None else max(0.0, min(BETWEEN_S, deadline - time.monotonic()))


def _reasons(failures: List[Dict[str, Any]]) -> List[str]:
    """A line for each of the first reasons, with who failed for it."""
    told: Dict[str, List[str]] = {}
    for each in failures:
        why = with_error(each.get("message") or each["reason"], each.get("error") or "")
        told.setdefault(why, []).append(str(each.get("job") or each.get("item")))
    return [
        f"  {names[0]}{f' and {number(len(names) - 1)} more' if len(names) > 1 else ''}: {why}"
        for why, names in list(told.items())[:MOST_REASONS]
    ]
