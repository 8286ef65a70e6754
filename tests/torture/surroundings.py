"""Faults of what is around gpulane: limits, clock, disks that are slow or fail, GPUs and their driver, other users."""

from __future__ import annotations

import errno
import os
import resource
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from . import proc

if TYPE_CHECKING:
    from .faults import Fault
    from .life import Life

Strike = Callable[["Life", "Fault"], bool]

HOUR = 3600 * 10**9
OTHER_USER = 65534


def wish(**more: object) -> Strike:
    """A circumstance under which the call is started."""

    def strike(life: Life, fault: Fault) -> bool:
        life.wish.update(more)
        life.say(f"started with {more}")
        return True

    return strike


def limit(name: str, least: int, most: int) -> Strike:
    """A low limit under which the call is started."""

    def strike(life: Life, fault: Fault) -> bool:
        life.wish.setdefault("limits", {})[name] = least + int(fault.roll * (most - least))
        life.say(f"started with {life.wish['limits']}")
        return True

    return strike


def as_another(life: Life, fault: Fault) -> bool:
    """The run belongs to a user who is not root, and has no other processes."""
    life.wish["user"] = life.user
    life.say(f"started by user {life.user}")
    return True


def few_processes(life: Life, fault: Fault) -> bool:
    """The user may have few processes and threads: gpulane, or what it starts, cannot have all it wants."""
    if "user" not in life.wish:
        life.wish["user"] = life.user
    life.wish.setdefault("limits", {})["RLIMIT_NPROC"] = 4 + int(fault.roll * 60)
    life.happened.slowed = life.happened.refused = True
    life.excused |= {2, 5, 70}
    life.excused_beside |= {2, 5, 70}
    # With too few nothing can start, which is said, and held until somebody ends it.
    life.later(4.0, lambda: give_up(life))
    life.say(f"started with {life.wish['limits']}")
    return True


def give_up(life: Life) -> None:
    """Somebody has seen that the run is held, and interrupts it."""
    life.call.excused |= {130}
    for front in life.find("front"):
        proc.send(front.pid, signal.SIGINT)


def own_processes(life: Life, fault: Fault) -> bool:
    """A PID namespace, as in a container. What is detached there is refused: it would end with the command."""
    if life.detached:
        return False
    return wish(processes="own")(life, fault)


def foreign_proc(life: Life, fault: Fault) -> bool:
    """A PID namespace whose /proc is another's: refused. What is refused already has its own answer."""
    if life.refusal or life.must:
        return False
    life.wish["processes"] = "foreign"
    life.must = {5}
    life.say("started in a PID namespace with a foreign /proc")
    return True


def detach(life: Life, fault: Fault) -> bool:
    """The run goes on in the background; `watch` gives its exit code."""
    if "processes" in life.wish:
        return False
    life.detached = True
    life.say("started with --detach")
    return True


