"""The end of a process whose job went well: short, with nothing lost by it.

With torch, Python takes its modules apart for a second, in which the GPU is held and idle. The kernel frees all of it
anyway. But some objects do more at their end than to free memory. Whoever may be one of them means that Python ends by
itself: those written in Python say so, those in C do not, so only libraries that we know are trusted.
"""

from __future__ import annotations

import _io
import _socket
import atexit
import contextlib
import gc
import os
import re
import sys
import threading
import traceback
from importlib.machinery import EXTENSION_SUFFIXES
from itertools import compress
from types import AsyncGeneratorType, CoroutineType, FunctionType, GeneratorType
from typing import Any, List, Optional

try:
    import ctypes
except ImportError:  # Python was built without.
    ctypes = None  # type: ignore[assignment]

__all__ = ["can_be_short", "end"]

WRITE_AT_THE_END = ("LD_PRELOAD", "CUDA_INJECTION64_PATH")
"""Profilers and their like come into a process by these."""

LIBRARIES = frozenset(
    "PIL aiohttp charset_normalizer contourpy cuda cupy cupy_backends cupyx fastrlock frozenlist jax jaxlib kiwisolver "
    "llvmlite markupsafe matplotlib ml_dtypes multidict numba numpy orjson pandas propcache psutil pydantic_core regex "
    "safetensors scipy sentencepiece skimage sklearn tokenizers torch torchvision triton wrapt xxhash yaml yarl".split()
)
"""By the names of their folders: what is written in C there frees memory and does nothing else."""

DATABASES = ("_dbm", "_gdbm", "_sqlite3")
"""Of Python's own, all but these."""

BUFFERS = (_io.BufferedWriter, _io.BufferedRandom, _io.BufferedRWPair)
FILES = (*BUFFERS, _io.BufferedReader, _io.BytesIO, _io.FileIO, _io.StringIO, _io.TextIOWrapper)

FLUSH_S = 3.0
"""So long C may take to write what it has: a thread of its own that waits for input would keep it from that."""


def can_be_short() -> bool:
    """Whether this Python is one of which we know how it ends."""
    return sys.implementation.name == "cpython" and ctypes is not None


def end() -> None:
    """Ends the process after a job that went well, without taking all modules apart. Before that threads are waited
    for, exit handlers run, and files are written. Returns, and leaves it to Python, if anything else may have a say."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]
    except BaseException:
        traceback.print_exc()
        return
    with contextlib.suppress(BaseException):  # Each was shown already.
        atexit._run_exitfuncs()
    if threading.active_count() > 1 or any(name in os.environ for name in WRITE_AT_THE_END):
        return
    if _has_foreign_code():
        return
    gc.collect()
    gc.unfreeze()
    files = _open_files(gc.get_objects())
    if files is None:
        return
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except Exception:
        return  # Python has its own way to say so.
    # Text goes through buffers.
    texts = [file.flush for file in files if type(file) is _io.TextIOWrapper]
    buffers = [file.flush for file in files if type(file) in BUFFERS]
    for write in texts + buffers:
        with contextlib.suppress(Exception):  # As Python does with a file that nobody has closed.
            write()
    flushing = threading.Thread(target=_flush_what_c_has, daemon=True)
    flushing.start()
    flushing.join(FLUSH_S)
    os._exit(0)


def _flush_what_c_has() -> None:
    library = ctypes.CDLL(None)
    with contextlib.suppress(ValueError):  # It has another name elsewhere.
        library.fflush(ctypes.c_void_p.in_dll(library, "stdout"))
    library.fflush(None)


def _has_foreign_code() -> bool:
    """Whether libraries written in C are loaded that may do more than to free memory."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return True
    own = os.path.dirname(os.__file__) + os.sep
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__dict__", {}).get("__file__")
        if name in DATABASES:
            return True
        if isinstance(file, str) and file.endswith(tuple(EXTENSION_SUFFIXES)):
            _, found, inside = file.replace("/dist-packages/", "/site-packages/").rpartition("/site-packages/")
            if not found and not file.startswith(own) and "/lib-dynload/" not in file:
                return True
            library = re.split(r"[./]", inside)[0]
            if found and library not in LIBRARIES and not library.endswith("__mypyc"):
                return True
    return False


def _open_files(objects: List[Any]) -> Optional[List[Any]]:
    """The files among them; `None` if others are there that may have something to do when they go."""
    kinds = {kind: _kind(kind) for kind in set(map(type, objects))}
    if "last words" in kinds.values():
        return None
    matter = {kind for kind, what in kinds.items() if what}
    files = []
    for one in compress(objects, map(matter.__contains__, map(type, objects))):
        what = kinds[type(one)]
        if what == "suspended" and not _is_installed(one) or what == "own file" and not one.closed:
            return None
        if what == "class" and _has_hidden_objects(one) and isinstance(getattr(one, "__del__", None), FunctionType):
            return None
        if what == "file" and not one.closed:
            files.append(one)
    return files


def _kind(kind: type) -> str:
    """What the end of its objects means; empty: nothing."""
    if kind in FILES:
        return "file"
    if kind in (GeneratorType, CoroutineType, AsyncGeneratorType):
        return "suspended"
    if issubclass(kind, type):
        return "class"
    last_words = getattr(kind, "__del__", None)
    if issubclass(kind, _io._IOBase) and last_words is getattr(_io._IOBase, "__del__", None):
        return "own file"  # Such as those of `gzip`, which have an end to write.
    # A socket is closed when it goes; the kernel does so, too.
    return "" if last_words in (None, getattr(_socket.socket, "__del__", None)) else "last words"


def _has_hidden_objects(kind: type) -> bool:
    """Whether Python does not know where they are, since they can be part of no circle: `__slots__ = ()`."""
    return not kind.__flags__ & 1 << 14


def _is_installed(suspended: Any) -> bool:
    """Whether a generator or its like is a library's, or has nothing left to do."""
    for name in ("gi", "cr", "ag"):
        code = getattr(suspended, name + "_code", None)
        if code is not None:
            parts = code.co_filename.split(os.sep)
            over = getattr(suspended, name + "_frame") is None
            return over or "site-packages" in parts or "dist-packages" in parts
    return False
