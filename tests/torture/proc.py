"""What lives on this machine, read from `/proc`: processes by tag, by name and by parent, their CPU time and memory."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass

# Named so that the torture knows its own, whatever they did to their names and sessions.
TAG = "GPULANE_TORTURE"


@dataclass(frozen=True)
class Process:
    """A process that has not ended."""

    pid: int
    parent: int
    name: str
    state: str
    began: int
    command: str

    def same(self) -> bool:
        """Whether the number still belongs to this process."""
        now = look(self.pid)
        return now is not None and now.began == self.began


@dataclass(frozen=True)
class Spent:
    """What a process has used so far."""

    cpu: float
    # CPU time and the time it was ready to run but had to wait for a core.
    wanted: float
    # The most memory it ever held, in bytes.
    peak: int


def read(path: str) -> bytes:
    """The file's content; empty if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def look(pid: int) -> Process | None:
    """The process with this number, unless it has ended."""
    stat = read(f"/proc/{pid}/stat").decode("utf-8", "replace")
    head, _, tail = stat.rpartition(")")
    fields = tail.split()
    if len(fields) < 20 or fields[0] in "ZX":
        return None
    command = read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode("utf-8", "replace").strip()
    return Process(pid, int(fields[1]), head.partition("(")[2], fields[0], int(fields[19]), command)


def numbers() -> list[int]:
    """The numbers of all processes."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def all_processes() -> list[Process]:
    """Every process that has not ended."""
    return [process for process in map(look, numbers()) if process is not None]


def tagged(tag: str) -> list[Process]:
    """The living processes that bear this tag in their environment or their command line."""
    wanted, found = tag.encode(), []
    for pid in numbers():
        if wanted in read(f"/proc/{pid}/environ") or wanted in read(f"/proc/{pid}/cmdline"):
            process = look(pid)
            if process is not None and pid != os.getpid():
                found.append(process)
    return found


def has_variable(pid: int, name: str) -> bool:
    """Whether the process was started with this variable in its environment."""
    return any(entry.startswith(name.encode() + b"=") for entry in read(f"/proc/{pid}/environ").split(b"\0"))


def inner(pid: int) -> int:
    """The number a process has for itself: another one in a PID namespace."""
    for line in read(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"NSpid:"):
            return int(line.split()[-1])
    return pid


def children(pid: int) -> list[Process]:
    """The children of a process, those of all its threads."""
    found = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            found += [int(each) for each in read(f"/proc/{pid}/task/{thread}/children").split()]
    return [process for process in map(look, found) if process is not None]


def zombies(pid: int) -> list[int]:
    """Children of a process that have ended and were not reaped."""
    found = []
    for child in read(f"/proc/{pid}/task/{pid}/children").split():
        tail = read(f"/proc/{int(child)}/stat").rpartition(b")")[2].split()
        if tail and tail[0] == b"Z":
            found.append(int(child))
    return found


def below(pid: int) -> list[Process]:
    """Everything that descends from a process, the process itself not."""
    found, rest = [], children(pid)
    while rest:
        process = rest.pop()
        found.append(process)
        rest += children(process.pid)
    return found


def spent(pid: int) -> Spent:
    """What a process has used."""
    fields = read(f"/proc/{pid}/stat").decode("utf-8", "replace").rpartition(")")[2].split()
    ticks = os.sysconf("SC_CLK_TCK")
    cpu = (int(fields[11]) + int(fields[12])) / ticks if len(fields) > 12 else 0.0
    waited = 0.0
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            words = read(f"/proc/{pid}/task/{thread}/schedstat").split()
            waited += int(words[1]) / 1e9 if len(words) > 1 else 0.0
    peak = 0
    for line in read(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"VmHWM:"):
            peak = int(line.split()[1]) * 1024
    return Spent(cpu, cpu + waited, peak)


def send(pid: int, number: int) -> bool:
    """Sends a signal; false: there is nobody."""
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True


def end_all(tag: str, patience: float = 10.0) -> list[Process]:
    """Kills everything that bears the tag until nothing is left; gives back what would not go."""
    deadline = time.monotonic() + patience
    while (left := tagged(tag)) and time.monotonic() < deadline:
        for process in left:
            send(process.pid, signal.SIGKILL)
        time.sleep(0.01)
    return left


def wait_gone(tag: str, patience: float) -> list[Process]:
    """Waits until nothing bears the tag; gives back what is still there when patience ends."""
    deadline = time.monotonic() + patience
    while (left := tagged(tag)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left
