#!/usr/bin/env python3
"""The engine on a real GPU: trainings by UUID, memory back after every way to die, starts per second.

    bench/gpu/engine.py GPULANE

Needs torch. Every check prints a line; the exit code is the number of those that failed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
GPULANE = os.path.abspath(sys.argv[1])
WORK = Path(tempfile.mkdtemp(prefix="gpulane-gpu-"))
failures: list[str] = []


def check(name: str, holds: bool, seen: object = "") -> None:
    print(f"{'ok  ' if holds else 'FAIL'} {name}  {seen}", flush=True)
    if not holds:
        failures.append(name)


def gpulane(*args: str, **more: object) -> subprocess.CompletedProcess:
    return subprocess.run([GPULANE, *args], cwd=WORK, capture_output=True, text=True, **more)


def used_mib() -> list[int]:
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return [int(line) for line in subprocess.check_output(query, text=True).split()]


def tagged(run: Path) -> list[int]:
    """Living processes whose environment names the run."""
    tag, found = f"GPULANE_RUN={run}".encode(), []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and tag in (entry / "environ").read_bytes().split(b"\0"):
                if "State:\tZ" not in (entry / "status").read_text():
                    found.append(int(entry.name))
        except OSError:
            pass
    return found


def events(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]


def wait_until(what: str, condition, seconds: float) -> float:
    begun = time.monotonic()
    while time.monotonic() - begun < seconds:
        if condition():
            return time.monotonic() - begun
        time.sleep(0.005)
    raise TimeoutError(what)


def trainings(jobs: int, lanes: int) -> float:
    run = WORK / f"train-{lanes}"
    seeds = ", ".join(str(seed) for seed in range(jobs))
    (WORK / "plan.toml").write_text(
        f"""
[[stage]]
name = "train"
command = ["{sys.executable}", "{HERE / 'train.py'}"]
[stage.matrix]
seed = [{seeds}]
lr = [1e-3]
[[stage]]
name = "evaluate"
foreach = "train"
after = ["train"]
parallel = 1
gpus = 0
command = ["{sys.executable}", "-c", "import os,sys; assert os.path.getsize(os.path.join(sys.argv[1], 'model.pt')) > 1000", "{{input}}"]
"""
    )
    begun = time.monotonic()
    done = gpulane("run", "plan.toml", "--lanes", str(lanes), "--run-dir", str(run))
    seconds = time.monotonic() - begun
    check(f"{jobs} trainings, {lanes} lanes on the GPU", done.returncode == 0, f"{seconds:.1f} s")
    if done.returncode:
        print(done.stderr[-3000:])
    seen = [event for event in events(run) if event["event"] == "job_succeeded"]
    check("every training and evaluation succeeded once", len(seen) == 2 * jobs, len(seen))
    return seconds


def holders(name: str) -> tuple[subprocess.Popen, Path, list[int]]:
    """Two jobs that hold 2 GiB each through a child in another session."""
    before = used_mib()
    run = WORK / name
    process = subprocess.Popen(
        [GPULANE, "run", "--lanes", "2", "--quiet", "--run-dir", str(run), "-s", "n=range(2)", "--", sys.executable, str(HERE / "hold.py")],
        cwd=WORK,
        stderr=subprocess.DEVNULL,
    )
    wait_until("memory held", lambda: len(list(run.glob("jobs/*/*/attempt-1/out/ready-*"))) == 4, 120)
    check(f"{name}: memory is held", used_mib()[0] - before[0] > 4000, f"{used_mib()} MiB")
    return process, run, before


def ends(name: str, kill) -> None:
    process, run, before = holders(name)
    begun = time.monotonic()
    kill(process, run)
    try:
        gone = wait_until("no process", lambda: not tagged(run), 15)
        wait_until("memory back", lambda: used_mib()[0] <= before[0] + 1, 15)
        total = time.monotonic() - begun
        check(f"{name}: nothing left, memory back", True, f"processes {gone:.2f} s, memory {total:.2f} s, {used_mib()} MiB")
    except TimeoutError as error:
        check(f"{name}: {error}", False, f"{tagged(run)} {used_mib()} MiB")
    process.wait()


def engine_of(run: Path) -> int:
    return next(event["pid"] for event in events(run) if event["event"] == "run_started")


def main() -> int:
    print(subprocess.check_output(["nvidia-smi", "-L"], text=True).strip())
    print(f"{os.cpu_count()} cores, Linux {os.uname().release}, {WORK}")
    one = gpulane("run", "--json", "--", sys.executable, "-c", "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])")
    machine = json.loads(one.stdout.splitlines()[0])["machine"]
    listed = subprocess.check_output(["nvidia-smi", "--query-gpu=uuid,name,memory.total", "--format=csv,noheader,nounits"], text=True)
    uuid, name, total = (field.strip() for field in listed.splitlines()[0].split(","))
    gpu = machine["gpus"][0]
    check("inventory agrees with nvidia-smi", (gpu["uuid"], gpu["name"], gpu["memory"] >> 20) == (uuid, name, int(total)), gpu)
    check("an absent GPU is exit 5", gpulane("run", "--gpus", "7", "--", "true").returncode == 5)
    check("two GPUs at once are exit 5 here", gpulane("run", "--job-gpus", str(len(machine["gpus"]) + 1), "--", "true").returncode == 5)
    serial = trainings(4, 1)
    packed = trainings(13, 6)
    print(f"     one by one {serial / 4:.2f} s a training; 13 on 6 lanes {packed:.1f} s, {serial / 4 * 13 / packed:.2f} x")
    ends("kill -9 of gpulane", lambda process, run: process.kill())
    ends("kill -9 of the engine", lambda process, run: os.kill(engine_of(run), signal.SIGKILL))
    ends("interrupt", lambda process, run: process.send_signal(signal.SIGINT))
    shutil.rmtree(WORK, ignore_errors=True)
    print(f"{len(failures)} failed")
    return len(failures)


if __name__ == "__main__":
    sys.exit(main())
