#!/usr/bin/env python3
"""Ten million items by list file with a trivial worker: `millions.py GPULANE [ITEMS]`.

Runs half of them, kills gpulane with SIGKILL, resumes, and checks that every item is in the results exactly once. Prints items per second
and memory over the run: both must be flat. Memory is what the feeder and the engine have to themselves (RssAnon), without the ring.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MODEL = """
import gpulane

class Lengths(gpulane.Model):
    decode = "value"
    batch = 1000

    def predict_batch(self, texts):
        return [len(text) for text in texts]
"""


def processes(run: Path) -> dict[str, int]:
    """gpulane's own processes of this run by name."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            name = (entry / "cmdline").read_bytes().split(b"\0")[0].decode()
            marks = (entry / "environ").read_bytes()
        except OSError:
            continue
        if name in ("lane-feeder", "gpulane-engine") and str(run).encode() in marks:
            found[name] = int(entry.name)
    return found


def anon_mib(pid: int) -> float:
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0


def live(run: Path) -> dict:
    try:
        return json.loads((run / "live.json").read_text())
    except (OSError, ValueError):
        return {}


def follow(process: subprocess.Popen, run: Path, until: int) -> list[tuple[float, int, dict[str, float]]]:
    """Looks every second until so many are done or it has ended: seconds, done, memory by process."""
    seen, begun = [], time.monotonic()
    while process.poll() is None:
        time.sleep(1)
        done = live(run).get("done", 0)
        memory = {name: anon_mib(pid) for name, pid in processes(run).items()}
        seen.append((time.monotonic() - begun, done, memory))
        if done >= until:
            break
    return seen


def tell(seen: list, name: str) -> None:
    moving = [look for look in seen if look[1] > 0]
    print(f"{name}: {len(seen)} s")
    for at in range(0, len(moving), max(1, len(moving) // 8)):
        seconds, done, memory = moving[at]
        rate = (done - moving[at - 1][1]) / (seconds - moving[at - 1][0]) if at else 0
        parts = ", ".join(f"{who} {mib:.0f} MiB" for who, mib in sorted(memory.items()))
        print(f"  {seconds:6.0f} s  {done:>12,} done  {rate:>10,.0f}/s  {parts}")


def main() -> int:
    binary, items = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10_000_000
    with tempfile.TemporaryDirectory(prefix="gpulane-millions-") as folder:
        work, run = Path(folder), Path(folder) / "out"
        (work / "model.py").write_text(MODEL)
        with open(work / "items.txt", "w") as listed:
            listed.writelines(f"photos/2026/{number // 1000:05}/{number:09}.jpg\n" for number in range(items))
        command = [binary, "map", "model.py:Lengths", "@items.txt", "--out", "out", "--gpus", "none", "--lanes", "1", "--quiet"]
        process = subprocess.Popen(command, cwd=work)
        seen = follow(process, run, items // 2)
        tell(seen, "first half")
        victims = processes(run)
        process.send_signal(signal.SIGKILL)
        process.wait()
        while processes(run):
            time.sleep(0.05)
        print(f"killed gpulane; {len(victims)} processes of it ended with it")
        begun = time.monotonic()
        before = live(run).get("time", 0)
        process = subprocess.Popen([binary, "resume", "out", "--quiet"], cwd=work)
        while process.poll() is None:
            now = live(run)
            if now.get("time", 0) > before and now.get("rate", 0) > 0:
                break
            time.sleep(0.01)
        print(f"resume: first new results after {time.monotonic() - begun:.2f} s")
        tell(follow(process, run, items * 2), "second half")
        print(f"exit code {process.wait()}")
        rows = sum(json.loads(line).get("rows", 0) for line in (run / "commits.jsonl").read_text().splitlines())
        parts = len(list(run.glob("part-*.parquet")))
        print(f"{rows:,} rows in {parts} parts, {items:,} items: {'each once' if rows == items else 'NOT each once'}")
        return 0 if rows == items else 1


if __name__ == "__main__":
    sys.exit(main())
