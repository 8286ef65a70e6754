"""What a round tells: stages and jobs with the parts they play, or a map with its items, and what may become of each.

Owns the vocabulary that plans, faults and the judge share. Knows nothing of processes and files.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

# How a job's own failure appears as `reason` in its `job_failed`.
REASONS = {
    "exit": "exit",
    "crash": "signal",
    "abort": "signal",
    "late": "timeout",
    "freeze": "hang",
    "outside": "hang",
}
# Reasons that do not use up a try: the job was not at fault (docs/run-directory.md).
UNCOUNTED = {"interrupted", "lost", "stopped"}


@dataclass
class JobStory:
    """One job: `STAGE/NAME`, the part it plays (see actor.py), and whom it follows."""

    name: str
    stage: str
    part: dict[str, Any]
    # The job whose output is its input.
    source: str | None = None

    @property
    def failures(self) -> int:
        """How often it fails by itself before it succeeds."""
        return int(self.part.get("failures", 0))


@dataclass
class Item:
    """One item of a map: what it is called in the results and what its row must hold."""

    name: str
    # "row": a row with this value; "failed": in failed.jsonl; "either": anything, but alike for files of one content.
    expect: str
    value: int | None = None
    # Items with the same content must fare alike.
    twin: str | None = None


@dataclass
class MapStory:
    """A map: what is said of it in a plan or on the command line, and its items."""

    # The table `map` of a plan.
    keys: dict[str, Any]
    items: list[Item]
    # What is written beside the model, by name.
    files: dict[str, bytes] = field(default_factory=dict)

    @property
    def arguments(self) -> list[str]:
        """The same for the command line."""
        words = [self.keys["model"], *self.keys["input"]]
        for key, value in self.keys.items():
            if key == "args":
                words += [word for name, each in value.items() for word in ("--set", f"{name}={each}")]
            elif key not in ("model", "input"):
                words += [f"--{key.replace('_', '-')}", str(value)]
        return words

    @property
    def most_failures(self) -> int | None:
        """So many items may fail, or as many as like."""
        return None if self.keys["max_failures"] == "100%" else int(self.keys["max_failures"])


@dataclass
class StageStory:
    """A stage: its keys in the plan and its jobs."""

    name: str
    keys: dict[str, Any]
    jobs: list[JobStory]
    after: list[str] = field(default_factory=list)
    foreach: str | None = None
    # It is a map, and its jobs are workers.
    map: MapStory | None = None

    @property
    def retries(self) -> int:
        """How often a failed job is tried again."""
        return int(self.keys.get("retries", 0))

    @property
    def most_failures(self) -> int | None:
        """After so many failed jobs the rest is skipped."""
        return int(self.keys["max_failures"]) if "max_failures" in self.keys else None


@dataclass
class Story:
    """Everything a round starts."""

    gpus: str
    lanes: int | None = None
    stages: list[StageStory] = field(default_factory=list)
    map: MapStory | None = None
    # Where the run directory lies: "plain", "small" (a tmpfs that can be filled), "image" (ext4, whose power can fail).
    disk: str = "plain"
    # GPUs played by a driver library of the tests.
    nvml: bool = False

    def jobs(self) -> list[JobStory]:
        """All jobs of all stages but the workers of maps."""
        return [job for stage in self.stages if stage.map is None for job in stage.jobs]

    def maps(self) -> dict[str, MapStory]:
        """All maps by the names of their stages; a lone one is called after its model."""
        if self.map:
            return {"model": self.map}
        return {stage.name: stage.map for stage in self.stages if stage.map}

    def map_folder(self, stage: str) -> str:
        """Where a map has its files, below the run directory."""
        return "" if self.map else f"maps/{stage}/"

    def stage_of(self, job: JobStory) -> StageStory:
        """The stage a job belongs to."""
        return next(stage for stage in self.stages if stage.name == job.stage)

    def tell(self) -> str:
        """A few lines for a person."""
        lines = [f"on {self.gpus}" + (f", {self.lanes} lanes" if self.lanes else "") + f", disk {self.disk}"]
        for stage in self.stages:
            keys = " ".join(f"{key}={value}" for key, value in stage.keys.items())
            lines.append(f"stage {stage.name}: {keys} after={stage.after} foreach={stage.foreach}")
            lines += [f"  {job.name}: {job.part}" for job in stage.jobs]
        if self.map:
            lines.append(f"map {' '.join(self.map.arguments)}: {len(self.map.items)} items")
        return "\n".join(lines)


@dataclass
class Happened:
    """What the torture itself did to a round: the judge excuses what follows from it, and nothing else."""

    # Processes of jobs, workers and standbys that were signalled. A standby may be a job by the time it is hit.
    signalled: set[int] = field(default_factory=set)
    # Jobs that were asked to be cancelled; "*": all.
    cancelled: set[str] = field(default_factory=set)
    # Successes announced by `--json`, with the token that their output bore then.
    announced: dict[str, str | None] = field(default_factory=dict)
    # What `--json` announced, by number: event and job.
    records: dict[int, tuple[str, str | None]] = field(default_factory=dict)
    # Parts of maps announced as committed, by path below the run directory: what was in them then, and the call.
    parts: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    # Outputs that were at their place when a call had ended, each with its token.
    published: dict[str, str] = field(default_factory=dict)
    # When each call began, in nanoseconds of the monotonic clock.
    begun: list[int] = field(default_factory=list)
    # The journal was damaged: numbers of tries may be lost with it.
    doubt: bool = False
    # Guardian and engine were killed at once: what has left its session and environment is out of reach.
    orphans: bool = False
    # Files could not be written for a while: a job, or its publishing, may have failed for that.
    refused: bool = False
    # When the disk was full, from and to, in seconds since 1970.
    full: list[list[float]] = field(default_factory=list)
    # Time was taken from the jobs (stopped, slow disk), so a time limit may strike anybody.
    slowed: bool = False
    # What was done, in order, for a person.
    diary: list[str] = field(default_factory=list)