def jump_clock(life: Life, fault: Fault) -> bool:
    """The wall clock jumps, by minutes or years, forwards or back."""
    jumps = [-HOUR // 60, HOUR // 60, -24 * HOUR, 24 * HOUR, -20 * 8766 * HOUR, 20 * 8766 * HOUR]
    life.control.clock += jumps[int(fault.roll * len(jumps)) % len(jumps)]
    life.control.write()
    life.say(f"the clock is {life.control.clock / HOUR:.2f} h off")
    return True


def slow_syncs(life: Life, fault: Fault) -> bool:
    """Each sync takes its time for a while."""
    life.happened.slowed = True
    life.control.sync_delay = int((0.02 + 0.4 * fault.roll) * 10**9)
    life.control.write()
    life.later(3, lambda: mend(life))
    life.say(f"each sync takes {life.control.sync_delay / 1e9:.2f} s")
    return True


def failing_syncs(life: Life, fault: Fault) -> bool:
    """Syncs fail for a while, as on a disk that is about to die."""
    life.happened.slowed = life.happened.refused = True
    life.control.sync_errno = errno.EIO if fault.roll < 0.5 else errno.ENOSPC
    life.control.write()
    since = life.journal.seen[life.lines_before :]
    unopened = life.story.map and not any(event.get("event") == "map_opened" for event in since)
    if not since or unopened:
        # Neither journal nor list of items can be opened: nothing was started but workers without items.
        life.call.excused |= {2}
    life.later(0.2 + 1.5 * fault.roll, lambda: mend(life))
    life.say(f"syncs fail with {errno.errorcode[life.control.sync_errno]}")
    return True


def mend(life: Life) -> None:
    """The disk is well again."""
    life.control.sync_delay = life.control.sync_errno = 0
    life.control.write()


def small_files(life: Life, fault: Fault) -> bool:
    """The engine may write no file larger than it is, for a while."""
    engines = life.find("engine")
    if not engines:
        return False
    life.happened.slowed = life.happened.refused = True
    engine = engines[0]
    if not any(event["event"] == "job_started" for event in life.journal.seen[life.lines_before :]):
        # What the run needs could not be written, which is said.
        life.call.excused |= {2}
    try:
        _, most = resource.prlimit(engine.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(engine.pid, resource.RLIMIT_FSIZE, (100, most))
    except OSError:
        return False
    life.later(0.5 + fault.roll, lambda: lift(engine, most))
    life.say("the engine may write no more for a while (RLIMIT_FSIZE)")
    return True


def kill_unable(life: Life, fault: Fault) -> bool:
    """The engine is killed while nothing can be written: what it has published has no record yet."""
    engines = life.find("engine")
    if not engines or not small_files(life, fault):
        return False
    life.call.excused |= {70}
    life.later(0.2 + 0.8 * fault.roll, lambda: engines[0].same() and proc.send(engines[0].pid, signal.SIGKILL))
    return True


def lift(engine: proc.Process, most: int) -> None:
    """The engine may write again."""
    if engine.same():
        resource.prlimit(engine.pid, resource.RLIMIT_FSIZE, (most, most))


def stranger(life: Life, fault: Fault) -> bool:
    """Another user tries to steer or to see the run."""
    if not life.journal.seen:
        return False
    words = [["cancel"], ["resume"], ["status"]][int(fault.roll * 3) % 3]
    life.beside([words[0], str(life.run)], {2}, {"user": OTHER_USER})
    life.say(f"{words[0]} by another user")
    return True


def unlock(life: Life, fault: Fault) -> bool:
    """The file `lock` is removed by hand, and somebody resumes the living run."""
    if life.detached or not life.journal.seen or life.find("engine") == []:
        return False
    try:
        (life.run / "lock").unlink()
    except OSError:
        return False
    # Said, and held or ended; never two engines at once.
    life.call.excused |= {2, 70, 143, 130}
    life.beside(["resume", str(life.run), "--quiet"], {0, 2, 3, 4, 70})
    life.later(3.0, lambda: [proc.send(front.pid, signal.SIGINT) for front in life.find("front")])
    life.say("lock removed, resume of the living run")
    return True


def move_away(life: Life, fault: Fault) -> bool:
    """The run directory is renamed under a living run, and put back when that has ended."""
    if life.detached or not life.journal.seen or life.find("engine") == []:
        return False
    aside = life.run.with_name("moved")
    try:
        os.rename(life.run, aside)
    except OSError:
        return False
    # Ended on request at the latest.
    life.happened.slowed = life.happened.refused = True
    life.call.excused |= {2, 70, 143, 130}
    life.excused_beside |= {2, 70}
    life.later(1 + 2 * fault.roll, lambda: put_back(life))
    life.say("run directory moved away")
    return True


def put_back(life: Life) -> None:
    """Ends what works on the directory and gives it its name again."""
    if life.call.ended() is None:
        for front in life.find("front"):
            proc.send(front.pid, signal.SIGINT)
        life.call.wait(30)
    aside = life.run.with_name("moved")
    if aside.exists():
        if life.run.exists():
            os.rename(life.run, life.run.with_name("made-anew"))
        os.rename(aside, life.run)


# GPUs -------------------------------------------------------------------------------------------------------


def hang_driver(life: Life, fault: Fault) -> bool:
    """NVML does not answer for a while."""
    gpus = life.gpus
    assert gpus is not None
    gpus.set(hang="all")
    life.happened.slowed = True
    if not life.journal.seen or len(life.journal.seen) == life.lines_before:
        life.call.excused |= {5}
    life.later(0.5 + 2 * fault.roll, lambda: gpus.set(hang=[]))
    life.say("NVML hangs")
    return True


def lose_gpu(life: Life, fault: Fault) -> bool:
    """A GPU falls off the bus; it is back for the next call."""
    gpus = life.gpus
    assert gpus is not None
    gpus.set_gpu(int(fault.roll * 10), lost=[True, "gone", "reset"][int(fault.roll * 3) % 3])
    life.call.excused |= {5}
    life.gpu_lost = True
    # Whoever looks for GPUs now may find none.
    life.excused_beside |= {5}
    life.say("a GPU is lost")
    return True


def lie(life: Life, fault: Fault) -> bool:
    """NVML says odd things for a while: memory that nobody holds, no processes, processes of another namespace."""
    gpus = life.gpus
    assert gpus is not None
    lies: list[dict[str, object]] = [{"list_processes": False}, {"hide_processes": True}, {"late_ms": 400}]
    if fault.roll < 0.4:
        gpus.set_gpu(int(fault.roll * 10), used_extra="3GiB", load=100, temperature=200)
        life.later(2, lambda: gpus.set_gpu(int(fault.roll * 10), used_extra="0GiB", load=0))
    else:
        gpus.set(**lies[int(fault.roll * 30) % 3])
        life.later(2, lambda: gpus.set(list_processes=True, hide_processes=False, late_ms=0))
    life.happened.slowed = True
    if len(life.journal.seen) == life.lines_before:
        life.call.excused |= {5}
    life.say("NVML lies")
    return True
