"""What an exception says, for a log or a reason. An exception is a user's object: its `__str__` may raise, or return a
hundred million characters, and `sys.stderr` may be gone. Nothing here fails by that."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from typing import Any, Callable

from ._leaving import Terminated
from ._results import ResultError

__all__ = ["is_out_of_memory", "last_line_of", "place_of", "reason_of", "say", "shown"]

LONGEST_REASON = 1000
LONGEST_SHOWN = 16_000
"""Characters of a traceback that are printed: its beginning, and its end with what the exception says."""

LONGEST_END = 4_000
LOOKED_AT = 100_000
"""Characters of a message in which signs of running out of memory are looked for."""

PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def is_out_of_memory(error: BaseException) -> bool:
    """Whether fewer items could help."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    if not isinstance(error, RuntimeError):
        return False
    text = _safely(lambda: str(error)[:LOOKED_AT], "")
    signs = ("out of memory", "CUDA_ERROR_OUT_OF_MEMORY", "cudaErrorMemoryAllocation", "CUBLAS_STATUS_ALLOC_FAILED")
    return any(sign in text for sign in signs)


def reason_of(error: BaseException) -> str:
    """`ValueError: what it says (model.py:12)`, in one line."""
    if isinstance(error, ResultError):
        return str(error)
    text = last_line_of(error)
    where = _safely(lambda: place_of(error), "")
    return f"{text} ({where})" if where else text


def last_line_of(error: BaseException) -> str:
    """`ValueError: what it says`, in one line that is not too long."""
    lines = _safely(lambda: traceback.format_exception_only(type(error), error), [])
    # Cut before it is split into words: there may be millions of them.
    text = " ".join("".join(lines[-1:])[: 4 * LONGEST_REASON].split()) or f"{_name_of(error)}: it cannot be shown"
    return text if len(text) <= LONGEST_REASON else text[: LONGEST_REASON - 1] + "…"


def place_of(error: BaseException) -> str:
    """The innermost line of the model's own code: of its folder, or else of what is neither Python's nor installed."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(PACKAGE)]
    own = [f for f in frames if "site-packages" not in f.filename and not f.filename.startswith((sys.base_prefix, "<"))]
    chosen = (own or frames)[-1:]
    return f"{os.path.basename(chosen[0].filename)}:{chosen[0].lineno}" if chosen else ""


def shown(error: BaseException) -> str:
    """The whole traceback as Python would print it, without the middle where it is very long."""
    lines = _safely(lambda: traceback.format_exception(type(error), error, error.__traceback__), [])
    text = "".join(lines) or f"{_name_of(error)}: it cannot be shown\n"
    if len(text) <= LONGEST_SHOWN:
        return text
    left_out = len(text) - LONGEST_SHOWN
    return f"{text[: LONGEST_SHOWN - LONGEST_END]}\n… {left_out} characters left out …\n{text[-LONGEST_END:]}"


def say(text: str) -> None:
    """Prints to standard error, whatever the model has made of it."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except Exception:  # Gone, closed, or an object of the model's own.
        with contextlib.suppress(OSError):
            os.write(2, text.encode("utf-8", "replace"))


def _name_of(error: BaseException) -> str:
    return str(_safely(lambda: type(error).__name__, "an exception"))


def _safely(look: Callable[[], Any], otherwise: Any) -> Any:
    """What `look` finds; something else where the exception cannot be looked at."""
    try:
        return look()
    except Terminated:
        raise  # SIGTERM came meanwhile.
    except BaseException:
        return otherwise
