#!/usr/bin/env python3
"""Warm standbys on a real GPU: 13 short trainings, cold and warm, one at a time and four at a time with MPS.

    bench/gpu/standbys.py GPULANE [--jobs N] [--seconds S | --steps N] [--rounds R] [--only WORD] [--off]
        [--only-warm] [--cpu]

Cold is a command, `python conv.py`; warm is an entry. With `--off` the entry without standbys is shown beside them. The first warm run finds nothing that
gpulane has kept of earlier ones, later ones find compiled files.

Needs torch. Each job notes when its function was entered, when its first kernel had run and when it was done; gpulane's journal tells
when its process had ended. So the gap from one job's exit to the next one's first kernel can be told apart from the training. Results
must be the same bit for bit, warm or cold. All 13 at once is shown beside it: there nobody can be warm. Every check prints a line;
the exit code is the number of those that failed. `--cpu` tries the script itself without
torch and without a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
PARSER = argparse.ArgumentParser()
PARSER.add_argument("gpulane")
PARSER.add_argument("--jobs", type=int, default=13)
PARSER.add_argument("--seconds", type=float, default=4.0, help="of training for each job, about")
PARSER.add_argument("--steps", type=int, help="of training for each job; without, as many as take so many seconds here")
PARSER.add_argument("--only", default="", help="only what has this in its name: one, four, all")
PARSER.add_argument("--rounds", type=int, default=1, help="of all kinds in turn; medians are shown")
PARSER.add_argument("--off", action="store_true", help="also the entry without standbys")
PARSER.add_argument("--only-warm", action="store_true", help="no cold runs: to compare two gpulanes")
PARSER.add_argument("--cpu", action="store_true", help="a dry run of the script: no torch, no GPU")
ARGS = PARSER.parse_args()
GPULANE = os.path.abspath(ARGS.gpulane)
WORK = Path(tempfile.mkdtemp(prefix="gpulane-standbys-"))
failures: list[str] = []

ALONE, PACKED, AT_ONCE = "", 'memory = "30GB"\nmps = true', 'memory = "8GB"\nmps = true'
FASTER, GAP_S = 3.3, 0.7
"""What is to be reached one at a time: so many times as fast, and so long from an exit to the next first kernel."""


class Measured(NamedTuple):
    """One run."""

    seconds: float
    first: float
    """From its beginning to the first kernel of all."""
    gaps: list[float]
    """From a job's exit to the first kernel of the next one on the GPU; only where jobs run one at a time."""
    idle: list[float]
    """From the end of a job's work to that kernel: with the end of its process."""
    entered: list[float]
    """From `main` to its first kernel."""
    work: float
    """All jobs, from the first kernel to the last."""
    results: dict[str, str]
    warm: int


def check(name: str, holds: bool, seen: object = "") -> None:
    print(f"{'ok  ' if holds else 'FAIL'} {name}  {seen}", flush=True)
    if not holds:
        failures.append(name)


