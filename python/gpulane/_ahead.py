"""Compiles what an import is going to need, where gpulane keeps what is compiled (`_compiled.py`).

Where nothing is kept yet, the first job and the standbys beside it would all compile the same files in the same order,
and be done no sooner than one of them alone. A standby has time. So when it meets a file that is not compiled, it first
follows the imports that are written at the left edge of files, which are nearly always carried out with the file, and
compiles what nobody has compiled so far: each standby in an order of its own. Nothing is executed. What is missed here
is compiled when it is imported, as ever.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from importlib.machinery import PathFinder, SourceFileLoader
from typing import TYPE_CHECKING, Callable, Dict, Iterator, List, Optional, Set, Tuple

if TYPE_CHECKING:
    from ._compiled import Kept

__all__ = ["Ahead"]

IMPORT = re.compile(
    rb"^(?:from[ \t]+([.\w]+)[ \t]+import[ \t]*(\([^)]*\)|[^\n#]*)|import[ \t]+([^\n#]+))",
    re.MULTILINE,
)
COMMENT = re.compile(rb"#[^\n]*")
NAME = re.compile(rb"\s*(\w+(?:\.\w+)*)(?:\s+as\s+\w+)?\s*")


class Ahead:
    """Compiles ahead until there is something better to do."""

    def __init__(self, later: Dict[str, str], is_enough: Callable[[], bool]) -> None:
        """`later`: what is imported sooner or later by those who import that."""
        self._later, self._is_enough = later, is_enough
        self._seen: Dict[str, Optional[str]] = {}
        self._listed: Dict[str, Set[str]] = {}
        self._is_busy = False

    def begin(self, fullname: str, kept: Kept) -> None:
        """With that module, which is not compiled, and all that comes with it. Never fails."""
        if self._is_busy:
            return
        self._is_busy = True
        try:
            for first in (fullname, self._later.get(fullname)):
                # By chance, so that nobody has to be told what others do.
                for name, path in sorted(self._follow(first, kept), key=lambda _: os.urandom(8)):
                    if self._is_over(kept):
                        return
                    _compile(name, path, kept)
        except Exception:
            pass  # Without help, then.
        finally:
            if self._is_over(kept):
                self._seen, self._listed = {}, {}
            self._is_busy = False

    def _is_over(self, kept: Kept) -> bool:
        """Whether a job has come, nothing can be kept, or there are other threads: filters of warnings, which are
        changed here, are everybody's."""
        return not kept.can_write or len(sys._current_frames()) > 1 or self._is_enough()

    def _follow(self, first: Optional[str], kept: Kept) -> Iterator[Tuple[str, str]]:
        """The modules that are reached from there, were not before and are ours to compile, with their files."""
        queue = [first] if first else []
        while queue and not self._is_over(kept):
            name = queue.pop()
            above = name.rpartition(".")[0]
            if above and above not in self._seen:
                queue += [name, above]
                continue
            if name in self._seen:
                continue
            path = self._seen[name] = self._find(name, self._seen.get(above))
            if path is None or (name in sys.modules and name != first):
                continue
            page = kept.page(SourceFileLoader(name, path), name)
            if page is not None:
                yield name, path
                queue += imports(page.source, name if _is_package(path) else above)

    def _find(self, name: str, above: Optional[str]) -> Optional[str]:
        """The module's file. Nothing is imported for it: Python's own search would import the package."""
        if "." not in name:
            try:
                spec = PathFinder.find_spec(name)
            except Exception:
                return None
            return spec.origin if spec is not None and type(spec.loader) is SourceFileLoader else None
        if above is None or not _is_package(above):
            return None
        folder, last = os.path.dirname(above), name.rpartition(".")[2]
        if last in self._list(folder) and "__init__.py" in self._list(f"{folder}/{last}"):
            path = f"{folder}/{last}/__init__.py"
        elif f"{last}.py" in self._list(folder):
            path = f"{folder}/{last}.py"
        else:
            return None
        return path if os.path.isfile(path) else None

    def _list(self, folder: str) -> Set[str]:
        """What is in there. Most names are no modules, and on a file server each would be a question of its own."""
        if folder not in self._listed:
            try:
                self._listed[folder] = set(os.listdir(folder))
            except OSError:
                self._listed[folder] = set()
        return self._listed[folder]


def imports(source: bytes, package: str) -> List[str]:
    """What a file of that package imports when it is imported itself. A name from a module may be a module, or not."""
    found = []
    for line in IMPORT.finditer(source):
        module, names, modules = line.groups()
        if module is None:
            found += _names(modules)
            continue
        stem = module.lstrip(b".").decode()
        level = len(module) - len(stem)
        if level:
            parts = package.split(".")
            parts = parts[: max(0, len(parts) - level + 1)]
            stem = ".".join(parts + [stem]) if parts and stem else ".".join(parts)
        if not stem:
            continue
        found.append(stem)
        found += [f"{stem}.{name}" for name in _names(names.strip(b"()\r"))]
    return found


def _names(text: bytes) -> List[str]:
    parts = [NAME.fullmatch(part) for part in COMMENT.sub(b"", text).split(b",")]
    return [part.group(1).decode() for part in parts if part is not None]


def _is_package(path: str) -> bool:
    return os.path.basename(path) == "__init__.py"


def _compile(name: str, path: str, kept: Kept) -> None:
    loader = SourceFileLoader(name, path)
    page = kept.page(loader, name)
    if page is None or page.is_there():
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # What somebody is to be warned of is left to the import.
            code = loader.source_to_code(page.source, page.path)
    except Exception:
        return  # Whoever imports it will see why.
    kept.can_write = page.write(code)
