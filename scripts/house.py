#!/usr/bin/env python3
"""The rules of this house that no compiler checks: where things may stand, how files begin, who may import whom.

Prints every breach as `path:line: what is wrong`, and exits with 1 if there is one. No options.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Iterator
from urllib.parse import unquote

import faults
from rust_text import code_only, without_tests

ROOT = Path(__file__).resolve().parent.parent
LONGEST_FILE = 500

# Who may import whom: our crates form a line. A crate that is not here has no place yet: give it one.
LINE = {
    "model": set(),
    "files": set(),
    "plan": {"model"},
    "core": {"model"},
    "journal": {"model", "files"},
    "gpu": {"model", "files"},
    "witness": {"model", "files"},
    "decode": {"model"},
    "items": {"model", "files"},
    "parts": {"model", "files"},
    "feed": {"model", "files", "decode", "items"},
    "report": {"model", "files", "core", "journal", "gpu"},
    "runtime": {"model", "files", "core", "journal", "gpu", "witness", "decode", "items", "parts", "feed"},
    "doctor": {"model", "files", "core", "journal", "gpu", "witness", "parts"},
    "cli": {"model", "files", "plan", "core", "journal", "gpu", "witness", "items", "report", "runtime", "doctor"},
    "fake-nvml": {"model"},
    "testkit": {"model", "fake-nvml"},
}

# Rooms whose work cannot be done without it.
UNSAFE_ROOMS = (
    "crates/decode/src/jpeg/baseline/",
    "crates/decode/src/jpeg/libjpeg/",
    "crates/decode/src/planes/",
    "crates/decode/src/webp/library.rs",
    "crates/decode/src/bmp/swap.rs",
    "crates/feed/src/ring/",
    "crates/runtime/src/process/",
    "crates/runtime/src/process.rs",
    "crates/fake-nvml/src/raw.rs",
)
# Make directories that are not in a run's.
OUTSIDE_RUNS = {"crates/runtime/src/experience.rs"}
# Rooms that open files of a run, which others may have put there: `gpulane_files` opens them, and nothing else does.
RUN_ROOMS = tuple(f"crates/{room}/src/" for room in ("journal", "parts", "report", "runtime", "feed", "items"))
OPENS = re.compile(r"\bFile::(?:open|create|options)\(|\bOpenOptions\b|\bfs::(?:read|read_to_string|write|copy)\(")
# What they open beside: the system's own files, what a map reads, and directories, to sync or lock them.
OPENS_ELSE = (
    "crates/feed/src/loaders/reading.rs",
    "crates/feed/src/ring/budget.rs",
    "crates/items/src/freeze.rs",
    "crates/items/src/gather.rs",
    "crates/items/src/packed.rs",
    "crates/items/src/shard.rs",
    "crates/items/src/table/delimited.rs",
    "crates/items/src/table/jsonl.rs",
    "crates/items/src/table/parquet.rs",
    "crates/journal/src/disk.rs",
    "crates/journal/src/lock.rs",
    "crates/journal/src/trust/ours.rs",
    "crates/parts/src/repair.rs",
    "crates/parts/src/sample.rs",
    "crates/runtime/src/engine/boot.rs",
    "crates/runtime/src/engine/gpus/strangers.rs",
    "crates/runtime/src/engine/leftovers.rs",
    "crates/runtime/src/engine/mps.rs",
    "crates/runtime/src/engine/mps/meeting.rs",
    "crates/runtime/src/engine/standbys/",
    "crates/runtime/src/engine/torch.rs",
    "crates/runtime/src/engine/trouble/kills.rs",
    "crates/runtime/src/engine/vigil/pressure.rs",
    "crates/runtime/src/engine/vigil/signs.rs",
    "crates/runtime/src/engine/vigil/threads.rs",
    "crates/runtime/src/engine/worker_kit.rs",
    "crates/runtime/src/feeder/careful.rs",
    "crates/runtime/src/feeder/sameness.rs",
    "crates/runtime/src/orders.rs",
    "crates/runtime/src/process/",
)
NAMELESS = {"utils", "util", "common", "helpers", "misc", "imp"}

Breach = tuple[str, int, str]


def main() -> int:
    breaches = sorted(breach for path in files() for breach in check(path))
    breaches += check_line()
    breaches += check_faults()
    for path, line, what in breaches:
        print(f"{path}:{line}: {what}" if line else f"{path}: {what}")
    return 1 if breaches else 0


def files() -> list[str]:
    """What git keeps or would keep, relative to the root."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return sorted({path for path in listed.split("\0") if path and (ROOT / path).is_file()})


def check(path: str) -> Iterator[Breach]:
    if path.endswith(".rs"):
        yield from check_rust(path, (ROOT / path).read_text(encoding="utf-8"))
    elif path.endswith(".md"):
        yield from check_links(path, (ROOT / path).read_text(encoding="utf-8"))
    elif path.endswith(".py") or python_by_shebang(path):
        yield from check_python(path)


# Rust ---------------------------------------------------------------------------------------------------------


def check_rust(path: str, source: str) -> Iterator[Breach]:
    parts = Path(path).parts
    in_tests = any(part in {"tests", "benches", "fuzz", "examples"} for part in parts) or parts[1:2] == ("testkit",)
    lines = source.count("\n") + 1
    if lines > LONGEST_FILE:
        yield path, lines, f"{lines} lines; more than {LONGEST_FILE} is two rooms"
    if NAMELESS & {Path(part).stem for part in parts}:
        yield path, 0, "a name that says nothing; name what it holds"
    if "tests" not in parts and not source.startswith("//!"):
        yield path, 1, "must open with `//!`: what this room owns, what it must not do"
    code = code_only(source)
    yield from check_unsafe(path, source, code)
    if not in_tests:
        yield from check_powers(path, without_tests(code))


