"""`./x torture planted`: plants each bug in a copy of the source, builds it, and lets the torture look for it.

Prints a table: bug, found after how long, by which invariant. Fails if one is not found, or if the source without a
bug does not pass, since then nothing found means anything.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from .bugs import BUGS, Bug

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(prog="./x torture planted", description=__doc__)
    parser.add_argument("names", nargs="*", help="only bugs whose name contains one of these")
    parser.add_argument("--minutes", type=float, default=30.0, help="the most for each bug (default 30)")
    parser.add_argument("--baseline", type=float, default=3.0, help="minutes without a bug first (default 3; 0: none)")
    parser.add_argument("--seed", type=int, default=None, help="the torture's seed")
    parser.add_argument("--without", default="", help="as in the torture itself")
    parser.add_argument("--beside", type=int, default=3, help="rounds at a time (default 3)")
    options = parser.parse_args()
    bugs = [bug for bug in BUGS if not options.names or any(name in bug.name for name in options.names)]
    work = ROOT / "target-planted"
    source = work / "source"
    for bug in bugs:
        # All that is gone is said before hours are spent.
        copy_source(source)
        bug.plant(source)
    rows, well = [], True
    if options.baseline:
        copy_source(source)
        found = look(build(source, work), options, options.baseline)
        print(f"without a bug: {found or 'nothing found'}", flush=True)
        well = found is None
    for bug in bugs:
        found = try_bug(bug, source, work, options)
        well &= found is not None
        rows.append((bug.name, found or f"NOT FOUND in {options.minutes:g} min"))
        print(f"{rows[-1][0]}: {rows[-1][1]}", flush=True)
    width = max((len(name) for name, _ in rows), default=0)
    print("\n" + "\n".join(f"{name:{width}}  {found}" for name, found in rows))
    missed = sum("NOT FOUND" in found for _, found in rows)
    print(f"{len(rows) - missed} found, {missed} not")
    return 0 if well else 1


def try_bug(bug: Bug, source: Path, work: Path, options: argparse.Namespace) -> str | None:
    """Plants, builds and looks; how it was found."""
    copy_source(source)
    bug.plant(source)
    return look(build(source, work), options, options.minutes)


def copy_source(to: Path) -> None:
    """The source without what was built; files that did not change keep their times, so that little is built anew."""
    built = shutil.ignore_patterns(".git", "target", "target-*", "runs", "out", "__pycache__", ".venv*")
    shutil.copytree(ROOT, to, ignore=built, copy_function=copy_changed, dirs_exist_ok=True)


def copy_changed(old: str, new: str) -> None:
    """Copies a file unless its copy is the same."""
    if not os.path.exists(new) or Path(old).read_bytes() != Path(new).read_bytes():
        shutil.copyfile(old, new)


def build(source: Path, work: Path) -> Path:
    """The binary of that source."""
    environment = os.environ | {"CARGO_TARGET_DIR": str(work / "target")}
    words = ["cargo", "build", "--quiet", "--locked", "-p", "gpulane", "-p", "gpulane-fake-nvml"]
    subprocess.run(words, cwd=source, env=environment, check=True)
    return work / "target" / "debug" / "gpulane"


def look(binary: Path, options: argparse.Namespace, minutes: float) -> str | None:
    """Runs the torture until it finds something: after how long, and by which invariant."""
    words = [sys.executable, "-m", "torture", str(minutes), "--binary", str(binary), "--until-violation"]
    words += ["--beside", str(options.beside), "--without", options.without]
    words += ["--seed", str(options.seed)] if options.seed is not None else []
    began = time.monotonic()
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT / "tests")})
    first = re.search(r"VIOLATION in round (\d+) after (\d+) s", done.stdout)
    if first is None:
        if done.returncode:
            print(done.stdout[-2000:], done.stderr[-2000:])
        return None
    kept = re.search(r"kept: +(\S+)", done.stdout)
    if kept:
        shutil.rmtree(Path(kept[1]).parent, ignore_errors=True)
    # All of it, so that a person can see whether it is the bug that was found.
    print("\n".join(line[:400] for line in done.stdout[first.start() :].split("\nfaults injected")[0].splitlines()))
    what = re.search(r"^  \* ([^:]+)", done.stdout, re.MULTILINE)
    return f"after {first[2]} s (round {first[1]}, {time.monotonic() - began:.0f} s in all): {what[1] if what else '?'}"


if __name__ == "__main__":
    sys.exit(main())
