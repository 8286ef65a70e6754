"""Peak memory of a program that is several processes, which may leave their parent."""

from __future__ import annotations

import os
import threading
from pathlib import Path


class Watch:
    """Looks for every process that runs `binary` and keeps each one's peak (VmHWM).

    Processes are recognised by their executable alone, so a guardian that was reparented counts too; `binary`
    must therefore be a copy that nobody else runs. The sum of the peaks is an upper bound of what was held at one
    time, and counts pages the processes share once for each.
    """

    def __init__(self, binary: Path, every: float = 0.02):
        self._id = _identity(binary)
        self._every = every
        self._peaks: dict[int, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def peak(self) -> int:
        """Bytes, over all processes seen."""
        return sum(self._peaks.values())

    @property
    def processes(self) -> int:
        return len(self._peaks)

    def _watch(self) -> None:
        seen: dict[int, int] = {}
        while not self._stop.wait(self._every):
            ours = {pid: _high_water(pid) for pid in _pids() if self._is_ours(pid)}
            for pid, peak in ours.items():
                # A job's process runs our executable for an instant before its own, sharing the engine's memory.
                # Only what is seen on two looks in a row is a process of gpulane.
                if pid in seen:
                    self._peaks[pid] = max(self._peaks.get(pid, 0), peak)
            seen = ours

    def _is_ours(self, pid: int) -> bool:
        try:
            return _identity(Path(f"/proc/{pid}/exe")) == self._id
        except OSError:
            return False


def _identity(path: Path) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _pids() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def _high_water(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except (OSError, UnicodeDecodeError):
        pass
    return 0
