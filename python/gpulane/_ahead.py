"""Compiles what an import is going to need.

Where nothing is compiled yet, the first job and the standbys beside it would all compile the same files in the same
order, and be done no sooner than one of them alone. A standby has time. So when it meets a file that is not compiled,
it follows the imports that are written at the left edge of files, since these are carried out whenever the file is, and
compiles whatever nobody has compiled so far: each standby in an order of its own. Nothing is executed. What is missed
here is compiled when it is imported, as ever.
"""

from __future__ import annotations

import os
import re
import warnings
from importlib.machinery import PathFinder, SourceFileLoader
from typing import Callable, Dict, Iterator, List, Optional, Set, Tuple

__all__ = ["Ahead"]

IMPORT = re.compile(
    rb"^(?:from[ \t]+([.\w]+)[ \t]+import[ \t]*(\([^)]*\)|[^\n#]*)|import[ \t]+([^\n#]+))",
    re.MULTILINE,
)
COMMENT = re.compile(rb"#[^\n]*")
NAME = re.compile(rb"(\w+(?:\.\w+)*)(?:\s+as\s+\w+)?\s*(?:[,;)]|$)")


class Ahead:
    """Compiles ahead until there is something better to do."""

    def __init__(self, later: Dict[str, str], is_enough: Callable[[], bool]) -> None:
        """`later`: what else is imported sooner or later by those who import that."""
        self._later, self._is_enough = later, is_enough
        self._seen: Dict[str, Optional[str]] = {}
        self._listed: Dict[str, Set[str]] = {}
        self._is_busy = False

    def compile(self, fullname: str, is_compiled: Callable[[str, str], bool]) -> None:
        """That module, and all that comes with it."""
        if self._is_busy or self._is_enough():
            return  # It is one of ours that is being compiled, or a job is at work.
        self._is_busy = True
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Of code that may never be run.
                for name, path in sorted(self._follow(fullname), key=lambda _: os.urandom(8)):
                    if self._is_enough():
                        break
                    if not is_compiled(name, path):
                        _compile(name, path)
        finally:
            self._is_busy = False

    def _follow(self, fullname: str) -> Iterator[Tuple[str, str]]:
        """All modules that are reached from there and were not before, with their files."""
        queue = [fullname]
        while queue and not self._is_enough():
            name = queue.pop()
            above = name.rpartition(".")[0]
            if above and above not in self._seen:
                queue += [name, above]
                continue
            if name in self._seen:
                continue
            path = self._seen[name] = self._find(name, self._seen.get(above))
            if path is not None:
                yield name, path
                queue += imports(_read(path), name if _is_package(path) else above)
                queue += [self._later[name]] if name in self._later else []

    def _find(self, name: str, above: Optional[str]) -> Optional[str]:
        """The module's file. Nothing is imported for it: Python's own search would import the package."""
        if "." not in name:
            spec = PathFinder.find_spec(name)
            return spec.origin if spec is not None and isinstance(spec.loader, SourceFileLoader) else None
        if above is None or not _is_package(above):
            return None
        folder, last = os.path.dirname(above), name.rpartition(".")[2]
        if last in self._list(folder) and "__init__.py" in self._list(f"{folder}/{last}"):
            return f"{folder}/{last}/__init__.py"
        return f"{folder}/{last}.py" if f"{last}.py" in self._list(folder) else None

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
        found += [f"{stem}.{name}" for name in _names(names.lstrip(b"("))]
    return found


def _names(text: bytes) -> List[str]:
    return [name.decode() for name in NAME.findall(COMMENT.sub(b"", text))]


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _is_package(path: str) -> bool:
    return os.path.basename(path) == "__init__.py"


def _compile(name: str, path: str) -> None:
    """As its import would, which also keeps it."""
    try:
        SourceFileLoader(name, path).get_code(name)
    except Exception:
        pass  # Whoever imports it will see why.
