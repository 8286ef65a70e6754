"""The end of a process whose work is done: short, with nothing lost by it.

With torch, Python takes its modules apart for a second, in which the GPU is held and idle. The kernel frees all of it
anyway. But some objects do more at their end than to free memory. Whoever may be one of them means that Python ends by
itself: those written in Python say so; code in C does not, so only libraries that we know are trusted.
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
import time
import traceback
from itertools import compress
from types import AsyncGeneratorType, CoroutineType, FunctionType, GeneratorType
from typing import Any, List, Optional

try:
    import ctypes
except ImportError:  # Python was built without.
    ctypes = None  # type: ignore[assignment]

__all__ = ["can_be_short", "end", "flush_files"]

WRITE_AT_THE_END = ("LD_PRELOAD", "CUDA_INJECTION64_PATH")
"""Profilers and their like come into a process by these."""

LIBRARIES = frozenset(
    "PIL aiohttp charset_normalizer contourpy cuda cupy cupy_backends cupyx fastrlock frozenlist jax jaxlib kiwisolver "
    "llvmlite markupsafe matplotlib ml_dtypes multidict numba numpy nvidia orjson pandas pillow propcache psutil "
    "pydantic_core regex safetensors scikit_image scikit_learn scipy sentencepiece skimage sklearn tokenizers torch "
    "torchvision triton wrapt xxhash yaml yarl".split()
)
"""By the names of their folders, and of those with what they bring along: what is written in C there frees memory and
does nothing else."""

SYSTEM = re.compile(r"/(usr/)?lib(32|64)?/|/usr/local/(cuda|nvidia)|.*/lib(python|cuda|nv)[^/]*$|/memfd:|\[|//anon")
"""The code of the system, of the driver and of Python itself, wherever they lie, and what is made while it runs."""

DATABASES = ("_dbm", "_gdbm", "_sqlite3")
"""Of Python's own, all but these."""

TRACKERS = ("multiprocessing.resource_tracker", "joblib.externals.loky.backend.resource_tracker")
"""Modules whose `ResourceTracker` ends the process that it has started, if it has started one."""

ONLY_FREES = frozenset(["cupy.cuda.stream.Stream"])
"""Classes of these libraries whose `__del__` gives memory of the GPU back."""

BUFFERS = (_io.BufferedWriter, _io.BufferedRandom, _io.BufferedRWPair)
FILES = (*BUFFERS, _io.BufferedReader, _io.BytesIO, _io.FileIO, _io.StringIO, _io.TextIOWrapper)

FLUSH_S = 3.0
"""So long C may take to write what it has: a thread of its own that waits for input would keep it from that. Python's
files get as long where other threads run, which may hold one while they wait."""

FLUSHERS = 4
"""Threads that flush files: one that cannot be written to keeps one of them."""


def can_be_short() -> bool:
    """Whether this Python is one of which we know how it ends."""
    return sys.implementation.name == "cpython" and ctypes is not None


def end(code: int = 0) -> None:
    """Ends the process without taking all modules apart. Before that threads are waited for, exit handlers run, and
    files are written. Returns, and leaves it to Python, if anything else may have a say; files are written even then,
    since Python forgets those that a daemon thread holds."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]
    except BaseException:
        traceback.print_exc()
        return None
    with contextlib.suppress(BaseException):  # Each was shown already.
        atexit._run_exitfuncs()
    watched = any(name in os.environ for name in WRITE_AT_THE_END)
    if watched or threading.active_count() > 1 or _has_foreign_code():
        return flush_files(FLUSH_S)
    gc.collect()
    gc.unfreeze()
    files = _open_files(gc.get_objects())
    if files is None:
        return flush_files(FLUSH_S)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except Exception:
        return None  # Python has its own way to say so.
    for file in files:
        with contextlib.suppress(Exception):  # As Python does with a file that nobody has closed.
            file.flush()
    flushing = threading.Thread(target=_flush_what_c_has, daemon=True)
    flushing.start()
    flushing.join(FLUSH_S)
    os._exit(code)


def flush_files(seconds: float) -> None:
    """Flushes every open file that Python knows of, wherever it is kept, beside other threads that may be using them:
    as many as can be written to in this time."""
    gc.unfreeze()
    objects = gc.get_objects()
    todo = iter(_to_flush([one for one in objects if type(one) in FILES and _is_open(one) and _is_plain(one)]))
    del objects

    def flush() -> None:
        for file in todo:
            with contextlib.suppress(Exception):
                file.flush()

    flushers = [threading.Thread(target=flush, daemon=True) for _ in range(FLUSHERS)]
    until = time.monotonic() + seconds
    for one in flushers:
        one.start()
    for one in flushers:
        one.join(max(0.0, until - time.monotonic()))


def _to_flush(files: List[Any]) -> List[Any]:
    """Those with a buffer, in this order: text goes through buffers."""
    texts = [file for file in files if type(file) is _io.TextIOWrapper]
    return texts + [file for file in files if type(file) in BUFFERS]


def _is_open(file: Any) -> bool:
    try:
        return not file.closed
    except Exception:
        return False  # One that was detached from what it wrote to.


def _flush_what_c_has() -> None:
    library = ctypes.CDLL(None)
    with contextlib.suppress(ValueError):  # It has another name elsewhere.
        library.fflush(ctypes.c_void_p.in_dll(library, "stdout"))
    library.fflush(None)


def _has_foreign_code() -> bool:
    """Whether code that is not Python is loaded which may do more at the end than to free memory."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return True
    if any(name in sys.modules for name in DATABASES):
        return True
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        lines = [line.rstrip("\n").split(None, 5) for line in file]
    loaded = {line[5] for line in lines if "x" in line[1] and len(line) == 6}
    own = os.path.realpath(os.path.dirname(os.__file__)) + os.sep
    shared = [os.path.join(os.path.realpath(prefix), "lib") for prefix in (sys.prefix, sys.base_prefix)]
    loaded.discard(os.path.realpath(sys.executable))
    return not all(_is_trusted(path, own, shared) for path in loaded)


