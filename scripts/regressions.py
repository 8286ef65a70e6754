#!/usr/bin/env python3
"""Which tests of mended faults fail on the program of an older commit, as they should.

Reads `tests/regressions.toml`, builds the program of COMMIT in a worktree of its own, and runs each test of the list
against it, one by one:

- tests of the command line (`cli/…`) are those of this tree, run with the older program by `GPULANE_TEST_BINARY`;
- tests of other crates, and of Python, are copied into the older tree and run there. One that does not compile there,
  or cannot be imported, uses what did not exist yet: it cannot be run there.

Exits with 1 if a fault is noticed by none of its tests there, or, with --current, if a test fails here.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Iterable, NamedTuple, Optional

from faults import LIST, Fault, Test, missing, read

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "target" / "regressions"
"""Where older commits have their worktree, target directory and program, to be used again."""

FAILS, PASSES, CANNOT = "fails", "passes", "cannot run"


class Outcome(NamedTuple):
    """What became of one test."""

    what: str
    why: str = ""


def main() -> int:
    options = parsed(sys.argv[1:])
    faults, wrong = read((ROOT / LIST).read_text(encoding="utf-8"))
    wrong += missing(ROOT, faults)
    if wrong:
        print("\n".join(f"{LIST}: {one}" for one in wrong), file=sys.stderr)
        return 2
    chosen = [fault for fault in faults if not options.point or fault.point in options.point]
    adopt_orphans()
    # Not what was inherited: from a shell's background gpulane would ignore Ctrl-C, which some tests send.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    commit = git("rev-parse", "--verify", f"{options.commit}^{{commit}}").strip()
    tree = KEPT / commit[:12] / "tree"
    try:
        make_tree(tree, commit)
        binary = Path(options.binary).resolve() if options.binary else build(tree, commit)
        there = Older(tree, binary, options.timeout)
        here = Current(options.timeout) if options.current else None
        outcomes = {}
        for test in tests_of(chosen):
            outcomes[test] = (there.outcome(test), here.outcome(test) if here else None)
            tell(test, *outcomes[test])
    finally:
        if not options.keep:
            remove_tree(tree)
    print(table(chosen, outcomes, commit[:7]))
    return verdict(chosen, outcomes)


def parsed(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="which tests of mended faults fail on an older program, as they should"
    )
    parser.add_argument("commit", nargs="?", default="8243d2a", help="the older program (default: %(default)s)")
    parser.add_argument("--binary", metavar="FILE", help="a program that was built of that commit; default: build it")
    parser.add_argument("--current", action="store_true", help="run the tests against this tree, too: they must pass")
    parser.add_argument(
        "--point", type=int, action="append", metavar="N", help="only the faults of this point; may be repeated"
    )
    parser.add_argument(
        "--timeout", type=float, default=300, metavar="S", help="a test that takes longer has failed (default: 300)"
    )
    parser.add_argument("--keep", action="store_true", help=f"leave the older tree below {KEPT.relative_to(ROOT)}")
    return parser.parse_args(words)


def tests_of(faults: Iterable[Fault]) -> list[Test]:
    """Each once, in the order of the list."""
    return list(dict.fromkeys(test for fault in faults for test in fault.tests))


# The older tree -----------------------------------------------------------------------------------------------------


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def make_tree(tree: Path, commit: str) -> None:
    if not (tree / ".git").exists():
        git("worktree", "prune")
        tree.parent.mkdir(parents=True, exist_ok=True)
        git("worktree", "add", "--force", "--detach", str(tree), commit)
    subprocess.run(["git", "checkout", "--quiet", "--force", commit], cwd=tree, check=True)


def remove_tree(tree: Path) -> None:
    subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, capture_output=True)


def build(tree: Path, commit: str) -> Path:
    """The program of that commit; once built it is kept."""
    program = tree.parent / "gpulane"
    if not program.exists():
        say(f"building the program of {commit[:7]}")
        subprocess.run(
            ["cargo", "build", "--locked", "-p", "gpulane"], cwd=tree, env=cargo(tree.parent / "target"), check=True
        )
        shutil.copy2(tree.parent / "target" / "debug" / "gpulane", program)
    return program


def cargo(target: Path) -> dict[str, str]:
    return {**os.environ, "CARGO_TARGET_DIR": str(target)}


class Older:
    """The program of an older commit, and its tree."""

    def __init__(self, tree: Path, binary: Path, timeout: float) -> None:
        self.tree, self.timeout = tree, timeout
        self.environment = {**os.environ, "GPULANE_TEST_BINARY": str(binary), "GPULANE_BINARY": str(binary)}
        self.built: dict[tuple[str, str], Outcome] = {}
        self.copied: set[str] = set()

    def outcome(self, test: Test) -> Outcome:
        if test.is_python:
            self._copy("python/tests")
            return python_test(self.tree, test, self.environment, self.timeout)
        if test.crate == "cli":
            return rust_test(ROOT, test, self._built(ROOT, test), self.environment, self.timeout)
        self._copy("tests")
        self._copy(f"crates/{test.crate}/tests")
        return rust_test(self.tree, test, self._built(self.tree, test), self.environment, self.timeout)

    def _copy(self, folder: str) -> None:
        """Lays what this tree has over the older one."""
        if folder not in self.copied:
            self.copied.add(folder)
            shutil.copytree(
                ROOT / folder, self.tree / folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
            )

    def _built(self, tree: Path, test: Test) -> Outcome:
        target = ROOT / "target" if tree == ROOT else tree.parent / "target"
        key = (test.crate, test.file)
        if key not in self.built:
            self.built[key] = build_test(tree, test, target)
        return self.built[key]


class Current:
    """This tree."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.built: dict[tuple[str, str], Outcome] = {}

    def outcome(self, test: Test) -> Outcome:
        if test.is_python:
            return python_test(ROOT, test, dict(os.environ), self.timeout)
        key = (test.crate, test.file)
        if key not in self.built:
            self.built[key] = build_test(ROOT, test, ROOT / "target")
        return rust_test(ROOT, test, self.built[key], dict(os.environ), self.timeout)


