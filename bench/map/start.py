#!/usr/bin/env python3
"""How long a small map takes, and how much memory: two programs side by side, in turns.

    bench/map/start.py OLD/gpulane NEW/gpulane [--runs 5] [--counts 20,1000,20000]

Memory is the largest sum of the proportional sizes (PSS) of all processes of a run, looked at every 20 ms; time is wall and CPU
(user and system of all processes). Medians.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import tempfile
import time

GIF = b"GIF89a\x01\0\x01\0\x80\0\0\xff\xff\xff\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;"
MODEL = "def Model(batch):\n    return [1] * len(batch)\n"


def family(root: int) -> list[int]:
    """A process and all below it."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = pathlib.Path("/proc", entry, "stat").read_text()
            except OSError:
                continue
            children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry))
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo.extend(children.get(pid, []))
    return found


def memory(pids: list[int]) -> int:
    """The sum of their proportional sizes, in bytes."""
    total = 0
    for pid in pids:
        try:
            text = pathlib.Path("/proc", str(pid), "smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    return total * 1024


def run(program: str, folder: pathlib.Path, decode: str) -> tuple[float, float, int]:
    """Seconds of wall, of CPU, and the most memory of one map."""
    out = folder.parent / "out"
    shutil.rmtree(out, ignore_errors=True)
    argv = [program, "map", "model.py:Model", str(folder), "--out", str(out), "--gpus", "none", "--decode", decode, "--quiet"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun, most = time.monotonic(), 0
    child = subprocess.Popen(argv, cwd=folder.parent, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while child.poll() is None:
        most = max(most, memory(family(child.pid)))
        time.sleep(0.02)
    wall = time.monotonic() - begun
    if child.returncode != 0:
        raise SystemExit(f"{program}: exit code {child.returncode}: {child.stderr.read().decode() if child.stderr else ''}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--counts", default="20,1000,20000")
    parser.add_argument("--decodes", default="rgb:224x224,bytes")
    asked = parser.parse_args()
    programs = {"old": os.path.abspath(asked.old), "new": os.path.abspath(asked.new)}
    print("| files | decode | program | wall | CPU | most memory |\n|---|---|---|---|---|---|")
    for count in map(int, asked.counts.split(",")):
        with tempfile.TemporaryDirectory() as base:
            folder = pathlib.Path(base, "photos")
            folder.mkdir()
            pathlib.Path(base, "model.py").write_text(MODEL)
            for number in range(count):
                (folder / f"{number}.gif").write_bytes(GIF)
            for decode in asked.decodes.split(","):
                seen: dict[str, list[tuple[float, float, int]]] = {name: [] for name in programs}
                for _ in range(asked.runs):
                    for name, program in programs.items():
                        seen[name].append(run(program, folder, decode))
                for name, runs in seen.items():
                    wall, cpu, most = (statistics.median(column) for column in zip(*runs))
                    print(f"| {count:,} | `{decode}` | {name} | {wall:.2f} s | {cpu:.2f} s | {most / 2**20:.0f} MiB |", flush=True)


if __name__ == "__main__":
    main()
