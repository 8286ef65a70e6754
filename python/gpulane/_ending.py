"""The end of a process whose job went well: short, with nothing lost by it.

With torch, Python takes its modules apart for a second, in which the GPU is held and idle.
"""

from __future__ import annotations

import _io
import _socket
import atexit
import contextlib
import gc
import os
import sys
import threading
import traceback
import weakref
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any, Dict, List, Optional

try:
    import ctypes
except ImportError:  # Python was built without.
    ctypes = None  # type: ignore[assignment]

__all__ = ["can_be_short", "end", "look_around"]

WRITE_AT_THE_END = ("LD_PRELOAD", "CUDA_INJECTION64_PATH")
"""Profilers and their like come into a process by these."""

LIBRARIES_THAT_WRITE_AT_THE_END = ("h5py", "tables", "netCDF4", "mpi4py")
"""From C, so that nothing of it is seen from Python."""

BUFFERS = (_io.BufferedWriter, _io.BufferedRandom, _io.BufferedRWPair)


def can_be_short() -> bool:
    """Whether this Python is one of which we know how it ends."""
    return sys.implementation.name == "cpython" and ctypes is not None


def end(known: Optional[List[Any]]) -> None:
    """Ends the process after a job that went well, without taking all modules apart: with torch that lasts a second, in
    which the GPU stands idle, and the kernel frees all of it anyway. Before that threads are waited for, exit handlers
    run, and files are written. Returns, and leaves it to Python, if anything else has a say at the end. What is frozen
    is not looked at, but for those of it that are `known` to matter."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]
    except BaseException:
        traceback.print_exc()
        return
    with contextlib.suppress(BaseException):  # Each was shown already.
        atexit._run_exitfuncs()
    if threading.active_count() > 1 or any(name in os.environ for name in WRITE_AT_THE_END):
        return
    if any(name in sys.modules for name in LIBRARIES_THAT_WRITE_AT_THE_END):
        return
    gc.collect()
    if known is None:
        gc.unfreeze()
    frozen = [reference() for reference in known or []]
    files = _open_files(gc.get_objects() + [one for one in frozen if one is not None])
    if files is None:
        return
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except Exception:
        return  # Python has its own way to say so.
    # Text goes through others, such as those of `gzip`, which have an end to write; and all of it through buffers.
    texts = [file.flush for file in files if type(file) is _io.TextIOWrapper]
    others = [file.close for file in files if type(file).__module__ != "_io"]
    buffers = [file.flush for file in files if type(file) in BUFFERS]
    for write in texts + others + buffers:
        with contextlib.suppress(Exception):  # As Python does with a file that nobody has closed.
            write()
    ctypes.CDLL(None).fflush(None)
    os._exit(0)


def look_around() -> Optional[List[Any]]:
    """Weak references to all that could have a say at the end; `None` if that cannot be told yet."""
    if threading.active_count() > 1:
        return None  # It may open a file just now.
    kinds = Kinds()
    try:
        return [weakref.ref(one) for one in gc.get_objects() if kinds[type(one)]]
    except TypeError:
        return None


def _open_files(objects: List[Any]) -> Optional[List[Any]]:
    """The files among them; `None` if others are there that have something to do when they go."""
    kinds = Kinds()
    files = []
    for one in objects:
        kind = kinds[type(one)]
        if kind == "file":
            files.append(one)
        elif kind == "suspended" and not _is_installed(one) or kind == "last words":
            return None
    return [file for file in files if not file.closed]


class Kinds(Dict[type, str]):
    """What the end of a type's objects means; empty: nothing."""

    def __missing__(self, kind: type) -> str:
        self[kind] = found = self._look_at(kind)
        return found

    @staticmethod
    def _look_at(kind: type) -> str:
        if issubclass(kind, _io._IOBase):
            return "file"
        if kind in (GeneratorType, CoroutineType, AsyncGeneratorType):
            return "suspended"
        # A socket is closed when it goes; the kernel does so, too.
        last_words = getattr(kind, "__del__", None)
        return "" if last_words in (None, getattr(_socket.socket, "__del__", None)) else "last words"


def _is_installed(suspended: Any) -> bool:
    """Whether a generator or its like is a library's, or has nothing left to do."""
    for name in ("gi", "cr", "ag"):
        code = getattr(suspended, name + "_code", None)
        if code is not None:
            parts = code.co_filename.split(os.sep)
            over = getattr(suspended, name + "_frame") is None
            return over or "site-packages" in parts or "dist-packages" in parts
    return False