def events(run: Path, name: str) -> list[dict]:
    lines = (run / "journal.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    return [event for event in found if event.get("event") == name]


def importing() -> str:
    """How long it takes here, and whether Python keeps the compiled files: without, every import compiles anew."""
    if ARGS.cpu:
        return "not tried"
    code = (
        "import sys, time; begun = time.time(); import torch; then = time.time(); import torch._dynamo; "
        "print(f'{then - begun:.1f} s, with the compiler {time.time() - begun:.1f} s; compiled files kept: '"
        "f'{not sys.dont_write_bytecode}, there: {__import__(\"os\").path.exists(torch.__cached__)}')"
    )
    return subprocess.check_output([sys.executable, "-c", code], text=True).strip()


def steps() -> int:
    """How many steps take about so many seconds here: tried once, so that all jobs do the same work."""
    if ARGS.cpu or ARGS.steps:
        return ARGS.steps or 1000
    code = (
        f"import sys, json, pathlib; sys.path.insert(0, {str(HERE)!r}); import conv; "
        "print([conv.train({'seed': 0, 'steps': 500})['rate'] for _ in range(2)][1])"
    )
    rate = float(subprocess.check_output([sys.executable, "-c", code], text=True).split()[-1])
    return max(50, int(rate * ARGS.seconds))


def run(name: str, kind: str, settings: str, count: int) -> Measured:
    plan, folder = WORK / f"{name}.toml", WORK / name
    seeds = ", ".join(str(seed) for seed in range(ARGS.jobs))
    conv = HERE / "conv.py"
    entry = f'entry = "{conv}:main"\npython = "{sys.executable}"\nstandbys = "{"off" if kind == "off" else "auto"}"'
    what = f'command = ["{sys.executable}", "{conv}"]' if kind == "cold" else entry
    plan.write_text(
        f"""
[[stage]]
name = "train"
{what}
{'' if ARGS.cpu else settings}
[stage.matrix]
seed = [{seeds}]
steps = [{count}]
dry = [{'true' if ARGS.cpu else 'false'}]
"""
    )
    # Each begins without knowledge from the others, but for what was compiled.
    shutil.rmtree(WORK / "cache" / "gpulane" / "stages", ignore_errors=True)
    environment = dict(os.environ, XDG_CACHE_HOME=str(WORK / "cache"))
    gpus = ["--gpus", "none", "--lanes", "1"] if ARGS.cpu else []
    begun, now = time.monotonic(), time.time()
    done = subprocess.run(
        [GPULANE, "run", str(plan), *gpus, "--run-dir", str(folder), "--quiet"],
        cwd=WORK, capture_output=True, text=True, env=environment,
    )
    seconds = time.monotonic() - begun
    check(f"{name}: {ARGS.jobs} trainings", done.returncode == 0, f"{seconds:.1f} s")
    if done.returncode:
        print(done.stdout[-1000:], done.stderr[-3000:])
        raise RuntimeError(f"{name} failed")
    return look_at(folder, now, seconds)


def look_at(folder: Path, begun: float, seconds: float) -> Measured:
    started = events(folder, "job_started")
    notes = {}
    for start in started:
        out = folder / "jobs" / start["job"] / "out"
        notes[start["job"]] = json.loads((out / "notes.json").read_text())
    took = {end["job"]: end["seconds"] for end in events(folder, "job_succeeded")}
    for start in started:
        notes[start["job"]]["exit"] = datetime.fromisoformat(start["time"]).timestamp() + took[start["job"]]
    in_order = sorted(notes.values(), key=lambda note: note["kernel"])
    pairs = list(zip(in_order, in_order[1:]))
    off = events(folder, "standbys_off")
    check(f"{folder.name}: no standby was switched off", not off, off)
    return Measured(
        seconds,
        in_order[0]["kernel"] - begun,
        [after["kernel"] - before["exit"] for before, after in pairs],
        [after["kernel"] - before["done"] for before, after in pairs],
        [note["kernel"] - note["entered"] for note in in_order],
        sum(note["done"] - note["kernel"] for note in in_order),
        {job: note["weights"] for job, note in notes.items()},
        sum(bool(start.get("warm")) for start in started),
    )


def median(values: list[float]) -> float:
    return statistics.median(values) if values else float("nan")


def main() -> int:
    if not ARGS.cpu:
        print(subprocess.check_output(["nvidia-smi", "-L"], text=True).strip())
    print(f"{os.cpu_count()} cores, Linux {os.uname().release}, {WORK}")
    if not ARGS.only_warm:
        print(f"     importing torch: {importing()}")
    count = steps()
    print(f"     {ARGS.jobs} jobs of {count} steps")
    kinds = [("one at a time", ALONE)] if ARGS.cpu else [("one at a time", ALONE), ("four at a time", PACKED)]
    for words, settings in (kind for kind in kinds if ARGS.only in kind[0]):
        seen: dict[str, list[Measured]] = {"cold": [], "warm": [], "off": []}
        for turn in range(ARGS.rounds):
            # Who goes first finds the machine as it was left: in turns.
            for kind in ("warm",) if ARGS.only_warm else ("warm", "cold") if turn % 2 else ("cold", "warm"):
                seen[kind].append(run(f"{words.replace(' ', '-')}-{kind}-{turn}", kind, settings, count))
        if ARGS.off:
            seen["off"].append(run(f"{words.replace(' ', '-')}-off", "off", settings, count))
        tell(words, seen)
    if not ARGS.cpu and ARGS.only in "all at once":
        print(f"     all at once, cold: {run('all-at-once', 'cold', AT_ONCE, count).seconds:7.2f} s")
    shutil.rmtree(WORK, ignore_errors=True)
    print(f"{len(failures)} failed: {failures}")
    return len(failures)


def tell(words: str, seen: dict[str, list[Measured]]) -> None:
    for name, measured in seen.items():
        if not measured:
            continue
        line = f"{median([one.seconds for one in measured]):7.2f} s {[round(one.seconds, 1) for one in measured]}"
        line += f", to the first kernel of all {[round(one.first, 1) for one in measured]}"
        if words == "one at a time":
            gaps = [gap for one in measured for gap in one.gaps]
            line += f", from an exit to the next first kernel {median(gaps):.3f} s (longest {max(gaps, default=0):.3f})"
            line += f", from the end of its work {median([idle for one in measured for idle in one.idle]):.3f} s"
            line += f", work {[round(one.work, 1) for one in measured]}"
        entered = [one for measure in measured for one in measure.entered]
        line += f", from main() to the first kernel {median(entered):.3f} s"
        print(f"     {words}, {name}: {line}, {sum(one.warm for one in measured)} warm starts")
    cold, warm = seen["cold"], seen["warm"]
    if not cold:
        return
    ratio = median([one.seconds for one in cold]) / median([one.seconds for one in warm])
    each = [round(before.seconds / after.seconds, 2) for before, after in zip(cold, warm)]
    print(f"     {words}: warm is {ratio:.2f} times as fast, round by round {each}")
    check(f"{words}: some starts were warm, and without standbys none", warm[0].warm > 0 and all(one.warm == 0 for one in cold + seen["off"]), [one.warm for one in warm])
    same = all(one.results == cold[0].results for measured in seen.values() for one in measured)
    check(f"{words}: the same weights bit for bit, warm and cold", same)
    if words == "one at a time":
        gap = median([gap for one in warm for gap in one.gaps])
        goal = 1.0 if ARGS.cpu else FASTER
        check(f"one at a time: {goal} times as fast", ratio >= goal, f"{ratio:.2f}")
        check(f"one at a time: {GAP_S} s from an exit to the next first kernel", gap <= GAP_S, f"{gap:.3f} s")


if __name__ == "__main__":
    sys.exit(main())
