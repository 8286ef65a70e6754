"""Files to results: gpulane in its three ways against what people use today and against the ceilings, in one run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

from . import contestants, pictures

HERE = Path(__file__).resolve().parent
DISTINCT = 2000
STEPS = (("a", "cpu", "Eager", 30), ("b", "planes", "Eager", 40), ("c", "auto", "Compiled", 80))
"""Step, where pictures are finished, the model, and how often every file is listed."""

Check = Callable[[str, bool, object], None]


def family(root: int) -> List[int]:
    """A process and all below it."""
    parents: Dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                pass  # Gone meanwhile.
    found, grew = {root}, True
    while grew:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
        grew = bool(more)
    return sorted(found)


def private_bytes(pid: int) -> int:
    """Memory that is this process's own: the ring, which all share, is counted by none."""
    try:
        fields = dict(
            line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
        )
        return int(fields["RssAnon"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return 0


class Memory(threading.Thread):
    """Looks at a run's memory now and then."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self.root, self.seen = root, []  # type: ignore[var-annotated]
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.5):
            self.seen.append((time.time(), sum(map(private_bytes, family(self.root)))))


def read_stamps(path: Path) -> Tuple[float, List[Tuple[float, int]]]:
    """When the model was set up, and its calls."""
    set_up, calls = 0.0, []
    for line in path.read_text().splitlines():
        what, at, count = line.split()
        if what == "setup":
            set_up = float(at)
        else:
            calls.append((float(at), int(count)))
    return set_up, calls


def steady(calls: List[Tuple[float, int]]) -> float:
    """Images per second between a quarter of the calls and the last but a few."""
    start, end = len(calls) // 4, len(calls) - 8
    return sum(count for _, count in calls[start:end]) / (calls[end][0] - calls[start][0])


def gpulane(binary: str, step: Tuple[str, str, str, int], paths: List[str], work: Path, **more: str) -> Dict[str, Any]:
    """One run; what was seen of it."""
    name, finish, model, times = step
    listed, out, stamps = work / f"{name}.txt", work / f"out-{name}", work / f"stamps-{name}"
    listed.write_text("\n".join(paths * times) + "\n")
    environment = {**os.environ, "GPULANE_FINISH": finish, "BENCH_STAMPS": str(stamps), **more}
    command = [binary, "map", f"{HERE / 'resnet.py'}:{model}", f"@{listed}", "--out", str(out)]
    command += ["--decode", "rgb:224x224", "--batch", "256", "--format", "jsonl"]
    # The others, in this very process, hold some memory of the GPU.
    command += ["--foreign", "ignore"]
    begun = time.time()
    with open(work / f"{name}.log", "w+", encoding="utf-8") as log:
        process = subprocess.Popen(command, cwd=work, env=environment, stdout=log, stderr=log)
        memory = Memory(process.pid)
        memory.start()
        try:
            code = process.wait(timeout=180)
        except subprocess.TimeoutExpired:
            process.terminate()
            code = process.wait(timeout=30)
        memory.over.set()
        log.seek(0)
        said = log.read()
    found: Dict[str, Any] = {"exit": code, "wall": time.time() - begun, "items": len(paths) * times}
    found["said"] = said.splitlines()[-12:]
    if stamps.exists():
        set_up, calls = read_stamps(stamps)
        found["worked_on"] = sum(count for _, count in calls)
        if len(calls) > 40:
            late = [size for at, size in memory.seen if at > calls[len(calls) // 4][0]]
            found.update(images_per_s=steady(calls), first_call_after_setup=calls[0][0] - set_up)
            found["memory_mib"] = [round(size / 2**20) for size in (late[0], max(late), late[-1])] if late else []
    found["rows"] = results(out)
    return found


def results(out: Path) -> Dict[str, Tuple[int, float]]:
    """The first result of every file: its class and mean."""
    rows: Dict[str, Tuple[int, float]] = {}
    for part in sorted(out.glob("part-*.jsonl")):
        for line in part.read_text().splitlines():
            row = json.loads(line)
            rows.setdefault(row["item"], (row["top"], row["mean"]))
    return rows


def ceiling(binary: str, folder: Path) -> Dict[str, Any]:
    """Loading on all cores by itself, where the program for it was brought along: images per second, medians of three."""
    fill = Path(binary).with_name("fill")
    found: Dict[str, Any] = {}
    if not fill.exists():
        return found
    cores = str(os.cpu_count() or 16)
    for what in ("bare", "loaders", "planes"):
        rates = []
        for _ in range(3):
            done = subprocess.run([str(fill), what, str(folder), "20000", cores], capture_output=True, text=True, timeout=90)
            said = json.loads(done.stdout)
            rates.append(said["images"] / said["seconds"])
        found[what] = sorted(rates)[1]
        print(f"     {what} on {cores} threads: {found[what]:.0f} images/s", flush=True)
    return found


def compare(found: Dict[str, Any], check: Check) -> None:
    """The three roads give the same pixels within rounding."""
    rows = {name: found[name].pop("rows") for name in ("a", "b", "c")}
    for name in ("b", "c"):
        both = rows["a"].keys() & rows[name].keys()
        apart = max((abs(rows["a"][item][1] - rows[name][item][1]) for item in both), default=99.0)
        same = sum(rows["a"][item][0] == rows[name][item][0] for item in both)
        seen = f"{len(both)} files, means {apart:.3f} apart, the same class for {same}"
        check(f"pixels of a and {name} agree", len(both) == DISTINCT and apart < 0.5, seen)


def run(binary: str, check: Check, with_others: bool) -> Dict[str, Any]:
    """All of it, with a table."""
    work = Path(tempfile.mkdtemp(prefix="gpulane-map-"))
    begun = time.monotonic()
    paths = pictures.write_all(work / "pictures", DISTINCT)
    size = sum(os.path.getsize(path) for path in paths) / len(paths)
    print(f"     {DISTINCT} pictures of {size / 1000:.0f} KB in {time.monotonic() - begun:.0f} s", flush=True)
    found: Dict[str, Any] = {"ceiling": ceiling(binary, work / "pictures"), "picture_bytes": size}
    for step in STEPS:
        found[step[0]] = gpulane(binary, step, paths, work)
        print(json.dumps({k: v for k, v in found[step[0]].items() if k != "rows"}, indent=1), flush=True)
        check(f"step {step[0]} works on every item", found[step[0]]["exit"] == 0, found[step[0]]["exit"])
        first = found[step[0]].get("first_call_after_setup", 99.0)
        check(f"step {step[0]}: first batch within 1 s of setup", first <= 1, f"{first:.2f} s")
    compare(found, check)
    found["others"] = contestants.run(paths) if with_others else {}
    best = max((rate for name, rate in found["others"].items() if name.startswith("DataLoader")), default=0.0)
    goals = {"a": 0.95 * found["ceiling"].get("bare", 0.0), "b": max(9500.0, 1.4 * best), "c": 12000.0}
    print(f"\n{'':44}{'images/s':>10}{'of the best DataLoader':>26}")
    rows = {
        **found["others"],
        **{f"gpulane, step {s[0]} ({s[1]}, {s[2]})": found[s[0]].get("images_per_s", 0) for s in STEPS},
    }
    for name, rate in rows.items():
        print(f"{name:44}{rate:10.0f}{rate / best if best else 0:26.2f}")
    for name, goal in goals.items():
        rate = found[name].get("images_per_s", 0.0)
        check(f"step {name}: {goal:.0f} images/s", rate >= goal, f"{rate:.0f}")
    shutil.rmtree(work, ignore_errors=True)
    sys.stdout.flush()
    return found
