"""Where the program is, and the environment it is started in."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Dict

from ._errors import ProgramMissing

__all__ = ["binary", "environment"]


def binary() -> str:
    """The program: `GPULANE_BINARY`, else beside this Python, where a wheel puts it, else on the PATH."""
    named = os.environ.get("GPULANE_BINARY")
    if named:
        if not _runs(named):
            raise ProgramMissing(f"GPULANE_BINARY is {named}, which is no program that can be run")
        return os.path.abspath(named)
    beside = os.path.join(os.path.dirname(os.path.abspath(sys.executable or "")), "gpulane")
    found = beside if _runs(beside) else shutil.which("gpulane")
    if found is None:
        raise ProgramMissing(
            f"there is no program `gpulane`, neither beside {sys.executable} nor on the PATH; "
            "install it with `pip install gpulane`, or set GPULANE_BINARY to its path"
        )
    return os.path.abspath(found)


def environment() -> Dict[str, str]:
    """This process's environment, with this Python's own made the active one: a notebook's kernel is often started by
    its path alone, and `python` in a plan would be another one than the notebook's."""
    variables = dict(os.environ)
    folder = os.path.dirname(os.path.abspath(sys.executable or ""))
    if sys.executable and folder not in variables.get("PATH", "").split(os.pathsep):
        variables["PATH"] = os.pathsep.join(filter(None, [folder, variables.get("PATH")]))
    if sys.prefix != sys.base_prefix:
        variables["VIRTUAL_ENV"] = sys.prefix
    return variables


def _runs(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
