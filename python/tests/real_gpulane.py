"""A gpulane to test with: the one that was built, a folder of its own, and eyes for what it leaves behind."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
import unittest
from pathlib import Path
from typing import Callable, Iterator, List, Optional
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60.0


def built() -> Optional[Path]:
    """`GPULANE_BINARY`, or what cargo has built here."""
    named = os.environ.get("GPULANE_BINARY")
    places = [Path(named)] if named else [ROOT / "target" / kind / "gpulane" for kind in ("debug", "release")]
    return next((place for place in places if os.access(place, os.X_OK)), None)


BUILT = built()


def skip(test: str, why: str) -> str:
    """Has `./x test` tell what was skipped; the reason itself, for unittest."""
    told = os.environ.get("GPULANE_TEST_SKIPS")
    if told:
        with open(told, "a", encoding="utf-8") as file:
            file.write(f"{test}: {why}\n")
    return why


def until(condition: Callable[[], bool], what: str) -> None:
    """Waits for something that will come true."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{PATIENCE_S:.0f} s were not enough: {what}")
        time.sleep(0.02)


def processes(folder: Path) -> List[int]:
    """Processes that work for a run below the folder: jobs by the tag in their environment, gpulane's own by the
    run's files that they hold."""
    tag = b"GPULANE_RUN=" + os.fsencode(folder)
    return [pid for pid in _others() if any(word.startswith(tag) for word in _tags(pid)) or _holds(pid, folder)]


def _others() -> List[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]


def _tags(pid: int) -> List[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _holds(pid: int, folder: Path) -> bool:
    held = []
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                held.append(os.readlink(f"/proc/{pid}/fd/{name}"))
    return any(path.startswith(f"{folder}/") for path in held)


@contextlib.contextmanager
def a_folder() -> Iterator[Path]:
    """A folder of its own. Whatever still runs for it at the end is killed, and is a failure."""
    with tempfile.TemporaryDirectory(prefix="gpulane-test-") as name:
        folder = Path(name).resolve()
        try:
            yield folder
            until(lambda: not processes(folder), f"processes are left: {processes(folder)}")
        finally:
            for pid in processes(folder):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


@unittest.skipIf(BUILT is None, "no gpulane is built; cargo build -p gpulane, or set GPULANE_BINARY")
class WithGpulane(unittest.TestCase):
    """Each test is in a folder of its own, with the gpulane that was built and no other's environment."""

    folder: Path

    def setUp(self) -> None:
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.folder = stack.enter_context(a_folder())
        clean = {name: value for name, value in os.environ.items() if not name.startswith("GPULANE_")}
        clean.update(GPULANE_BINARY=str(BUILT), XDG_CACHE_HOME=str(self.folder / "cache"))
        stack.enter_context(mock.patch.dict(os.environ, clean, clear=True))
        before = os.getcwd()
        os.chdir(self.folder)
        stack.callback(os.chdir, before)

    def write(self, name: str, text: str) -> Path:
        """A file in the folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path
