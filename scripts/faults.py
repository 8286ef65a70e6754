"""Faults that were found in gpulane and mended: what `tests/regressions.toml` says of them, and whether the tests it
names are there."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import Iterator, NamedTuple

LIST = "tests/regressions.toml"


class Test(NamedTuple):
    """One test, as the list names it."""

    name: str

    @property
    def is_python(self) -> bool:
        return self.name.startswith("python/")

    @property
    def crate(self) -> str:
        """The folder below `crates`."""
        return self.name.partition("/")[0]

    @property
    def file(self) -> str:
        """Of Rust, what `--test` is given."""
        return self.name.partition("/")[2].partition("::")[0]

    @property
    def inside(self) -> str:
        """Its name as the test binary knows it; of Python, MODULE.CLASS.TEST."""
        return self.name.partition("/")[2] if self.is_python else self.name.partition("::")[2]


class Fault(NamedTuple):
    """What was wrong, and what notices it."""

    point: int
    what: str
    tests: list[Test]


def read(text: str) -> tuple[list[Fault], list[str]]:
    """The faults in the list, and what is wrong with it."""
    faults, wrong = [], []
    try:
        blocks = tomllib.loads(text).get("fault", [])
    except tomllib.TOMLDecodeError as error:
        return [], [f"no TOML: {error}"]
    for number, block in enumerate(blocks, 1):
        point, what, tests = block.get("point"), block.get("what"), block.get("tests")
        named = isinstance(tests, list) and tests and all(isinstance(test, str) for test in tests)
        if not isinstance(point, int) or not isinstance(what, str) or not named:
            wrong.append(f"block {number} needs point (a number), what (a text) and tests (a list of texts)")
            continue
        for test in tests:
            if not re.fullmatch(r"python/\w+(\.\w+){1,2}|[\w-]+/\w+::\w+(::\w+)*", test):
                wrong.append(f"`{test}` is neither CRATE/FILE::TEST nor python/MODULE.CLASS.TEST")
        faults.append(Fault(point, what, [Test(test) for test in tests]))
    return sorted(faults, key=lambda fault: fault.point), wrong


def missing(root: Path, faults: list[Fault]) -> Iterator[str]:
    """Tests of the list that are not in the tree."""
    for fault in faults:
        for test in fault.tests:
            if not (_has_python if test.is_python else _has_rust)(root, test):
                yield f"point {fault.point}: there is no test {test.name}"


def _has_rust(root: Path, test: Test) -> bool:
    folder = root / "crates" / test.crate / "tests"
    entries = [folder / f"{test.file}.rs", folder / test.file / "main.rs"]
    files = [entries[0], *sorted((folder / test.file).glob("**/*.rs"))]
    define = re.compile(rf"\bfn\s+{test.inside.rpartition('::')[2]}\s*\(")
    return any(entry.is_file() for entry in entries) and any(
        define.search(file.read_text(encoding="utf-8")) for file in files if file.is_file()
    )


def _has_python(root: Path, test: Test) -> bool:
    module, _, inside = test.inside.partition(".")
    file = root / "python" / "tests" / f"{module}.py"
    if not file.is_file():
        return False
    classes = {
        one.name: one for one in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(one, ast.ClassDef)
    }
    name, _, method = inside.partition(".")
    return name in classes and (not method or _defines(classes, name, method))


def _defines(classes: dict[str, ast.ClassDef], name: str, method: str) -> bool:
    """Whether the class has it, or one of its own module that it comes from."""
    if any(isinstance(one, ast.FunctionDef) and one.name == method for one in classes[name].body):
        return True
    bases = [base.id for base in classes[name].bases if isinstance(base, ast.Name)]
    return any(base in classes and _defines(classes, base, method) for base in bases)
