"""The files of a run directory that tell how it stands: the frozen plan, the journal, the lock. Reads only.

The directory may be another user's: names in it are checked before a path is made of them, and what is no plain file is
not waited for.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple, Union

from ._errors import GpulaneError
from ._options import nearest

__all__ = ["RUNS", "Journal", "find_run", "is_live", "json_lines", "plan_of"]

RUNS = Path("runs")


class Journal:
    """`journal.jsonl`, read as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._inode = 0

    def news(self) -> Tuple[bool, List[Dict[str, Any]]]:
        """The events since the last call; `True`: it is another journal by now, and these are from its beginning."""
        try:
            with open(self._path, "rb", opener=_at_once) as file:
                status = os.fstat(file.fileno())
                anew = status.st_ino != self._inode or status.st_size < self._offset
                if anew:
                    self._inode, self._offset = status.st_ino, 0
                file.seek(self._offset)
                # The last line may be under way; it is read when it is whole.
                whole = file.read().rpartition(b"\n")[:2]
        except FileNotFoundError:
            return False, []
        text = b"".join(whole)
        self._offset += len(text)
        return anew, list(json_lines(text))


def json_lines(text: bytes) -> Iterator[Dict[str, Any]]:
    """The objects of a file with one a line. What is damaged is left out: `gpulane resume` is the one to judge it."""
    for line in text.split(b"\n"):
        try:
            value = json.loads(line) if line else None
        except (RecursionError, ValueError):
            continue
        if isinstance(value, dict):
            yield value


def find_run(given: Union[str, os.PathLike[str]]) -> Path:
    """The run that is meant: a directory, or the beginning of one name under `runs`, as on the command line."""
    path, text = Path(given), os.fspath(given)
    if (path / "plan.json").exists():
        return path
    names = sorted(each.parent.name for each in RUNS.glob("*/plan.json"))
    meant = [name for name in names if text and name.startswith(text)]
    if text in meant:
        meant = [text]
    if len(meant) == 1:
        return RUNS / meant[0]
    if meant:
        raise FileNotFoundError(f"{text!r} may be one of several runs: {', '.join(meant)}")
    if path.is_dir():
        raise FileNotFoundError(f"{path} is no run of gpulane: it has no plan.json")
    raise FileNotFoundError(f"there is no run {text!r}, and none under {RUNS} begins so{nearest(text, names)}")


def plan_of(path: Path) -> Dict[str, Any]:
    """The frozen plan of the run in this directory."""
    file = path / "plan.json"
    with open(file, "rb", opener=_at_once) as opened:
        text = opened.read()
    try:
        plan: Dict[str, Any] = json.loads(text)
        stages = [stage["name"] for stage in plan["stages"]]
        names = [*stages, *(job["name"] for job in plan["jobs"])]
        wrong = [name for name in names if not _is_name(name)]
        if not all(0 <= job["stage"] < len(stages) for job in plan["jobs"]):
            raise ValueError("a job has a stage that is not there")
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        raise GpulaneError(f"{file} is no plan of gpulane, or damaged: {type(error).__name__}: {error}") from None
    if wrong:
        raise GpulaneError(f"{file} was not written by gpulane: {wrong[0]!r} is no name of a stage or job")
    return plan


def _is_name(name: Any) -> bool:
    """Whether it names one folder and nothing else, and can be shown as it is."""
    return isinstance(name, str) and name not in ("", ".", "..") and "/" not in name and name.isprintable()


def _at_once(path: Union[str, os.PathLike[str]], flags: int) -> int:
    """Opens a file; a pipe in its place does not keep us waiting for somebody to write."""
    return os.open(path, flags | os.O_NONBLOCK)


def is_live(path: Path) -> bool:
    """Whether an engine works on the run: it holds the lock. Shared for an instant, as gpulane's own views do."""
    try:
        lock = _at_once(path / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(lock)
    return False
