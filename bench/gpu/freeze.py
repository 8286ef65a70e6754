#!/usr/bin/env python3
"""The watchdog on a real GPU: what freezes is found, named and ended; what works is left alone; memory comes back.

    bench/gpu/freeze.py GPULANE [--only PART,…]

Needs torch; the notebook parts need CuPy. Every check prints a line; the exit code is the number of those that failed.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from datetime import datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
PARSER = argparse.ArgumentParser()
PARSER.add_argument("gpulane")
PARSER.add_argument("--only", default="fork,lock,busy,notebook,result,beside,cancel,doctor")
ARGS = PARSER.parse_args()
GPULANE = os.path.abspath(ARGS.gpulane)
WORK = Path(tempfile.mkdtemp(prefix="gpulane-freeze-"))
PYTHON = sys.executable
failures: list[str] = []


def check(name: str, holds: bool, seen: object = "") -> None:
    print(f"{'ok  ' if holds else 'FAIL'} {name}  {seen}", flush=True)
    if not holds:
        failures.append(name)


class Memory(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint)] + [(name, ctypes.c_ulonglong) for name in ("total", "reserved", "free", "used")]


LIBRARY = ctypes.CDLL("libnvidia-ml.so.1")
LIBRARY.nvmlInit_v2()
DEVICE = ctypes.c_void_p()
LIBRARY.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(DEVICE))


def used() -> int:
    memory = Memory()
    memory.version = ctypes.sizeof(Memory) | (2 << 24)
    LIBRARY.nvmlDeviceGetMemoryInfo_v2(DEVICE, ctypes.byref(memory))
    return memory.used >> 20


class History:
    """What the GPU's memory was at each moment."""

    def __enter__(self) -> "History":
        self.points: list[tuple[float, int]] = []
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.follow)
        self.thread.start()
        return self

    def follow(self) -> None:
        while not self.stop.wait(0.01):
            self.points.append((time.time(), used()))

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join()

    def back_after(self, moment: float, idle: int) -> float | None:
        """Seconds from a moment to when memory was as before, to 64 MiB."""
        back = next((at for at, mib in self.points if at >= moment and mib <= idle + 64), None)
        return None if back is None else back - moment


def stage(name: str, *argv: object, **keys: object) -> str:
    lines = ["[[stage]]", f'name = "{name}"', f"command = {json.dumps([PYTHON, *map(str, argv)])}"]
    lines += [f"{key} = {value}" for key, value in keys.items()]
    return "\n".join(lines) + "\n"