# One test -----------------------------------------------------------------------------------------------------------


def build_test(tree: Path, test: Test, target: Path) -> Outcome:
    """Builds the file of tests; the program's path, or why it cannot be."""
    manifest = tomllib.loads((tree / "crates" / test.crate / "Cargo.toml").read_text(encoding="utf-8"))
    words = [
        "cargo",
        "test",
        "--no-run",
        "--message-format=json",
        "-p",
        manifest["package"]["name"],
        "--test",
        test.file,
    ]
    done = subprocess.run(words, cwd=tree, env=cargo(target), stdout=subprocess.PIPE, text=True)
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0:
        return Outcome(CANNOT, f"does not compile there: {first_error(messages)}")
    made = [one["executable"] for one in messages if one.get("executable") and one["target"]["name"] == test.file]
    return Outcome("built", made[-1]) if made else Outcome(CANNOT, "cargo made no program of it")


def first_error(messages: list[dict]) -> str:
    errors = (one["message"] for one in messages if one.get("reason") == "compiler-message")
    return next((one["message"] for one in errors if one["level"] == "error"), "cargo says why above")


def rust_test(tree: Path, test: Test, built: Outcome, environment: dict[str, str], timeout: float) -> Outcome:
    if built.what == CANNOT:
        return built
    words = [built.why, "--exact", test.inside, "--include-ignored"]
    folder = tree / "crates" / test.crate
    code, said, skipped = run(words, folder, {**environment, "CARGO_MANIFEST_DIR": str(folder)}, timeout)
    if code == 0 and "1 passed" not in said:
        return Outcome(CANNOT, "no such test in the file")
    return judged(code, said, skipped)


def python_test(tree: Path, test: Test, environment: dict[str, str], timeout: float) -> Outcome:
    words = [sys.executable, "-m", "unittest", f"tests.{test.inside}"]
    code, said, skipped = run(words, tree / "python", {**environment, "PYTHONDONTWRITEBYTECODE": "1"}, timeout)
    if "unittest.loader._FailedTest" in said:
        errors = re.findall(r"^(\w*(?:Error|Exception): .*)$", said, re.MULTILINE)
        return Outcome(CANNOT, errors[-1] if errors else "cannot be imported there")
    counted = re.search(r"^OK \(skipped=(\d+)\)", said, re.MULTILINE)
    ran = re.search(r"^Ran (\d+) test", said, re.MULTILINE)
    if counted and ran and counted[1] == ran[1]:
        return Outcome(CANNOT, skipped or "it was skipped")
    return judged(code, said, skipped)


