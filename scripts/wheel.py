#!/usr/bin/env python3
"""Builds the wheel, the program and the Python package in one, and tries it in fresh environments.

    scripts/wheel.py [--compiler zig|system] [--python PYTHON...] [--skip-build]

By default zig links it against an old glibc (manylinux2014); where zig cannot, the machine's own compiler does, the
wheel is then for systems at least as new as this one, and that is said. Tried with two versions of Python where two
are found: what is in it, the program, the import, the demo and a map. Exits with 1 if something does not hold.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Iterator

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / "target" / "venv-wheel" / "bin"
OUT = ROOT / "target" / "wheels"
OLDEST = (3, 8)

MODEL = '''"""Counts words; needs nothing but Python."""


def count(texts):
    return [len(text.split()) for text in texts]


count.decode = "text"
'''

IMPORTED = """
import sys, gpulane
assert gpulane.__file__.startswith(sys.prefix), gpulane.__file__
assert gpulane.config(lr=1) == {"lr": 1}
for name in gpulane.__all__:
    getattr(gpulane, name)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compiler", choices=("zig", "system"), help="default: zig, or else the system's")
    parser.add_argument("--python", action="append", help="try it with this Python; by default with two that are found")
    parser.add_argument("--skip-build", action="store_true", help="try the wheel that is there")
    options = parser.parse_args()
    if not options.skip_build and not build(options.compiler):
        return 1
    wheels = sorted(OUT.glob("gpulane-*.whl"))
    if len(wheels) != 1:
        say(f"there should be one wheel in {OUT}, not {len(wheels)}")
        return 1
    failures = list(contents(wheels[0]))
    for python in options.python or pythons():
        failures += [f"{python}: {each}" for each in tried(wheels[0], python)]
    for failure in failures:
        say(f"FAILED: {failure}")
    size = wheels[0].stat().st_size / 1e6
    say(f"{wheels[0].relative_to(ROOT)}, {size:.1f} MB: " + ("does not hold" if failures else "holds"))
    return 1 if failures else 0


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# Building -----------------------------------------------------------------------------------------------------


def build(compiler: str | None) -> bool:
    """One wheel in `target/wheels`, by the first compiler that can."""
    for each in [compiler] if compiler else ["zig", "system"]:
        shutil.rmtree(OUT, ignore_errors=True)
        how = ["--zig", "--compatibility", "manylinux2014"] if each == "zig" else ["--compatibility", "linux"]
        argv = [str(TOOLS / "maturin"), "build", "--release", "--locked", "--out", str(OUT), *how]
        # maturin looks for zig and its own helpers on the path.
        environment = {**os.environ, "PATH": f"{TOOLS}{os.pathsep}{os.environ['PATH']}"}
        if subprocess.run(argv, cwd=ROOT, env=environment).returncode == 0:
            if each == "system":
                say("built by this machine's compiler: for systems with at least its glibc")
            return True
        say(f"the wheel could not be built with {'zig' if each == 'zig' else 'this machine’s compiler'}")
    return False


# What is in it ------------------------------------------------------------------------------------------------


def contents(wheel: Path) -> Iterator[str]:
    """The whole package, the program, both licences; no tests, no caches."""
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
        program = [name for name in names if re.fullmatch(r"gpulane-[^/]+\.data/scripts/gpulane", name)]
        metadata = next((opened.read(name).decode() for name in names if name.endswith(".dist-info/METADATA")), "")
    if len(program) != 1:
        yield "the program is not in it"
    package = ROOT / "python"
    files = [path for path in package.glob("gpulane/**/*") if path.suffix == ".py" or path.name == "py.typed"]
    wanted = {str(path.relative_to(package)) for path in files}
    for name in sorted(wanted - names):
        yield f"{name} is not in it"
    for name in sorted(names):
        if "tests" in Path(name).parts or name.endswith(".pyc"):
            yield f"{name} does not belong in it"
    for line in ("Name: gpulane", "License-Expression: MIT OR Apache-2.0", "Requires-Python: >=3.8"):
        if line not in metadata.splitlines():
            yield f"its metadata lacks `{line}`"
    if not {Path(name).name for name in names} >= {"LICENSE-MIT", "LICENSE-APACHE"}:
        yield "a licence is not in it"


# Trying it ----------------------------------------------------------------------------------------------------


def pythons() -> list[str]:
    """Two Pythons: the oldest and the newest that are found and that the package supports."""
    folders = [Path(each) for each in os.environ.get("PATH", "").split(os.pathsep) if each]
    folders += sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions").glob("*/bin"))
    found: dict[tuple[int, int], str] = {}
    for folder in folders:
        for path in sorted(folder.glob("python3.*")):
            named = re.fullmatch(r"python3\.(\d+)", path.name)
            if named and (3, int(named[1])) >= OLDEST and (3, int(named[1])) not in found and works(path):
                found[3, int(named[1])] = str(path)
    chosen = {min(found), max(found)} if found else set()
    return [found[version] for version in sorted(chosen)] or [sys.executable]


def works(python: Path) -> bool:
    """Whether it can make environments: launchers of version managers and bare system Pythons cannot."""
    done = subprocess.run([python, "-c", "import venv, ensurepip"], capture_output=True)
    return done.returncode == 0


def tried(wheel: Path, python: str) -> Iterator[str]:
    """Installs it into a fresh environment and uses it there. Yields what does not hold."""
    with tempfile.TemporaryDirectory(prefix="gpulane-wheel-") as name:
        folder, fresh = Path(name), Path(name) / "venv"
        program = str(fresh / "bin" / "gpulane")
        (folder / "words.py").write_text(MODEL)
        (folder / "a.txt").write_text("three words here")
        steps = {
            "a fresh environment": [python, "-m", "venv", str(fresh)],
            "pip install": [str(fresh / "bin" / "pip"), "install", "--quiet", "--no-index", str(wheel)],
            "gpulane --version": [program, "--version"],
            "import gpulane": [str(fresh / "bin" / "python"), "-c", IMPORTED],
            "gpulane demo": [program, "demo"],
            "gpulane map": [program, "map", "words.py:count", "a.txt", *"--gpus none --format jsonl --out out".split()],
        }
        say(f"trying it with {python}")
        # As after `activate`, and with nothing of ours to be found by accident.
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "GPULANE"))}
        kept["PATH"] = f"{fresh / 'bin'}{os.pathsep}{kept['PATH']}"
        for step, argv in steps.items():
            done = subprocess.run(argv, cwd=folder, env=kept, capture_output=True, text=True)
            if done.returncode != 0:
                yield f"{step}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
                return
        rows = "".join(path.read_text() for path in sorted((folder / "out").glob("part-*.jsonl")))
        if not re.search(r'"result":\s*3\b', rows):
            yield f"gpulane map wrote {rows!r}"


if __name__ == "__main__":
    sys.exit(main())
