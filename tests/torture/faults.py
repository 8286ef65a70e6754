"""The catalogue of faults: what each needs, when it strikes, and what it excuses.

A fault that finds nobody to strike is tried again until the call it is meant for has ended; only what struck counts.
"""

from __future__ import annotations

import math
import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from . import proc
from . import surroundings as around

if TYPE_CHECKING:
    from .life import Life

SIGNALS = {"KILL": signal.SIGKILL, "STOP": signal.SIGSTOP, "TERM": signal.SIGTERM, "HUP": signal.SIGHUP}
TARGETS = ("front", "guardian", "engine", "feeder", "worker", "job", "standby")
# Exit codes that a signal to one of gpulane's own processes explains (docs/exit-codes.md).
EXCUSES: dict[tuple[str, str], set[int]] = {
    ("KILL", "front"): {-9},
    ("TERM", "front"): {143},
    ("HUP", "front"): {143},
    ("INT", "front"): {130},
    ("KILL", "guardian"): {70},
    ("TERM", "guardian"): {70, 143},
    ("HUP", "guardian"): {70, 143},
    ("KILL", "engine"): {70},
    ("TERM", "engine"): {70, 143},
    ("HUP", "engine"): {70, 143},
    ("TERM", "feeder"): {3, 143},
    ("HUP", "feeder"): {3, 143},
}

# Turns of the kinds that need this: a full disk strikes only what still writes, driver faults only their own rounds.
TURNS = {"small": 4, "nvml": 2, "image": 2, "user": 3, "entry": 2, "map": 2}
# Turns of kinds that often come too late: the job, or the run, has ended by then.
LATE = {
    **dict.fromkeys(
        [
            "KILL job",
            "STOP job",
            "TERM job",
            "HUP job",
            "cancel run",
            "cancel job",
            "look on",
            "TERM engine",
            "STOP engine",
        ],
        2,
    ),
    **dict.fromkeys(
        ["KILL engine that cannot write", "file size limit", "resume while live", "logs lost", "STOP front"], 2
    ),
    **dict.fromkeys(["HUP worker", "STOP worker", "TERM worker", "HUP standby"], 3),
    "KILL worker": 4,
}


@dataclass(frozen=True)
class Kind:
    """One kind of fault."""

    name: str
    # "start": a circumstance of the call; "during": while it runs; "between": when it has ended.
    when: str
    strike: Callable[[Life, Fault], bool]
    # What the round must have: "plan", "map", "entry", "small", "image", "nvml", "root", "preload".
    needs: frozenset[str] = frozenset()
    # The call does not go on after it.
    ends: bool = False

    @property
    def turns(self) -> int:
        """How often it is a round's first fault while others are once: few rounds have room for some."""
        return max([LATE.get(self.name, 1), *(TURNS.get(need, 1) for need in self.needs)])


@dataclass(frozen=True)
class Fault:
    """One fault of a round, with everything about it decided beforehand."""

    kind: str
    # The number of the call it is meant for; -1: whichever comes.
    life: int
    # It strikes after so many records of that call, and so many seconds.
    records: int
    delay: float
    # More randomness for its own use, from 0 to 1.
    roll: float


def pick(roll: float, among: list[proc.Process]) -> proc.Process | None:
    """One of them."""
    return among[int(roll * len(among)) % len(among)] if among else None


def signal_at(name: str, target: str) -> Callable[[Life, Fault], bool]:
    """A signal for one of the processes of that kind."""

    def strike(life: Life, fault: Fault) -> bool:
        process = pick(fault.roll, life.find(target))
        if process is None or not process.same():
            return False
        if target in ("job", "worker", "standby"):
            life.happened.signalled.add(proc.inner(process.pid))
        life.excuse_early(SIGNALS[name], target)
        life.call.excused |= EXCUSES.get((name, target), set())
        if not proc.send(process.pid, SIGNALS[name]):
            return False
        life.say(f"{name} to {target} {process.pid}")
        if name == "STOP":
            life.happened.slowed = True
            life.later(0.3 + 1.5 * fault.roll, lambda: process.same() and proc.send(process.pid, signal.SIGCONT))
        return True

    return strike


