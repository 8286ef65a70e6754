"""One sample at a time, on a machine as quiet as it gets: what disturbs a measurement is waited out, or noticed."""

from __future__ import annotations

import os
import resource
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Generic, Sequence, TypeVar

import reaction
from contestants import AT_ONCE, OUT, Broke, Contestant

# ext4 does not give a deleted file's inode to a new file for some minutes, and walks past every such inode one by
# one: who creates files where many were just deleted measures that walk. So nothing is deleted between samples,
# and the next benchmark waits until the deletions of the last one are this old.
REST_AFTER_DELETING_S = 360
SWEPT = OUT / "work.swept"
# A sample is taken again if others used more of the machine than this meanwhile; so often at most.
DISTURBED = 0.10
TRIES = 6

Result = TypeVar("Result")


@dataclass(frozen=True)
class Sample(Generic[Result]):
    """What one sample showed, and how far to trust it."""

    result: Result
    # Share of all cores that others used meanwhile, 0 to 1. A service's processes are not all ours to count: for
    # one, it is what was used just before.
    disturbance: float
    # How many tries were thrown away for it.
    repeated: int


def rate(each: Contestant, command: Sequence[str], count: int, patience: float) -> Sample[float]:
    """Jobs per second."""
    return least_disturbed(each, patience, lambda: count / timed(each, command, count))


def react(each: Contestant, stamp: Path, length_us: int, count: int, patience: float) -> Sample[reaction.Reaction]:
    """How a runner reacts to the ends of stamping jobs. Proves on the way that every job ran."""
    memory = Path("/dev/shm")

    def once() -> reaction.Reaction:
        folder = Path(tempfile.mkdtemp(prefix="gpulane-stamps-", dir=memory if memory.is_dir() else OUT))
        try:
            timed(each, [str(stamp), str(folder / "stamps"), str(length_us)], count)
            seen = reaction.read(folder / "stamps", AT_ONCE)
        except ValueError as why:
            raise Broke(str(why)) from None
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if seen.jobs != count:
            raise Broke(f"{seen.jobs} of {count} jobs ran")
        return seen

    return least_disturbed(each, patience, once)


def least_disturbed(each: Contestant, patience: float, once: Callable[[], Result]) -> Sample[Result]:
    """The first try that others left alone, or the least disturbed of all."""
    best = None
    for repeated in range(TRIES):
        before, others = await_idle(patience), Others()
        result = once()
        disturbance = before if each.service else others.share()
        if best is None or disturbance < best.disturbance:
            best = Sample(result, disturbance, repeated)
        if disturbance <= DISTURBED or each.service:
            break
    return best


def timed(each: Contestant, command: Sequence[str], count: int) -> float:
    """Seconds of one run in a fresh folder. What earlier runs left to write is written first."""
    each.folder_root.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{each.name}-", dir=each.folder_root))
    os.sync()
    try:
        return each.time(command, count, folder)
    finally:
        if filesystem(folder) == "tmpfs":
            shutil.rmtree(folder, ignore_errors=True)


class Others:
    """What processes that are not ours use of the machine, from now on."""

    def __init__(self) -> None:
        self._start = self._look()

    def share(self) -> float:
        """0 to 1 of all cores. The kernel's own work for us (writing files out) counts as others', too."""
        total, busy, ours = (now - then for now, then in zip(self._look(), self._start))
        return max(0.0, (busy - ours) / max(total, 1e-9))

    @staticmethod
    def _look() -> tuple[float, float, float]:
        """Seconds of CPU so far: all there were, used by anyone, used by us and what we have waited for."""
        with open("/proc/stat") as file:
            ticks = [int(word) / os.sysconf("SC_CLK_TCK") for word in file.readline().split()[1:9]]
        usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(ticks), sum(ticks) - ticks[3] - ticks[4], sum(each.ru_utime + each.ru_stime for each in usage)


def await_idle(patience: float) -> float:
    """Waits until others leave the machine alone, for so long; the share they still use."""
    deadline = time.monotonic() + patience
    while True:
        others = Others()
        time.sleep(0.3)
        share = others.share()
        if share <= DISTURBED / 2 or time.monotonic() >= deadline:
            return share


def rest(no_rest: bool) -> bool:
    """Waits out the deletions of an earlier benchmark; whether they are old enough."""
    left = SWEPT.stat().st_mtime + REST_AFTER_DELETING_S - time.time() if SWEPT.exists() else 0
    if left <= 0 or filesystem(OUT) != "ext4":
        return True
    if no_rest:
        return False
    say = "waiting {:.0f} s: ext4 is slow at creating files just after many were deleted (--no-rest to go on)"
    print(say.format(left), file=sys.stderr, flush=True)
    time.sleep(left)
    return True


def sweep(roots: set[Path]) -> None:
    """Deletes what all samples left."""
    for root in roots:
        shutil.rmtree(root, ignore_errors=True)
    SWEPT.touch()


def filesystem(path: Path) -> str:
    """The type of file system that holds a path."""
    best, kind = "", "unknown"
    with open("/proc/self/mounts") as file:
        for line in file:
            _, mount, found, *_ = line.split()
            inside = str(path) == mount or str(path).startswith(mount.rstrip("/") + "/")
            if inside and len(mount) >= len(best):
                best, kind = mount, found
    return kind
