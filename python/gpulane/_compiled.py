"""Keeps what Python compiles of installed libraries, where Python itself keeps it nowhere.

Many images set `PYTHONDONTWRITEBYTECODE`, or their packages came without compiled files and lie where the user may not
write. There each process compiles all that it imports: 8 s for torch instead of 2.5. So entries and workers keep it in
`$XDG_CACHE_HOME/gpulane/compiled`, which is the user's alone. Whatever fails here, Python compiles as ever. The user's
own files are left to Python.
"""

from __future__ import annotations

import marshal
import os
import shutil
import stat
import sys
import time
import zlib
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash
from types import CodeType
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from ._ahead import Ahead

__all__ = ["keep"]

LONGEST_NAME = 200
DAY = 24 * 3600
FORGOTTEN = 30 * DAY
"""What a Python that nobody has used for so long had kept is removed."""

HASH, SUM = 8, 4
"""Bytes: of the source, and of what was compiled of it, which follows."""


def keep(ahead: Optional[Ahead] = None) -> None:
    """From now on all that is imported is looked for there, too, unless `PYTHONPYCACHEPREFIX` names a place already.
    Whoever compiles `ahead` begins where something is missing."""
    if sys.pycache_prefix is not None or sys.implementation.name != "cpython":
        return
    if "get_code" in vars(SourceFileLoader):
        return  # It is done already, or somebody else has other ideas.
    compiled = SourceFileLoader.get_code
    kept = Kept()

    def get_code(self: SourceFileLoader, fullname: str) -> Optional[CodeType]:
        # Those made of it, such as loaders that add checks of types, compile something else.
        page = kept.page(self, fullname) if type(self) is SourceFileLoader else None
        if page is None:
            return compiled(self, fullname)
        code = page.read()
        if code is None and ahead is not None:
            ahead.begin(fullname, kept)
            code = page.read()
        if code is None:
            # What was read, not what the file may be by now.
            code = self.source_to_code(page.source, page.path)
            kept.can_write = kept.can_write and page.write(code)
        return code

    # A trace of an import has none of the loader's own lines; so has ours.
    get_code.__code__ = get_code.__code__.replace(co_filename=compiled.__code__.co_filename)
    SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]


class Kept:
    """Where it is kept for this Python."""

    def __init__(self) -> None:
        self.can_write = True
        self._installed = os.path.dirname(os.path.realpath(os.__file__)) + os.sep
        self._folder: Optional[str] = None
        self._unusable = False

    def page(self, loader: SourceFileLoader, fullname: str) -> Optional[Page]:
        """Where the module's code is, or could be; `None` if that is Python's own affair."""
        try:
            path = loader.get_filename(fullname)
            if not self._is_installed(path) or _is_kept_by_python(path) or not self._is_there():
                return None
            if len(fullname) > LONGEST_NAME or not all(part.isidentifier() for part in fullname.split(".")):
                return None
            return Page(f"{self._folder}/{fullname}", path, loader.get_data(path))
        except (OSError, ValueError, ImportError, NotImplementedError):
            return None

    def _is_installed(self, path: object) -> bool:
        if not isinstance(path, str):
            return False  # Somebody's own loader may have been given a `Path`.
        return path.startswith(self._installed) or "/site-packages/" in path or "/dist-packages/" in path

    def _is_there(self) -> bool:
        """Asked only once there is need for it: nobody else gets a folder."""
        if self._folder is None and not self._unusable:
            try:
                self._folder = _folder()
            except OSError:
                pass
            self._unusable = self._folder is None
        return self._folder is not None


class Page:
    """What was compiled of one file: found again by the content of that file, since images may give all files of all
    versions the same time."""

    def __init__(self, place: str, path: str, source: bytes) -> None:
        self.path, self.source = path, source
        self._place, self._hash = place, source_hash(source)

    def read(self) -> Optional[CodeType]:
        try:
            with open(self._place, "rb") as file:
                content = memoryview(file.read())
            written = content[HASH + SUM :]
            if content[: HASH + SUM] != self._hash + _sum(written):
                return None
            code = marshal.loads(written)
        except (OSError, ValueError, EOFError, TypeError):
            return None
        return code if isinstance(code, CodeType) and code.co_filename == self.path else None

    def is_there(self) -> bool:
        """At first sight."""
        try:
            with open(self._place, "rb") as file:
                return file.read(HASH) == self._hash
        except OSError:
            return False

    def write(self, code: CodeType) -> bool:
        """Whether it could. Others may write the same at the same time: what is torn is known by its sum."""
        aside = self._place + "-new"
        try:
            written = marshal.dumps(code)
            with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(self._hash + _sum(written) + written)
            os.replace(aside, self._place)
        except FileNotFoundError:
            return True  # Another one was as quick.
        except (OSError, ValueError):
            try:
                os.unlink(aside)
            except OSError:
                pass
            return False
        return True


def _sum(content: bytes | memoryview) -> bytes:
    return zlib.crc32(content).to_bytes(SUM, "little")


def _is_kept_by_python(path: str) -> bool:
    """Whether it can write a compiled file, or there is one and it is not of another time."""
    if not sys.dont_write_bytecode and os.access(os.path.dirname(path), os.W_OK):
        return True
    try:
        with open(cache_from_source(path), "rb") as file:
            head = file.read(16)
    except OSError:
        return False
    if head[4:8] != b"\0\0\0\0":
        return True  # Known by its content.
    source = os.stat(path)
    times = (int(source.st_mtime) & 0xFFFFFFFF, source.st_size & 0xFFFFFFFF)
    return head == MAGIC_NUMBER + bytes(4) + b"".join(part.to_bytes(4, "little") for part in times)


def _folder() -> Optional[str]:
    """Of this Python, made if need be; `None` if nobody knows where, or others could put something there."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(cache):
        cache = os.path.join(os.environ.get("HOME", ""), ".cache")
    if not os.path.isabs(cache) or not _is_ours(os.path.dirname(cache)):
        return None
    options = (sys.flags.optimize, "no_debug_ranges" in sys._xoptions, os.environ.get("PYTHONNODEBUGRANGES"))
    name = source_hash(repr((sys.prefix, sys.version, options)).encode()).hex()
    _make(cache)
    folder = os.path.realpath(cache)
    for part in ("gpulane", "compiled", name):
        above, folder = folder, os.path.join(folder, part)
        _make(folder)
    found = os.stat(folder)
    if not _is_ours(folder) or os.path.realpath(folder) != folder or found.st_mode & 0o022:
        return None
    if time.time() - found.st_mtime > DAY:
        os.utime(folder)
        _forget(above)
    return folder


def _make(folder: str) -> None:
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass


def _is_ours(folder: str) -> bool:
    """Whether nobody but this user and root can put another one in its place: where others may write, nobody may rename
    what is not his (`/tmp`)."""
    folder = os.path.realpath(folder)
    while True:
        found = os.stat(folder)
        is_safe = not found.st_mode & 0o022 or found.st_mode & stat.S_ISVTX
        if found.st_uid not in (0, os.geteuid()) or not is_safe:
            return False
        if folder == os.path.dirname(folder):
            return True
        folder = os.path.dirname(folder)


def _forget(compiled: str) -> None:
    for one in os.scandir(compiled):
        try:
            if time.time() - one.stat(follow_symlinks=False).st_mtime > FORGOTTEN:
                shutil.rmtree(one.path)
        except OSError:
            pass  # Somebody else was as quick.
