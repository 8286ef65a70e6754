"""What a person reads of the job-runner benchmark."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass, field
from typing import Optional

from contestants import AT_ONCE, Contestant
from sampling import DISTURBED, Sample

GOAL_RATE, GOAL_REACTION = 0.80, 1.5
# Length of a job in microseconds and how many, in the reaction runs. "rested": the machine idles when a job ends,
# so the figure is the runner's own delay. "busy": jobs end at once, both cores are full, and the figure includes
# the queue for a core.
REACTION_RUNS = {"rested": (4000, 300), "busy": (0, 1000)}


@dataclass
class Standing:
    """One contestant with all that was measured of it."""

    contestant: Contestant
    version: str = ""
    absent: Optional[str] = None
    broke: Optional[str] = None
    jobs: int = 0
    rates: list[Sample] = field(default_factory=list)
    of_bare: list[float] = field(default_factory=list)
    reactions: dict[str, list[Sample]] = field(default_factory=lambda: {kind: [] for kind in REACTION_RUNS})

    @property
    def racing(self) -> bool:
        return self.absent is None and self.broke is None

    @property
    def samples(self) -> list[Sample]:
        return self.rates + [each for runs in self.reactions.values() for each in runs]

    @property
    def disturbance(self) -> float:
        """The worst of it: the median hides what falls on a few samples."""
        return max((each.disturbance for each in self.samples), default=0.0)

    def rate(self) -> float:
        return statistics.median(each.result for each in self.rates)

    def reaction_ms(self, kind: str) -> Optional[float]:
        runs = self.reactions[kind]
        return statistics.median(each.result.median_us for each in runs) / 1e3 if runs else None


def find(standings: list[Standing], name: str) -> Optional[Standing]:
    return next((each for each in standings if each.contestant.name == name), None)


def show(standings: list[Standing], world: dict) -> None:
    """The whole table."""
    print(
        f"Job runners: {world['jobs']:,} x /bin/true, {AT_ONCE} at once; {world['rounds']} rounds, interleaved; "
        f"{world['cores']} cores, Linux {world['kernel']}, {world['disk']}"
    )
    if not world["rested"]:
        print("Many files were deleted here shortly before; ext4 is then slow at creating files. Read with care.")
    print()
    print(f"{'':34} {'jobs/s':>8}  {'min-max':>15}  {'of bare':>7}  {'reaction: rested':>16}  {'busy':>9}")
    for standing in standings:
        if not standing.contestant.aside:
            print(row(standing))
    print()
    for standing in standings:
        print(remark(standing, world["jobs"]))
    aside(standings)
    noise(standings)
    goals(standings)


def row(standing: Standing) -> str:
    title = standing.contestant.title
    if standing.absent is not None:
        return f"{title:34} absent: {standing.absent}"
    if standing.broke is not None:
        return f"{title:34} broke: {standing.broke}"
    rates = [each.result for each in standing.rates]
    spread = f"{number(min(rates))}-{number(max(rates))}"
    share = f"{statistics.median(standing.of_bare):.3f}" if standing.of_bare else "-"
    mark = " (disturbed)" if standing.disturbance > DISTURBED else ""
    return (
        f"{title:34} {number(standing.rate()):>8}  {spread:>15}  {share:>7}  "
        f"{standing.reaction_ms('rested'):>13.2f} ms  {standing.reaction_ms('busy'):>6.2f} ms{mark}"
    )


def number(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}"


def remark(standing: Standing, jobs: int) -> str:
    each = standing.contestant
    words = [each.note]
    if standing.racing and standing.jobs < jobs:
        words.append(f"only {standing.jobs} jobs a sample, it is slow")
    most = max((run.result.most_at_once for runs in standing.reactions.values() for run in runs), default=0)
    if most > AT_ONCE:
        words.append(f"had {most} jobs alive at once")
    return f"  {each.title}{' ' + standing.version if standing.version else ''}: {'; '.join(words)}"


def aside(standings: list[Standing]) -> None:
    disk, memory = (find(standings, name) for name in ("gpulane", "gpulane-tmpfs"))
    if disk and memory and disk.rates and memory.rates:
        cost = 1 - disk.rate() / memory.rate()
        print()
        print(
            f"For information: gpulane with its run directory in memory {number(memory.rate())} jobs/s, "
            f"on disk {number(disk.rate())} (the disk costs {cost:.0%})."
        )


def noise(standings: list[Standing]) -> None:
    repeated = sum(sample.repeated for each in standings for sample in each.samples)
    disturbed = [each.contestant.title for each in standings if each.disturbance > DISTURBED]
    print()
    print(f"{repeated} samples were taken again because others used more than {DISTURBED:.0%} of the machine meanwhile.")
    if disturbed:
        print(f"Disturbed all the same, read with care: {', '.join(disturbed)}.")


def goals(standings: list[Standing]) -> None:
    bare, ours = find(standings, "bare"), find(standings, "gpulane")
    if not (bare and ours and bare.racing and ours.racing and ours.of_bare):
        return
    if max(bare.disturbance, ours.disturbance) > DISTURBED:
        print("goals: not judged, the machine was too busy")
        return
    share = statistics.median(ours.of_bare)
    print(f"goal: rate >= {GOAL_RATE:.2f} of bare: {share:.3f}, {verdict(share >= GOAL_RATE)}")
    for kind in REACTION_RUNS:
        theirs, mine = bare.reaction_ms(kind), ours.reaction_ms(kind)
        if theirs and mine:
            met = verdict(mine <= GOAL_REACTION * theirs)
            print(f"goal: reaction ({kind}) <= {GOAL_REACTION} x bare: {mine / theirs:.2f} x, {met}")


def verdict(met: bool) -> str:
    return "met" if met else "NOT met"


def record(standing: Standing) -> dict:
    """Everything measured of one contestant, for a machine."""
    each = standing.contestant
    return {
        "name": each.name,
        "version": standing.version,
        "note": each.note,
        "absent": standing.absent,
        "broke": standing.broke,
        "jobs": standing.jobs,
        "jobs_per_s": [sample.result for sample in standing.rates],
        "of_bare": standing.of_bare,
        "disturbance": [round(sample.disturbance, 4) for sample in standing.rates],
        "reaction": {
            kind: [{**asdict(sample.result), "disturbance": round(sample.disturbance, 4)} for sample in runs]
            for kind, runs in standing.reactions.items()
        },
    }
