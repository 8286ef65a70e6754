"""Where the program is, and the environment it is started in."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from typing import Dict, Sequence

from ._errors import GpulaneError, PlanError, ProgramMissing

__all__ = ["binary", "environment", "not_startable"]


def binary() -> str:
    """The program: `GPULANE_BINARY`, else beside this Python, where a wheel puts it, else on the PATH."""
    named = os.environ.get("GPULANE_BINARY")
    if named:
        if not _runs(named):
            raise ProgramMissing(
                f"GPULANE_BINARY is {named}, which is no program that can be run; set it to the path of `gpulane`"
            )
        return os.path.abspath(named)
    beside = os.path.join(os.path.dirname(os.path.abspath(sys.executable or "")), "gpulane")
    found = beside if _runs(beside) else shutil.which("gpulane")
    if found is None:
        raise ProgramMissing(
            f"there is no program `gpulane`, neither beside {sys.executable} nor on the PATH; "
            "in gpulane's repository, `./x wheel` builds a wheel with the program in it, and "
            "`pip install target/wheels/gpulane-*.whl` installs it; or set GPULANE_BINARY to the program's path"
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


def not_startable(argv: Sequence[str], error: OSError) -> GpulaneError:
    """Why the system did not start the program: it is another machine's, or what it is given is too long."""
    if error.errno == errno.E2BIG:
        longest = max(argv[1:], key=len, default="")
        return PlanError(
            f"the arguments are too long for a process ({len(longest):,} characters in `{longest[:40]}…`); give many "
            "inputs as a list, and a large argument as a file"
        )
    if error.errno in (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE):
        return GpulaneError(f"{argv[0]} could not be started, this machine is short of something: {error.strerror}")
    return ProgramMissing(
        f"{argv[0]} cannot be run: {error.strerror}; it must be the program `gpulane`, built for this machine. "
        "GPULANE_BINARY names another one"
    )


def _runs(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
