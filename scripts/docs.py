#!/usr/bin/env python3
"""Runs the commands our documents show, so that what a reader types works.

    scripts/docs.py --binary target/debug/gpulane [FILE.md...]

For each document, in a fresh folder that holds the demo's train.py and evaluate.py:

- a fenced block with a file name behind its language (```toml plan.toml) is written to that file;
- in a ```console block, every line that begins with `$ ` is run by bash, in order. It must exit with 0, or with the
  code that stands behind it as `# exit code N`. Lines without `$ ` are output, shown for the reader, not compared.

A gpulane command in a block of another language is a breach: nobody would have tried it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

from house import ROOT, files

LONGEST_COMMAND_S = 120


@dataclass(frozen=True)
class Block:
    """A fenced block of a document."""

    line: int
    language: str
    file: str
    text: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=Path, required=True, help="the gpulane to try")
    parser.add_argument("files", nargs="*", help="documents; all of the repository if none is given")
    options = parser.parse_args()
    if not os.access(options.binary, os.X_OK):
        print(f"{options.binary} is not built")
        return 1
    documents = options.files or [path for path in files() if path.endswith(".md")]
    count, breaches = 0, []
    for path in documents:
        found = blocks((ROOT / path).read_text(encoding="utf-8"))
        count += sum(len(list(commands(block))) for block in found)
        breaches += [f"{path}:{line}: {what}" for line, what in try_document(found, options.binary.absolute())]
    for breach in breaches:
        print(breach)
    print(f"{count} commands in {len(documents)} documents tried")
    return 1 if breaches else 0


def blocks(text: str) -> list[Block]:
    found, fence = [], None
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r"\s*```\s*(\S*)\s*(\S*)", line)
        if fence is None and match:
            fence, body = (number, match[1], match[2]), []
        elif fence is not None and match:
            found.append(Block(*fence, "\n".join(body) + "\n"))
            fence = None
        elif fence is not None:
            body.append(line)
    return found


def commands(block: Block) -> Iterator[tuple[int, str, int]]:
    """Line, command and expected exit code."""
    if block.language != "console":
        return
    for offset, line in enumerate(block.text.splitlines(), 1):
        if line.startswith("$ "):
            code = re.search(r"#\s*exit code (\d+)\s*$", line)
            yield block.line + offset, line[2:], int(code[1]) if code else 0


def try_document(found: list[Block], binary: Path) -> Iterator[tuple[int, str]]:
    folder = Path(tempfile.mkdtemp(prefix="gpulane-docs-"))
    try:
        env = furnish(folder, binary)
        for block in found:
            if block.file:
                (folder / block.file).write_text(block.text)
            elif block.language != "console" and re.search(r"^\s*(?:\$ )?gpulane ", block.text, re.MULTILINE):
                yield block.line, "a gpulane command outside a ```console block, which nobody tries"
            for line, command, code in commands(block):
                what = attempt(command, code, folder, env)
                if what:
                    yield line, what
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def furnish(folder: Path, binary: Path) -> dict:
    """The programs the documents speak of, and an environment in which `gpulane` is the one to try."""
    for name in ("train.py", "evaluate.py"):
        shutil.copy(ROOT / "crates" / "cli" / "demo" / name, folder)
    tools = folder / ".bin"
    tools.mkdir()
    (tools / "gpulane").symlink_to(binary)
    (tools / "python").symlink_to(sys.executable)
    keep = {name: value for name, value in os.environ.items() if not name.startswith("GPULANE_")}
    ours = {"PATH": f"{tools}:{os.environ['PATH']}", "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    # As if the package were installed.
    return {**keep, **ours, "PYTHONPATH": str(ROOT / "python"), "GPULANE_BINARY": str(binary)}


def attempt(command: str, code: int, folder: Path, env: dict) -> str:
    """What went wrong, or nothing."""
    try:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LONGEST_COMMAND_S,
            text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        return f"`{command}` took more than {LONGEST_COMMAND_S} s"
    if done.returncode == code:
        return ""
    tail = "\n    ".join(done.stdout.strip().splitlines()[-8:])
    return f"`{command}` exits with {done.returncode}, the document says {code}:\n    {tail}"


if __name__ == "__main__":
    sys.exit(main())
