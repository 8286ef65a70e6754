"""Files that hold what was defined in a notebook's cell, for other processes to load. Each lies in a folder named after
what is in it: the same source is the same file, so that a run can be resumed, and a changed one is another.

Others execute what these files hold, so nobody else may write to them, and one that was edited is written anew.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from pathlib import Path
from typing import Any, Dict, Mapping, Optional

from ._errors import ModelNotInFile
from ._journal import RUNS
from ._trust import first_open_place, us

__all__ = ["CELLS", "cells_in", "is_as_written", "write_out"]

CELLS = RUNS / "cells"
"""Beside the runs that need them to be resumed."""

HEAD = '"""Written by gpulane from a notebook\'s cell. Changes here are lost."""'


def write_out(name: str, body: str) -> Path:
    """The file that holds this, and nothing else; `name`: how it is called."""
    text = f"{HEAD}\n\n{body}\n"
    folder = CELLS / _hash(text)
    # One by one: parents that `mkdir` makes by itself have whatever mode the umask leaves.
    for place, mode in ((RUNS, 0o755), (CELLS, 0o700), (folder, 0o700)):
        place.mkdir(mode=mode, exist_ok=True)
    file = folder / name
    number, draft = tempfile.mkstemp(prefix=".", suffix=".py", dir=folder)
    try:
        with open(number, "w", encoding="utf-8") as out:
            out.write(text)
            ours = os.fstat(number).st_uid
        _refuse_open_folders(folder, ours)
        if _text_of(file) != text:
            os.replace(draft, file)
    finally:
        if os.path.exists(draft):
            os.unlink(draft)
    return file


def is_as_written(file: Path) -> bool:
    """Whether the file still is what was written out."""
    text = _text_of(file)
    return text is not None and _hash(text) == file.parent.name


def cells_in(plan: Mapping[str, Any]) -> Dict[str, str]:
    """What a plan has from a notebook's cells: by name, the file it was written to."""
    found = {}
    for stage in plan["stages"]:
        target = stage.get("entry") or (stage.get("map") or {}).get("model") or ""
        file, _, name = target.rpartition(":")
        if Path(file).parent.parent.parts[-2:] == CELLS.parts:
            found[name] = file
    return found


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _text_of(file: Path) -> Optional[str]:
    """What is in it; nothing if it is no plain file of its own."""
    try:
        if not stat.S_ISREG(os.lstat(file).st_mode):
            return None
        return file.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None


def _refuse_open_folders(folder: Path, ours: int) -> None:
    """Where somebody else could put another file in its place, that would be executed in our name."""
    trusted = {ours, *us()}
    for place in (folder, folder.parent):
        found = os.lstat(place)
        if stat.S_ISLNK(found.st_mode) or found.st_uid not in trusted:
            raise ModelNotInFile(_told(place, "belongs to another user, or is a link"))
        if found.st_mode & 0o022:
            os.chmod(place, found.st_mode & 0o755)
    wrong = first_open_place(folder.parent, ours)
    if wrong is not None:
        raise ModelNotInFile(_told(*wrong))


def _told(place: Path, why: str) -> str:
    return (
        f"{place} {why}, so the code that is written there for other processes could be exchanged. Start Python in a "
        "folder of your own, put the code into a file and give 'FILE.py:NAME', or, if you trust whoever may write "
        "there, name it in GPULANE_TRUST_DIR"
    )
