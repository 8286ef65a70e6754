"""IPython keeps what a cell returned and the last error with all variables of its frames: both keep GPU memory."""

from __future__ import annotations

import re
import sys
import traceback
from typing import Any, List, Optional

from ._holders import holds_gpu_memory
from ._steps import attempt

__all__ = ["forget", "shell"]

_LAST = ("last_exc", "last_type", "last_value", "last_traceback")
"""Where Python keeps the last error that nobody caught, for debuggers."""


def shell() -> Optional[Any]:
    """The running IPython, if there is one."""
    ipython = sys.modules.get("IPython")
    get = getattr(ipython, "get_ipython", None)
    return get() if get is not None else None


def forget(failures: List[str]) -> None:
    """Drops the last error, and those outputs that hold GPU memory; the others stay."""
    attempt(failures, "the last error", _forget_error, None)
    running = attempt(failures, "IPython", shell, None)
    if running is not None:
        attempt(failures, "IPython's last error", lambda: _forget_ipythons_error(running), None)
        attempt(failures, "IPython's outputs", lambda: _forget_outputs(running), None)


def _forget_error() -> None:
    last = getattr(sys, "last_value", None)
    for name in _LAST:
        if hasattr(sys, name):
            delattr(sys, name)
    _clear(last)


def _clear(error: Optional[BaseException]) -> None:
    """Empties the frames of an error and of those it came from; whoever else keeps it keeps no variables."""
    seen: List[BaseException] = []
    while error is not None and not any(error is other for other in seen):
        seen.append(error)
        traceback.clear_frames(error.__traceback__)
        error = error.__context__ if error.__cause__ is None else error.__cause__


def _forget_ipythons_error(running: Any) -> None:
    for name in ("InteractiveTB", "SyntaxTB"):
        handler = getattr(running, name, None)
        for part in ("tb", "etype", "evalue", "last_syntax_error"):
            if getattr(handler, part, None) is not None:
                setattr(handler, part, None)
    result = getattr(running, "last_execution_result", None)
    for part in ("error_in_exec", "error_before_exec"):
        _clear(getattr(result, part, None))


def _forget_outputs(running: Any) -> None:
    names = running.user_ns
    history = names.get("_oh", {})
    for number in [number for number, value in history.items() if holds_gpu_memory(value)]:
        del history[number]
    for name in [name for name in names if re.fullmatch(r"_\d+|_{1,3}", name)]:
        # `_` may be the user's own variable: IPython's is the one that is also what its display hook remembers.
        if (name.strip("_") or _is_ipythons(running, name)) and holds_gpu_memory(names[name]):
            if name.strip("_"):
                del names[name]
            else:
                names[name] = ""
                setattr(running.displayhook, name, "")
    result = getattr(running, "last_execution_result", None)
    if result is not None and holds_gpu_memory(getattr(result, "result", None)):
        result.result = None


def _is_ipythons(running: Any, name: str) -> bool:
    return getattr(running.displayhook, name, None) is running.user_ns[name]