def check_unsafe(path: str, source: str, code: str) -> Iterator[Breach]:
    lines = source.splitlines()
    for number, line in enumerate(code.splitlines(), 1):
        if not re.search(r"\bunsafe\b", line):
            continue
        if not path.startswith(UNSAFE_ROOMS):
            yield path, number, "unsafe outside its rooms: " + ", ".join(UNSAFE_ROOMS)
        elif not re.search(r"SAFETY:|# Safety", "\n".join(reason_above(lines, number))):
            yield path, number, "unsafe without a `SAFETY:` comment right above it"


def reason_above(lines: list[str], number: int) -> list[str]:
    """The line itself and the statement and comment it belongs to: up to the next blank line, ten at most."""
    block = [lines[number - 1]]
    for line in reversed(lines[max(0, number - 11) : number - 1]):
        if not line.strip():
            break
        block.append(line)
    return block


def check_powers(path: str, code: str) -> Iterator[Breach]:
    """One place per power."""
    parts = Path(path).parts
    opens_else = path.startswith(OPENS_ELSE) or path.endswith("tests.rs")
    for number, line in enumerate(code.splitlines(), 1):
        if re.search(r"\bprocess::(?:exit|abort)\b", line) and parts[-1] != "main.rs":
            yield path, number, "only main.rs ends the process"
        if re.search(r"\be?print(?:ln)?!", line) and parts[:2] != ("crates", "cli") and parts[-1] != "build.rs":
            yield path, number, "only the cli prints; write to the writer you were given"
        if path.startswith(RUN_ROOMS) and not opens_else and OPENS.search(line):
            yield (
                path,
                number,
                "files of a run are opened by gpulane_files; what is none of them is listed in OPENS_ELSE",
            )
        if re.search(r"\bdbg!", line):
            yield path, number, "dbg! left behind"
        if (
            parts[1] in {"runtime", "journal", "parts", "feed"}
            and path not in OUTSIDE_RUNS
            and parts[-1] not in {"tests.rs", "sample.rs"}
            and re.search(r"\bcreate_dir_all\b|\brecursive\(true\)", line)
        ):
            yield path, number, "would make a run directory again that was moved away; use RunDir::make_dir or mkdirat"


def check_line() -> Iterator[Breach]:
    for manifest in sorted((ROOT / "crates").glob("*/Cargo.toml")):
        crate, path = manifest.parent.name, str(manifest.relative_to(ROOT))
        if crate not in LINE:
            yield path, 0, f"crate `{crate}` has no place in the line yet; give it one in scripts/house.py"
            continue
        yield from check_imports(path, crate, LINE[crate], tomllib.loads(manifest.read_text()))


def check_imports(path: str, crate: str, allowed: set[str], manifest: dict) -> Iterator[Breach]:
    """Tests may use what they like; a build may not."""
    tables = [manifest, *manifest.get("target", {}).values()]
    wanted = {
        name for table in tables for kind in ("dependencies", "build-dependencies") for name in table.get(kind, {})
    }
    for name in sorted(wanted):
        other = name.removeprefix("gpulane-")
        if other != name and other not in allowed:
            line = "model, plan core journal gpu witness, report doctor runtime, cli"
            yield path, 0, f"`{crate}` may not import `{other}`; the line is {line}"


def check_faults() -> Iterator[Breach]:
    """Every fault in the list of mended ones has its tests."""
    found, wrong = faults.read((ROOT / faults.LIST).read_text(encoding="utf-8"))
    for what in [*wrong, *faults.missing(ROOT, found)]:
        yield faults.LIST, 0, what


# Documents ----------------------------------------------------------------------------------------------------

_LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")


def check_links(path: str, text: str) -> Iterator[Breach]:
    """Relative links lead to a file that is there, and to a heading that is in it."""
    for number, line in enumerate(without_fences(text).splitlines(), 1):
        for target in _LINK.findall(re.sub(r"`[^`]*`", "", line)):
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            file, _, heading = target.partition("#")
            aim = (ROOT / path).parent / unquote(file) if file else ROOT / path
            if not aim.exists():
                yield path, number, f"link to {target}: there is no such file"
            elif heading and aim.suffix == ".md" and heading not in headings(aim.read_text(encoding="utf-8")):
                yield path, number, f"link to {target}: no such heading there"


def without_fences(text: str) -> str:
    """The text with fenced code blanked, lines kept."""
    inside, kept = False, []
    for line in text.splitlines():
        fence = line.lstrip().startswith("```")
        kept.append("" if inside or fence else line)
        inside ^= fence
    return "\n".join(kept)


def headings(text: str) -> set[str]:
    """Anchors as code forges make them."""
    titles = re.findall(r"^#{1,6}\s+(.*?)\s*#*$", without_fences(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


# Python -------------------------------------------------------------------------------------------------------


def python_by_shebang(path: str) -> bool:
    if Path(path).suffix:
        return False
    with open(ROOT / path, "rb") as file:
        return file.readline(80).startswith(b"#!/usr/bin/env python3")


def check_python(path: str) -> Iterator[Breach]:
    source = (ROOT / path).read_text(encoding="utf-8")
    try:
        compile(source, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        yield path, error.lineno or 0, f"not Python: {error.msg}"
        return
    head = source.split("\n", 1)[1] if source.startswith("#!") else source
    if source.strip() and not head.lstrip().startswith('"""'):
        yield path, 1, "must open with a docstring: what it is for"
    if source.count("\n") + 1 > LONGEST_FILE:
        yield path, 0, f"more than {LONGEST_FILE} lines is two rooms"


if __name__ == "__main__":
    sys.exit(main())