def kill_several(*targets: str) -> Callable[[Life, Fault], bool]:
    """SIGKILL for several of gpulane's own processes at once."""

    def strike(life: Life, fault: Fault) -> bool:
        found = [process for target in targets for process in life.find(target)]
        if len(found) < len(targets):
            return False
        life.happened.orphans |= "guardian" in targets and "engine" in targets
        life.call.excused |= {-9, 70}
        # Stopped first, so that nobody sees the other one die.
        for process in found:
            proc.send(process.pid, signal.SIGSTOP)
        for process in found:
            proc.send(process.pid, signal.SIGKILL)
        life.say(f"KILL to {' and '.join(targets)}")
        return True

    return strike


def interrupt(life: Life, fault: Fault) -> bool:
    """Ctrl-C, now and then twice."""
    front = pick(0, life.find("front"))
    if front is None:
        return False
    life.call.excused |= {130}
    life.excuse_early(signal.SIGINT, "front")
    proc.send(front.pid, signal.SIGINT)
    if fault.roll < 0.3:
        life.later(0.05, lambda: front.same() and proc.send(front.pid, signal.SIGINT))
    life.say("INT to front")
    return True


def cancel_run(life: Life, fault: Fault) -> bool:
    """`gpulane cancel RUN`."""
    if not life.journal.seen:
        return False
    life.happened.cancelled.add("*")
    life.call.excused |= {3}
    life.beside(["cancel", str(life.run)], {0, 4})
    life.say("cancel of the run")
    return True


def cancel_job(life: Life, fault: Fault) -> bool:
    """`gpulane cancel RUN JOB`."""
    jobs = life.story.jobs()
    if not life.journal.seen or not jobs:
        return False
    job = jobs[int(fault.roll * len(jobs)) % len(jobs)]
    life.happened.cancelled.add(job.name)
    life.beside(["cancel", str(life.run), job.name], {0, 4})
    life.say(f"cancel of {job.name}")
    return True


def look_on(life: Life, fault: Fault) -> bool:
    """Somebody looks: `status`, `logs`, `doctor`."""
    if not life.journal.seen:
        return False
    words = [["status"], ["status"], ["logs"], ["doctor"]][int(fault.roll * 4) % 4]
    life.beside([words[0], str(life.run), *words[1:]], {0, 3} if words[0] == "doctor" else {0})
    life.say(f"{words[0]} beside it")
    return True


def second_resume(life: Life, fault: Fault) -> bool:
    """`resume` of a run that is live: refused."""
    if not life.journal.seen:
        return False
    # The run may end at this very moment.
    if "resume" in life.call.arguments and len(life.journal.seen) == life.lines_before:
        # The call itself has not begun, and may come second.
        life.call.excused |= {2, 4}
    life.beside(["resume", str(life.run), "--quiet"], {2, 4, 0, 3})
    life.say("resume of the living run")
    return True


def lose_logs(life: Life, fault: Fault) -> bool:
    """Logs of attempts are truncated or removed."""
    logs = sorted(life.run.glob("jobs/*/*/attempt-*/std*.log"))
    if not logs:
        return False
    for number, path in enumerate(logs):
        try:
            if (number + int(fault.roll * 10)) % 2:
                path.unlink()
            else:
                os.truncate(path, 0)
        except OSError:
            continue
    life.say(f"{len(logs)} logs truncated or removed")
    return True


def fill_disk(life: Life, fault: Fault) -> bool:
    """The disk is full for a while."""
    life.happened.slowed = life.happened.refused = True
    life.disk.fill()
    life.happened.full.append([time.time(), math.inf])
    if not life.journal.seen:
        # No job was started, and that is said.
        life.call.excused |= {2}
    life.later(0.3 + 2 * fault.roll, lambda: free_disk(life))
    life.say("disk full for a while")
    return True


