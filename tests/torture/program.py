"""gpulane as a person starts it: arguments, environment, what it prints and how it ends. Every wait has a deadline."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from . import proc

LAUNCH = str(Path(__file__).with_name("launch.py"))
# Variables that would change what gpulane does.
FOREIGN = ("GPULANE_RUN", "GPULANE_JOB", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "PYTHONPATH", "PYTHONHOME")


@dataclass
class Call:
    """One gpulane that was started."""

    arguments: list[str]
    child: subprocess.Popen[bytes]
    errors: Path
    began: float = field(default_factory=time.monotonic)
    lines: list[dict[str, Any]] = field(default_factory=list)
    # Exit codes beyond the documented ones of an undisturbed call, by what was done to it.
    excused: set[int] = field(default_factory=set)
    _rest: bytes = b""

    def hear(self) -> list[dict[str, Any]]:
        """The events it has printed since the last call."""
        if self.child.stdout is None:
            return []
        fresh = b""
        while chunk := self._read():
            fresh += chunk
        *whole, self._rest = (self._rest + fresh).split(b"\n")
        heard = [json.loads(line) for line in whole if line] if "--json" in self.arguments else []
        self.lines += heard
        return heard

    def _read(self) -> bytes:
        stdout = self.child.stdout
        assert stdout is not None
        try:
            return os.read(stdout.fileno(), 1 << 16)
        except (BlockingIOError, ValueError):
            return b""

    @property
    def pid(self) -> int:
        """The process the person knows of."""
        return self.child.pid

    def ended(self) -> int | None:
        """Its exit code, -N for signal N; None while it runs."""
        return self.child.poll()

    def wait(self, patience: float) -> int | None:
        """Its exit code; None if it has not ended in time."""
        deadline = time.monotonic() + patience
        while self.ended() is None and time.monotonic() < deadline:
            self.hear()
            time.sleep(0.01)
        return self.ended()

    def words(self) -> str:
        """What it said on stderr."""
        return self.errors.read_text("utf-8", "replace") if self.errors.exists() else ""

    def close(self) -> None:
        """Ends it if it still runs, and gives back its pipe."""
        if self.ended() is None:
            proc.send(self.pid, signal.SIGKILL)
            self.child.wait(10)
        self.hear()
        if self.child.stdout:
            self.child.stdout.close()


@dataclass
class Program:
    """The binary, where it is called and with what environment."""

    binary: Path
    folder: Path
    tag: str
    variables: dict[str, str] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)

    def environment(self) -> dict[str, str]:
        """What every call gets."""
        kept = {name: value for name, value in os.environ.items() if name not in FOREIGN}
        kept |= {proc.TAG: self.tag, "XDG_CACHE_HOME": str(self.folder / "cache"), "NO_COLOR": "1"}
        kept |= {"PYTHONDONTWRITEBYTECODE": "1", "GPULANE_LEASE_DIR": str(self.folder / "leases")}
        return kept | self.variables

    def start(self, arguments: list[str], wish: dict[str, Any] | None = None) -> Call:
        """Starts gpulane; `wish` is what launch.py makes of the process before."""
        words = [str(self.binary), *arguments]
        if wish:
            words = [sys.executable, "-S", "-E", LAUNCH, json.dumps(wish), *words]
        errors = self.folder / f"stderr-{len(self.calls)}.txt"
        with open(errors, "wb") as file:
            child = self._spawn(words, file)
        assert child.stdout is not None
        os.set_blocking(child.stdout.fileno(), False)
        call = Call(arguments, child, errors)
        self.calls.append(call)
        return call

    def _spawn(self, words: list[str], errors: BinaryIO) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            words,
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            bufsize=0,
            # A group of its own: the kernel hangs up a whole group that is orphaned while one of it is stopped.
            process_group=0,
        )
