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
from importlib.util import cache_from_source, source_hash
from types import CodeType
from typing import Optional

__all__ = ["keep"]

DAY = 24 * 3600
FORGOTTEN = 30 * DAY
"""What a Python that nobody has used for so long had kept is removed."""

HASH, SUM = 8, 4
"""Bytes: of the source, and of what was compiled of it, which follows."""


def keep() -> None:
    """From now on all that is imported is looked for there, too, unless `PYTHONPYCACHEPREFIX` names a place already."""
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
        if code is None:
            code = compiled(self, fullname)
            kept.can_write = kept.can_write and code is not None and page.write(code)
        return code

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
            if not all(part.isidentifier() for part in fullname.split(".")):
                return None
            return Page(f"{self._folder}/{fullname}", path, source_hash(loader.get_data(path)))
        except (OSError, ValueError, ImportError, NotImplementedError):
            return None

    def _is_installed(self, path: str) -> bool:
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
        self._place, self._path, self._source = place, path, source

    def read(self) -> Optional[CodeType]:
        try:
            with open(self._place, "rb") as file:
                content = memoryview(file.read())
            written = content[HASH + SUM :]
            if content[: HASH + SUM] != self._source + _sum(written):
                return None
            code = marshal.loads(written)
        except (OSError, ValueError, EOFError, TypeError):
            return None
        return code if isinstance(code, CodeType) and code.co_filename == self._path else None

    def write(self, code: CodeType) -> bool:
        """Whether it could. Others may write the same at the same time: what is torn is known by its sum."""
        aside = self._place + ".new"
        try:
            written = marshal.dumps(code)
            with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(self._source + _sum(written) + written)
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
    if os.path.exists(cache_from_source(path)):
        return True
    return not sys.dont_write_bytecode and os.access(os.path.dirname(path), os.W_OK)


def _folder() -> Optional[str]:
    """Of this Python, made if need be; `None` if nobody knows where, or others could put something there."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(cache):
        cache = os.path.join(os.environ.get("HOME", ""), ".cache")
    if not os.path.isabs(cache):
        return None
    os.makedirs(cache, 0o700, exist_ok=True)
    if os.stat(cache).st_uid != os.geteuid():
        return None  # Such as with `sudo`: root runs no code that a user has written.
    name = source_hash(repr((sys.prefix, sys.version, sys.flags.optimize)).encode()).hex()
    folder = cache
    for part in ("gpulane", "compiled", name):
        above, folder = folder, os.path.join(folder, part)
        is_new = _is_made(folder)
        found = os.lstat(folder)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            return None
    if is_new:
        _forget(above)
    elif time.time() - found.st_mtime > DAY:
        os.utime(folder)
    return folder


def _is_made(folder: str) -> bool:
    """Whether it was not there before."""
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        return False
    return True


def _forget(folder: str) -> None:
    for one in os.scandir(folder):
        if time.time() - one.stat(follow_symlinks=False).st_mtime > FORGOTTEN:
            shutil.rmtree(one.path, ignore_errors=True)