def free_disk(life: Life) -> None:
    """There is space again."""
    for stretch in life.happened.full:
        stretch[1] = min(stretch[1], time.time())
    life.disk.free()


def cut_power(life: Life, fault: Fault) -> bool:
    """The power fails: what has not reached the image is gone, and everything dies."""
    life.hear()
    if fault.roll < 0.7 and not life.detached and time.monotonic() - life.heard > 0.03:
        # The worst moment is the one after something was announced.
        return False
    life.disk.cut()
    proc.end_all(life.program.tag)
    life.call.excused |= {-9}
    life.excused_beside |= {-9, 70}
    life.after_cut()
    life.say("power cut")
    return True


def one_bit(at: int) -> int:
    """The bit that is flipped there; never the one that makes a letter a capital, since checksums in hex have both."""
    return 1 << (0, 1, 2, 3, 4, 6)[at % 6]


def flip_byte(life: Life, fault: Fault) -> bool:
    """One bit of the journal is another."""
    path = life.run / "journal.jsonl"
    data = bytearray(path.read_bytes()) if path.exists() else bytearray()
    if len(data) < 2:
        return False
    # Never the last line: torn ends are another kind.
    end = data.rfind(b"\n", 0, len(data) - 1)
    if end < 1:
        return False
    at = int(fault.roll * end)
    data[at] ^= one_bit(at)
    path.write_bytes(data)
    life.happened.doubt = True
    life.expect_refusal()
    life.say(f"bit flipped at byte {at} of the journal")
    return True


def damage_ledger(life: Life, fault: Fault) -> bool:
    """One bit of the ledger of a map is another: refused, until somebody has put back what it was."""
    for stage in life.story.maps():
        path = life.run / life.story.map_folder(stage) / "commits.jsonl"
        whole = path.read_bytes() if path.exists() else b""
        # Never the last line, as above.
        end = whole.rfind(b"\n", 0, len(whole) - 1)
        if end < 1:
            continue
        at = int(fault.roll * end)
        path.write_bytes(whole[:at] + bytes([whole[at] ^ one_bit(at)]) + whole[at + 1 :])
        # A plan's other stages may go on without the map, and a map that has ended needs no ledger.
        life.must = {2} if life.story.map else {0, 2, 3}
        life.afterwards.append(partial(put_back, path, whole))
        life.say(f"bit flipped at byte {at} of {path.name}")
        return True
    return False


def put_back(path: Path, whole: bytes) -> None:
    """Writes what a file was, durably: a power cut may follow."""
    with open(path, "wb") as file:
        file.write(whole)
        file.flush()
        os.fsync(file.fileno())


def tear_journal(life: Life, fault: Fault) -> bool:
    """The journal's end is lost."""
    path = life.run / "journal.jsonl"
    size = path.stat().st_size if path.exists() else 0
    # Where a bit was flipped before, that may be what is cut away, and nothing is left to refuse.
    if size < 2 or life.refusal:
        return False
    os.truncate(path, size - min(size, 1 + int(fault.roll * min(size, 700))))
    life.happened.doubt = True
    life.say("the journal's end is gone")
    return True


def race(life: Life, fault: Fault) -> bool:
    """Several resumes at once."""
    life.excused |= {2, 4}
    for _ in range(1 + int(fault.roll * 3)):
        life.beside(["resume", str(life.run), "--quiet"], {0, 2, 3, 4})
    life.say("resumes race")
    return True


# What a round must be made for from its beginning.
EQUIPMENT = frozenset({"small", "image", "nvml", "preload"})
# What a round can be given by its story.
STORIES = frozenset({"plan", "map", "entry"})
ALL_SIGNALS = [number for number in range(1, 32) if number not in (9, 19)]