def _is_trusted(path: str, own: str, shared: List[str]) -> bool:
    """Whether the code in this file does nothing at the end. `own`: the folder of Python's modules; `shared`: those of
    what it needs."""
    library = _library(path)
    if library is not None:
        return library in LIBRARIES or library.endswith("__mypyc")
    is_pythons = path.startswith(own) or "/lib-dynload/" in path or os.path.dirname(path) in shared
    return is_pythons or SYSTEM.match(path) is not None


def _library(path: str) -> Optional[str]:
    """The name of the library a file belongs to; `None`: it is no library's."""
    _, found, inside = path.replace("/dist-packages/", "/site-packages/").rpartition("/site-packages/")
    return re.split(r"[./]", inside)[0] if found else None


def _open_files(objects: List[Any]) -> Optional[List[Any]]:
    """The files among them that have a buffer, in the order in which to flush them; `None` if others are there that may
    have something to do when they go."""
    kinds = {kind: _kind(kind) for kind in set(map(type, objects))}
    if "last words" in kinds.values():
        return None
    matter = {kind for kind, what in kinds.items() if what}
    files = []
    for one in compress(objects, map(matter.__contains__, map(type, objects))):
        what = kinds[type(one)]
        if what == "suspended" and not _is_known(one) or what == "own file" and not one.closed:
            return None
        if what == "tracker" and getattr(one, "_pid", 0) is not None:
            return None
        if what == "class" and _has_hidden_objects(one) and isinstance(getattr(one, "__del__", None), FunctionType):
            return None
        if what == "file" and not one.closed:
            if not _is_plain(one):
                return None
            files.append(one)
    return _to_flush(files)


def _is_plain(file: Any) -> bool:
    """Whether what it writes to is not of somebody's own making."""
    below = getattr(file, "buffer", None) if type(file) is _io.TextIOWrapper else getattr(file, "raw", None)
    return below is None or type(below) in FILES


def _kind(kind: type) -> str:
    """What the end of its objects means; empty: nothing."""
    if kind in FILES:
        return "file"
    if kind in (GeneratorType, CoroutineType, AsyncGeneratorType):
        return "suspended"
    last_words = getattr(kind, "__del__", None)
    if issubclass(kind, type) and last_words is None:
        return "class"
    if issubclass(kind, _io._IOBase) and last_words is getattr(_io._IOBase, "__del__", None):
        return "own file"  # Such as those of `gzip`, which have an end to write.
    # A socket is closed when it goes; the kernel does so, too.
    if last_words in (None, getattr(_socket.socket, "__del__", None)):
        return ""
    module, name = getattr(kind, "__module__", None), getattr(kind, "__qualname__", None)
    if module in TRACKERS and name == "ResourceTracker":
        return "tracker"
    return "" if f"{module}.{name}" in ONLY_FREES else "last words"


def _has_hidden_objects(kind: type) -> bool:
    """Whether Python does not know where they are, since they can be part of no circle: `__slots__ = ()`."""
    return not kind.__flags__ & 1 << 14


def _is_known(suspended: Any) -> bool:
    """Whether a generator or its like is one of a library we know, or has nothing left to do."""
    for name in ("gi", "cr", "ag"):
        code = getattr(suspended, name + "_code", None)
        if code is not None:
            return getattr(suspended, name + "_frame") is None or _library(code.co_filename) in LIBRARIES
    return False
