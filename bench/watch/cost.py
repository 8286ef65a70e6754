#!/usr/bin/env python3
"""What watching costs: the watching thread's share of a core while 64 jobs run.

    bench/watch/cost.py GPULANE [--seconds N]

Half of the jobs print 500 lines a second each, half are silent and wait for a child of theirs, so that whole trees must be
walked. Prints the share of every thread of the engine; the exit code is 1 if the watch takes 0.3% of a core or more.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PARSER = argparse.ArgumentParser()
PARSER.add_argument("gpulane")
PARSER.add_argument("--seconds", type=int, default=60)
PARSER.add_argument("--jobs", type=int, default=64)
ARGS = PARSER.parse_args()
GOAL = 0.3
CHATTY = "import time\nfor i in range(10**9):\n print('step', i, 'loss', 1 / (i + 1), flush=True); time.sleep(0.002)"
SILENT = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import time\\nwhile True: time.sleep(2)'])"


def stage(name: str, code: str, jobs: int) -> str:
    command = json.dumps([sys.executable, "-c", code])
    return f'[[stage]]\nname = "{name}"\ncommand = {command}\n[stage.matrix]\ni = {list(range(jobs))}\n'


def started(run: Path) -> list[dict]:
    try:
        lines = (run / "journal.jsonl").read_text().splitlines()
    except OSError:
        return []
    return [json.loads(line) for line in lines if '"job_started"' in line or '"run_started"' in line]


def spent(engine: int) -> dict[str, int]:
    """Clock ticks of each thread, by name."""
    ticks: dict[str, int] = {}
    for task in Path(f"/proc/{engine}/task").iterdir():
        fields = (task / "stat").read_text().rsplit(") ", 1)[1].split()
        name = (task / "comm").read_text().strip()
        ticks[name] = ticks.get(name, 0) + int(fields[11]) + int(fields[12])
    return ticks


with tempfile.TemporaryDirectory(prefix="gpulane-cost-") as work:
    plan, run = Path(work) / "cost.toml", Path(work) / "run"
    half = ARGS.jobs // 2
    plan.write_text('name = "cost"\n' + stage("chatty", CHATTY, half) + stage("silent", SILENT, ARGS.jobs - half))
    command = [os.path.abspath(ARGS.gpulane), "run", str(plan), "--gpus", "none", "--lanes", str(ARGS.jobs)]
    process = subprocess.Popen(
        [*command, "--run-dir", str(run), "--quiet"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until = time.monotonic() + 120
        while len(started(run)) < ARGS.jobs + 1:
            if time.monotonic() > until:
                sys.exit("the jobs did not start")
            time.sleep(0.2)
        engine = next(event["pid"] for event in started(run) if event["event"] == "run_started")
        # The beginning, when every job is new, is not what is measured.
        time.sleep(15)
        processes = sum(entry.name.isdigit() for entry in Path("/proc").iterdir())
        before, begun = spent(engine), time.monotonic()
        time.sleep(ARGS.seconds)
        after, took = spent(engine), time.monotonic() - begun
    finally:
        process.terminate()
        process.wait(timeout=60)
share = {name: (after[name] - before.get(name, 0)) / took for name in after}
print(f"{ARGS.jobs} jobs, {processes} processes on the machine, {took:.0f} s; percent of a core:")
for name, percent in sorted(share.items(), key=lambda item: -item[1]):
    print(f"  {name:16} {percent:.2f}")
sys.exit(share.get("watchman", 100.0) >= GOAL)
