"""Which keyword arguments there are. One that is not known is told before anything is started."""

from __future__ import annotations

import difflib
import inspect
from typing import Any, Callable, Iterable, List, Mapping

__all__ = ["MAP", "RESUME", "RUN", "STAGE", "check_known", "nearest"]

RUN = ("headroom", "foreign", "on", "trust_dir")
"""Of a run as a whole."""
STAGE = (
    "after",
    "cpus",
    "env",
    "exclude",
    "foreach",
    "grace",
    "hang",
    "include",
    "job",
    "job_gpus",
    "matrix",
    "max_failures",
    "memory",
    "mps",
    "parallel",
    "python",
    "result",
    "retries",
    "retry_delay",
    "standbys",
    "start_gate",
    "timeout",
    "zip",
)
"""Of the stage that `command` or `entry` makes."""
MAP = (
    "cpus",
    "damaged",
    "foreign",
    "hang",
    "hang_outside",
    "headroom",
    "item_timeout",
    "max_failures",
    "members",
    "memory",
    "mps",
    "nan",
    "retries",
    "ring",
    "start_gate",
    "strict",
    "threads",
    "trust_dir",
    "workers",
)
RESUME = (
    "accept_changes",
    "batch",
    "foreign",
    "gpus",
    "item_timeout",
    "lanes",
    "max_failures",
    "python",
    "ring",
    "salvage",
    "threads",
    "trust_dir",
    "workers",
)


def check_known(call: Callable[..., Any], given: Mapping[str, Any], known: Iterable[str], where: str = "") -> None:
    """Refuses, as Python itself would, what the call does not take; `where`: what else takes such names."""
    for name in given:
        if name not in known:
            other = f" ({where}={{{name!r}: …}})" if where else ""
            near = nearest(name, [*inspect.signature(call).parameters, *known])
            raise TypeError(f"{call.__name__}() got an unexpected keyword argument {name!r}{near}{other}")


def nearest(name: str, known: List[str]) -> str:
    """The known name that may have been meant."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