def catalogue() -> list[Kind]:
    """Every kind of fault there is."""
    kinds = []
    for name in SIGNALS:
        for target in TARGETS:
            needs = {"feeder": {"map"}, "worker": {"map"}, "job": {"plan"}, "standby": {"entry"}}.get(target, set())
            ends = target in ("front", "guardian", "engine") and name != "STOP"
            kinds.append(Kind(f"{name} {target}", "during", signal_at(name, target), frozenset(needs), ends))
    kinds += [
        Kind("INT front", "during", interrupt, ends=True),
        Kind("KILL guardian+engine", "during", kill_several("guardian", "engine"), ends=True),
        Kind("KILL front+engine", "during", kill_several("front", "engine"), ends=True),
        Kind("KILL all three", "during", kill_several("front", "guardian", "engine"), ends=True),
        Kind("cancel run", "during", cancel_run, frozenset({"plan"})),
        Kind("cancel job", "during", cancel_job, frozenset({"plan"})),
        Kind("look on", "during", look_on),
        Kind("resume while live", "during", second_resume),
        Kind("logs lost", "during", lose_logs),
        Kind("disk full", "during", fill_disk, frozenset({"small"})),
        Kind("power cut", "during", cut_power, frozenset({"image"}), ends=True),
        Kind("KILL engine that cannot write", "during", around.kill_unable, ends=True),
        Kind("detached", "start", around.detach),
        Kind("few processes", "start", around.few_processes, frozenset({"user"})),
        Kind("PID namespace", "start", around.own_processes, frozenset({"root"})),
        Kind("foreign /proc", "start", around.foreign_proc, frozenset({"root"}), ends=True),
        Kind("ledger bit flipped", "between", damage_ledger, frozenset({"map"}), ends=True),
        Kind("journal bit flipped", "between", flip_byte),
        Kind("journal torn", "between", tear_journal),
        Kind("resumes race", "between", race),
        Kind("SIGCHLD ignored", "start", around.wish(ignore=[int(signal.SIGCHLD)])),
        Kind("signals blocked", "start", around.wish(block=ALL_SIGNALS)),
        Kind("umask 000", "start", around.wish(umask=0)),
        Kind("umask 077", "start", around.wish(umask=0o077)),
        Kind("few descriptors", "start", around.limit("RLIMIT_NOFILE", 64, 256)),
        Kind("small stack", "start", around.limit("RLIMIT_STACK", 200 << 10, 1 << 20)),
        Kind("another user", "start", around.as_another, frozenset({"user"})),
        Kind("a stranger asks", "during", around.stranger, frozenset({"user"})),
        Kind("clock jumps", "during", around.jump_clock, frozenset({"preload"})),
        Kind("slow syncs", "during", around.slow_syncs, frozenset({"preload"})),
        Kind("failing syncs", "during", around.failing_syncs, frozenset({"preload"})),
        Kind("file size limit", "during", around.small_files),
        Kind("lock removed", "during", around.unlock, ends=True),
        Kind("run directory moved", "during", around.move_away, ends=True),
        Kind("NVML hangs", "during", around.hang_driver, frozenset({"nvml"})),
        Kind("NVML lies", "during", around.lie, frozenset({"nvml"})),
        Kind("GPU lost", "during", around.lose_gpu, frozenset({"nvml"})),
    ]
    return kinds


def schedule(dice: random.Random, kinds: list[Kind], records: int) -> list[Fault]:
    """When each of these strikes: those that end a call come one per call."""
    faults, life = [], 0
    for kind in kinds:
        # Early records are likelier: a call, and whom it strikes, may end before the last.
        after = min(dice.randrange(records), dice.randrange(records))
        after = after // 3 if kind.needs & STORIES else after
        delay = dice.choice([0.0, 0.0, 0.05, 0.3]) * dice.random()
        number = max(1, life) if kind.when == "between" else 0 if kind.name == "another user" else life
        faults.append(Fault(kind.name, number, after, round(delay, 4), round(dice.random(), 4)))
        life += kind.ends
    return faults
