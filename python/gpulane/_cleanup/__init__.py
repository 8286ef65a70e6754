"""Gives GPU memory back in the right order, without ending the process, and says what came back.

Each library only if it is imported and uses a GPU already; no step initialises anything. A step that fails is a
warning, and the next one is tried.
"""

from __future__ import annotations

import gc
import os
import sys
import time
import warnings
from types import FrameType
from typing import Any, Dict, List, Optional, Tuple

from . import _context, _ipython, _nvml
from ._cupy import CuPy
from ._freed import Freed, Library
from ._jax import Jax
from ._steps import attempt
from ._torch import Torch

__all__ = ["Freed", "cleanup"]

MANY_CALLS = 5
SHORT_S = 10.0
"""So many calls in so many seconds are a loop: each throws away what the next step needs again."""

LOOPS = {
    "cleanup": (
        "gpulane.cleanup was called {} times within {:.0f} s. It is meant for the end of a piece of work, not for a "
        "loop: memory given back has to be asked for again, and compiled code is compiled again. Call it once, after "
        "the loop."
    ),
    "stage": (
        "{} short stages (gpulane.stage) ended within {:.0f} s. A stage is meant for a piece of work, not for each "
        "step of a loop: memory given back at its end has to be asked for again, and compiled code is compiled again. "
        "Put one stage around the loop."
    ),
}
"""What is said of it, by who cleaned."""

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

MANY_PLACES = 1000
_calls: Dict[Tuple[str, str, int], List[float]] = {}
"""When each was called last."""


def cleanup(*, reset_jax: bool = False, quiet: bool = False) -> Freed:
    """Gives back what this process holds of the GPU and does not use: call it once, at the end of a piece of work.

    Delete your own arrays first (`del x`): what a variable holds is in use. Then, in this order: IPython's last error
    and those of its outputs that hold GPU memory are dropped; torch's compiled code and graphs, CuPy's FFT plans and
    JAX's compiled functions; Python's garbage is collected; torch gives back cuBLAS workspaces, memory shared with
    other processes, its device cache and its pinned host cache, CuPy its device pool and its pinned pool. JAX keeps
    its pool as long as it runs; `reset_jax=True` ends its client if none of its arrays lives (devices, meshes and
    shardings made before are then void).

    Returns what came back (`.freed` bytes, `.by_library`, `.held`, `.pinned`, `.context`, `.failures`) and prints it,
    unless `quiet`. What fails is a warning, never an exception. The CUDA context itself goes with the process
    only: `gpulane.stage(isolate=True)`.

    >>> freed = gpulane.cleanup(quiet=True)
    >>> freed.freed
    0
    >>> print(freed)
    no GPU memory to free (neither torch, CuPy nor JAX uses a GPU here)
    """
    guard_against_loops("cleanup")
    freed = free(reset_jax=reset_jax)
    if not quiet:
        say(f"gpulane: {freed}")
    return freed


def free(reset_jax: bool = False) -> Freed:
    """The cleanup itself, without a word but for its warnings."""
    failures: List[str] = []
    devices = attempt(failures, "CUDA driver", _context.active, None)
    ordinals = None if devices is None else [device.ordinal for device in devices]
    buses = [device.bus for device in devices or [] if device.bus]
    before = attempt(failures, "NVML", lambda: _nvml.read(buses), None) if buses else None
    libraries: List[Any] = [Torch(ordinals), CuPy(ordinals), Jax(ordinals, reset_jax)]
    _ipython.forget(failures)
    for library in libraries:
        library.forget()
    gc.collect()
    for library in libraries:
        library.release()
    told = [found for found in (library.tell() for library in libraries) if found is not None]
    after = attempt(failures, "NVML", lambda: _nvml.read(buses), None) if buses else None
    failures += [failure for library in told for failure in library.failures]
    for failure in dict.fromkeys(failures):
        _warn(f"gpulane.cleanup: {failure}")
    return _sum_up(told, before, after, failures)


def say(text: str) -> None:
    """To whoever looks: a notebook's cell, or stderr, where it is in nobody's way."""
    print(text, file=sys.stdout if _ipython.shell() is not None else sys.stderr, flush=True)


def _sum_up(
    told: List[Library], before: Optional[_nvml.Reading], after: Optional[_nvml.Reading], failures: List[str]
) -> Freed:
    measured = context = device = None
    held = sum(library.held for library in told)
    if before is not None and after is not None:
        # Less than the libraries hold cannot be ours: in a container, another process of the host with our number.
        if before.mine is not None and after.mine is not None and after.mine >= held:
            measured = max(0, before.mine - after.mine)
            context = after.mine - held
        else:
            device = after.device
    return Freed(tuple(told), measured, context, device, tuple(dict.fromkeys(failures)))


def guard_against_loops(who: str) -> None:
    """Warns whoever cleans again and again at one place, as `cleanup` or at the end of a `stage`."""
    now = time.monotonic()
    frame, _ = _caller()
    if len(_calls) > MANY_PLACES:
        _calls.clear()
    calls = _calls.setdefault((who, frame.f_code.co_filename, frame.f_lineno), [])
    calls.append(now)
    del calls[:-MANY_CALLS]
    if len(calls) == MANY_CALLS and now - calls[0] < SHORT_S:
        calls.clear()
        _warn(LOOPS[who].format(MANY_CALLS, SHORT_S))


def _warn(text: str) -> None:
    try:
        warnings.warn(text, RuntimeWarning, stacklevel=_caller()[1])
    except Warning:
        pass  # Where warnings are errors, a cleanup at the end of hours of work is still none.


def _caller() -> Tuple[FrameType, int]:
    """Where the line is that is not ours, and how far above who asks: a cleanup, a block and a decorated function
    differ in it."""
    frame = sys._getframe(1)
    level = 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
        level += 1
    return frame, level