class Run:
    def __init__(self, name: str, *stages: str, flags: tuple[str, ...] = (), wait: bool = True) -> None:
        plan = WORK / f"{name}.toml"
        plan.write_text(f'name = "{name}"\n' + "\n".join(stages))
        self.dir = WORK / name
        environment = dict(os.environ, XDG_CACHE_HOME=str(WORK / "cache"))
        self.began = time.time()
        command = [GPULANE, "run", str(plan), "--run-dir", str(self.dir), *flags]
        self.process = subprocess.Popen(command, cwd=WORK, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if wait:
            self.text = self.process.communicate(timeout=180)[0]
            self.code = self.process.returncode

    def events(self, name: str = "", job: str = "") -> list[dict]:
        found = []
        try:
            lines = (self.dir / "journal.jsonl").read_text().splitlines()
        except OSError:
            return []
        for line in lines:
            try:
                found.append(json.loads(line))
            except ValueError:
                pass
        wanted = (event for event in found if not name or event.get("event") == name)
        return [event for event in wanted if not job or event.get("job", "").startswith(job)]

    def at(self, name: str, job: str = "") -> float:
        return stamp(self.events(name, job)[0])

    def stacks(self, job: str) -> str:
        return "\n".join(path.read_text() for path in self.dir.glob(f"jobs/{job}/*/attempt-*/stacks.txt"))


def stamp(event: dict) -> float:
    return datetime.fromisoformat(event["time"].replace("Z", "+00:00")).timestamp()


def wait_for(condition, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.02)
    return False


def frozen(name: str, script: str, expected: tuple[str, ...]) -> None:
    """A job that freezes on the GPU, and one that waits for its lane."""
    idle = used()
    with History() as history:
        run = Run(
            name,
            stage("freeze", HERE / "frozen" / script, hang='{ after = "5s", action = "fail" }', grace='"2s"'),
            stage("next", HERE / "frozen" / "next.py"),
            flags=("--lanes", "1"),
        )
    verdicts = run.events("hang_suspected", "freeze")
    failed = run.events("job_failed", "freeze")
    ok = bool(verdicts) and bool(failed) and failed[0]["reason"] == "hang"
    check(f"{name}: found frozen", ok, failed[0].get("message", "") if failed else run.text[-2000:])
    if not ok:
        return
    text = json.dumps(verdicts[-1]) + run.stacks("freeze")
    for word in expected:
        check(f"{name}: says {word!r}", word in text, verdicts[-1].get("cause", ""))
    verdict, ended, started = stamp(verdicts[-1]), stamp(failed[0]), run.at("job_started", "next")
    quiet = verdicts[-1]["quiet"]
    back = history.back_after(verdict, idle)
    check(
        f"{name}: next job runs, memory is back",
        run.events("job_succeeded", "next") != [] and back is not None,
        f"freeze to verdict {quiet:.1f} s, verdict to end {ended - verdict:.2f} s, verdict to memory back {back or -1:.2f} s, "
        f"verdict to next job running {started - verdict:.2f} s",
    )


def fork() -> None:
    frozen("fork", "fork.py", ("fork", "fork.py"))


def lock() -> None:
    frozen("lock", "lock.py", ("lock", "lock.py:11"))


def busy() -> None:
    run = Run("busy", stage("busy", HERE / "frozen" / "busy.py", 40, hang='{ after = "4s", action = "fail" }'))
    check("busy: silent for ten times the limit, lives", run.code == 0, f"{time.time() - run.began:.0f} s; {run.events('job_failed')}")


def lingering(name: str, *argv: object, **keys: object) -> None:
    idle = used()
    with History() as history:
        run = Run(
            name,
            stage("cell", HERE / "frozen" / "notebook.py", *argv, hang='"30s"', grace='"2s"', **keys),
            stage("next", HERE / "frozen" / "next.py"),
            flags=("--lanes", "1"),
        )
    lingered = run.events("job_lingered")
    check(f"{name}: ended, counts as success", run.code == 0 and bool(lingered), lingered[0].get("because", "") if lingered else run.text[-2000:])
    if not lingered:
        return
    wrote = next(path.stat().st_mtime for path in run.dir.glob("jobs/cell/*/out/result.txt"))
    ended = run.at("job_succeeded", "cell")
    back = history.back_after(wrote, idle)
    check(
        f"{name}: memory of the pools is back",
        back is not None,
        f"held {max(mib for _, mib in history.points) - idle} MiB; result to end {ended - wrote:.1f} s, to memory back {back or -1:.1f} s",
    )


def notebook() -> None:
    lingering("notebook", "done", HERE.parent.parent / "python")


def result() -> None:
    lingering("result", result='["result.txt"]')


def beside() -> None:
    """A frozen job shares its GPU with one that works: the other's work is not its sign of life."""
    run = Run(
        "beside",
        stage("busy", HERE / "frozen" / "busy.py", 45, memory='"4GiB"', hang='{ after = "5s", action = "fail" }'),
        stage("freeze", HERE / "frozen" / "lock.py", memory='"4GiB"', hang='{ after = "5s", action = "fail" }', grace='"1s"'),
    )
    reasons = {event["job"].split("/")[0]: event["reason"] for event in run.events("job_failed")}
    check("beside: the working one lives", "busy" not in reasons, reasons)
    check("beside: the frozen one is found beside it", reasons.get("freeze") == "hang", run.text[-1500:] if reasons.get("freeze") != "hang" else "")


def cancel() -> None:
    idle = used()
    with History() as history:
        run = Run("cancel", stage("busy", HERE / "frozen" / "busy.py", 120, grace='"1s"'), wait=False)
        wait_for(lambda: used() > idle + 300, 60)
        time.sleep(6)
        moment = time.time()
        subprocess.run([GPULANE, "cancel", str(run.dir)], capture_output=True)
        run.process.communicate(timeout=60)
        time.sleep(0.5)
    back = history.back_after(moment, idle)
    check("cancel: killed in the middle of a kernel, memory is back", back is not None, f"after {back or -1:.2f} s")


def doctor() -> None:
    told = subprocess.run([GPULANE, "doctor"], capture_output=True, text=True, timeout=120)
    print(told.stdout[-6000:], told.stderr[-1000:])
    check("doctor: of the machine", told.returncode in (0, 3), told.returncode)
    process = subprocess.Popen([PYTHON, str(HERE / "frozen" / "lock.py")], start_new_session=True)
    idle = used()
    wait_for(lambda: used() > idle + 1024, 60)
    time.sleep(1)
    begun = time.monotonic()
    told = subprocess.run([GPULANE, "doctor", str(process.pid)], capture_output=True, text=True, timeout=60)
    took = time.monotonic() - begun
    process.kill()
    print(told.stdout[-4000:], told.stderr[-1000:])
    check("doctor: of a frozen process", "lock.py:11" in told.stdout, f"{took:.1f} s")


for part in ARGS.only.split(","):
    begun = time.monotonic()
    try:
        globals()[part]()
    except Exception as error:  # the other parts are still worth having
        check(part, False, repr(error))
    print(f"     {part} took {time.monotonic() - begun:.0f} s", flush=True)
sys.exit(len(failures))