def judged(code: Optional[int], said: str, skipped: str) -> Outcome:
    if code is None:
        return Outcome(FAILS, "it did not end in time")
    if code != 0:
        return Outcome(FAILS, reason(said))
    return Outcome(CANNOT, skipped) if skipped else Outcome(PASSES)


def reason(said: str) -> str:
    """The line that says best why a test has failed."""
    panicked = re.search(r"panicked at [^\n]*:\n([^\n]*)", said)
    raised = re.findall(r"^(\w[\w.]*(?:Error|Exception)\b.*)$", said, re.MULTILINE)
    text = panicked[1] if panicked else raised[0] if raised else ""
    return text if len(text) <= 160 else text[:159] + "…"


def run(words: list[str], folder: Path, environment: dict[str, str], timeout: float) -> tuple[Optional[int], str, str]:
    """Its exit code (none: it took too long), what it said, and why it did not really run. Nothing of it is left."""
    with tempfile.TemporaryDirectory() as place, open(Path(place, "said"), "w+b") as said:
        skips = Path(place, "skips")
        environment = {**environment, "GPULANE_TEST_SKIPS": str(skips), "RUST_BACKTRACE": "0"}
        process = subprocess.Popen(
            words,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        code: Optional[int]
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            end_descendants()
            process.wait()
        said.seek(0)
        text = said.read().decode(errors="replace")
        return code, text, " ".join(skips.read_text(encoding="utf-8").split()) if skips.exists() else ""


def adopt_orphans() -> None:
    """What a test leaves behind becomes a child of this process, which can end it."""
    set_child_subreaper = 36
    ctypes.CDLL(None).prctl(set_child_subreaper, ctypes.c_ulong(1), *[ctypes.c_ulong(0)] * 3)


def end_descendants() -> None:
    """Ends every process below this one, whatever they start meanwhile."""
    until = time.monotonic() + 30
    while (left := living_children(os.getpid())) and time.monotonic() < until:
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
            except (ProcessLookupError, ChildProcessError):
                pass  # Gone, or reaped by whoever started it.
        time.sleep(0.01)


def living_children(parent: int) -> list[int]:
    """Those that have not ended."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = status.read_text(errors="replace")
        except OSError:
            continue
        state, above = text.rpartition(")")[2].split()[:2]
        if int(above) == parent and state != "Z":
            found.append(int(status.parent.name))
    return found


# What is shown ------------------------------------------------------------------------------------------------------

Outcomes = dict[Test, tuple[Outcome, Optional[Outcome]]]


def say(text: str) -> None:
    print(f"regressions: {text}", file=sys.stderr, flush=True)


def tell(test: Test, there: Outcome, here: Optional[Outcome]) -> None:
    say(
        f"{test.name}: {there.what} there"
        + (f", {here.what} here" if here else "")
        + (f" ({there.why})" if there.why else "")
    )


def table(faults: list[Fault], outcomes: Outcomes, commit: str) -> str:
    lines = []
    for fault in faults:
        lines.append(f"{fault.point:>3}  {fault.what}")
        for test in fault.tests:
            there, here = outcomes[test]
            current = f"{here.what} here, " if here else ""
            why = f": {there.why}" if there.what == CANNOT and there.why else ""
            lines.append(f"       {current}{there.what} there{why}  {test.name}")
    counts = {what: sum(there.what == what for there, _ in outcomes.values()) for what in (FAILS, PASSES, CANNOT)}
    points = len({fault.point for fault in faults})
    lines.append(
        f"at {commit}, of {len(outcomes)} tests of {points} points: {counts[FAILS]} fail, as they should; "
        f"{counts[PASSES]} pass; {counts[CANNOT]} cannot be run there"
    )
    unnoticed = sorted({fault.point for fault in faults if not is_noticed(fault, outcomes)})
    if unnoticed:
        lines.append(f"noticed by no test there: point {', '.join(map(str, unnoticed))}")
    return "\n".join(lines)


def is_noticed(fault: Fault, outcomes: Outcomes) -> bool:
    return any(outcomes[test][0].what == FAILS for test in fault.tests)


def verdict(faults: list[Fault], outcomes: Outcomes) -> int:
    broken = any(here is not None and here.what == FAILS for _, here in outcomes.values())
    return 1 if broken or not all(is_noticed(fault, outcomes) for fault in faults) else 0


if __name__ == "__main__":
    sys.exit(main())
