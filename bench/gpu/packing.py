#!/usr/bin/env python3
"""Memory on a real GPU: what `gpus` shows, packing by `memory = "auto"`, MPS, out of memory, other people's processes.

    bench/gpu/packing.py GPULANE [--steps N] [--only PART,…]

Needs torch. Every check prints a line; the exit code is the number of those that failed.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PARSER = argparse.ArgumentParser()
PARSER.add_argument("gpulane")
PARSER.add_argument("--steps", type=int, default=7000, help="of each training; 7000 take about 10 s on an H200")
PARSER.add_argument("--serial", type=int, default=13, help="how many to run one by one; the time is scaled to 13")
PARSER.add_argument("--again", action="store_true", help="also run each a second time, with what the first learned")
PARSER.add_argument("--only", default="gpus,packing,oom,kill,fault,queue,back")
ARGS = PARSER.parse_args()
GPULANE = os.path.abspath(ARGS.gpulane)
WORK = Path(tempfile.mkdtemp(prefix="gpulane-gpu-"))
failures: list[str] = []


def check(name: str, holds: bool, seen: object = "") -> None:
    print(f"{'ok  ' if holds else 'FAIL'} {name}  {seen}", flush=True)
    if not holds:
        failures.append(name)


def environment(cache: str) -> dict:
    """Each measurement begins without knowledge from earlier ones unless it says so."""
    return dict(os.environ, XDG_CACHE_HOME=str(WORK / f"cache-{cache}"))


def gpulane(*args: str, cache: str = "common", **more: object) -> subprocess.CompletedProcess:
    return subprocess.run([GPULANE, *args], cwd=WORK, capture_output=True, text=True, env=environment(cache), **more)


def events(run: Path, name: str = "") -> list[dict]:
    try:
        lines = (run / "journal.jsonl").read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            found.append(json.loads(line))
        except ValueError:
            pass
    return [event for event in found if not name or event.get("event") == name]


def wait_until(what: str, condition, seconds: float) -> float:
    begun = time.monotonic()
    while time.monotonic() - begun < seconds:
        if condition():
            return time.monotonic() - begun
        time.sleep(0.005)
    raise TimeoutError(what)


class Nvml:
    """Our own eyes, apart from gpulane's."""

    class Memory(ctypes.Structure):
        _fields_ = [("version", ctypes.c_uint)] + [(name, ctypes.c_ulonglong) for name in ("total", "reserved", "free", "used")]

    class Process(ctypes.Structure):
        _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gi", ctypes.c_uint), ("ci", ctypes.c_uint)]

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self.library.nvmlInit_v2()
        self.device = ctypes.c_void_p()
        self.library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device))

    def used(self) -> int:
        memory = self.Memory()
        memory.version = ctypes.sizeof(self.Memory) | (2 << 24)
        self.library.nvmlDeviceGetMemoryInfo_v2(self.device, ctypes.byref(memory))
        return memory.used

    def processes(self) -> dict[int, int]:
        count, found = ctypes.c_uint(64), (self.Process * 64)()
        self.library.nvmlDeviceGetComputeRunningProcesses_v3(self.device, ctypes.byref(count), found)
        return {found[at].pid: found[at].used for at in range(count.value)}


NVML = Nvml()


class Peaks:
    """The highest memory of each process, looked at every 5 ms."""

    def __enter__(self) -> "Peaks":
        self.peaks: dict[int, int] = {}
        self.most = 0
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.follow)
        self.thread.start()
        return self

    def follow(self) -> None:
        while not self.stop.wait(0.005):
            self.most = max(self.most, NVML.used())
            for pid, used in NVML.processes().items():
                self.peaks[pid] = max(self.peaks.get(pid, 0), used)

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join()


def smi(query: str) -> list[str]:
    text = subprocess.check_output(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"], text=True)
    return [field.strip() for field in text.splitlines()[0].split(",")]


def gpus() -> None:
    code = "import torch,time; x=torch.empty(1<<30,dtype=torch.uint8,device='cuda'); print('up',flush=True); time.sleep(600)"
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    holder.stdout.readline()
    try:
        compare(holder)
    finally:
        holder.kill()
        holder.wait()


def compare(holder: subprocess.Popen) -> None:
    shown = json.loads(gpulane("gpus", "--json").stdout)[0]
    uuid, name, total, used, reserved, pci = smi("uuid,name,memory.total,memory.used,memory.reserved,pci.bus_id")
    memory = shown["memory"]
    check("gpus: UUID, name and place are nvidia-smi's", (shown["uuid"], shown["name"], shown["pci"]) == (uuid, name, pci), (uuid, name, pci))
    mib = [memory[key] >> 20 for key in ("total", "used", "reserved")]
    check("gpus: memory is nvidia-smi's", all(abs(ours - int(theirs)) <= 1 for ours, theirs in zip(mib, (total, used, reserved))), (mib, total, used, reserved))
    temperature, power, mode = smi("temperature.gpu,power.draw.instant,compute_mode")
    check("gpus: temperature and power are about nvidia-smi's", abs(shown["temperature"] - int(temperature)) <= 3 and abs(shown["power"] - float(power)) < 60, (shown["temperature"], temperature, shown["power"], power, mode))
    apps = subprocess.check_output(["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"], text=True)
    theirs = {int(line.split(",")[0]): int(line.split(",")[1]) for line in apps.splitlines()}
    ours = {seen["pid"]: seen["memory"] >> 20 for seen in shown["holders"]}
    check("gpus: processes are nvidia-smi's", ours == theirs and holder.pid in ours, (ours, theirs))
    print(gpulane("gpus").stdout)
    foreign = gpulane("run", "--", "true")
    check("a GPU in use by others is exit 5", foreign.returncode == 5 and str(holder.pid) in foreign.stderr, foreign.stderr.strip()[-300:])
    ignored = gpulane("run", "--foreign", "ignore", "--", "true")
    check("--foreign ignore uses it", ignored.returncode == 0, ignored.stderr.strip()[-300:])
    waiting = subprocess.Popen([GPULANE, "run", "--foreign", "wait", "--run-dir", str(WORK / "waits"), "--", "true"], cwd=WORK, stderr=subprocess.DEVNULL)
    time.sleep(2)
    check("--foreign wait waits", waiting.poll() is None and not events(WORK / "waits", "job_started"))
    holder.kill()
    check("and goes on when it is free", waiting.wait(timeout=30) == 0)


def trainings(name: str, settings: str, count: int = 13, *, cache: str) -> tuple[float, Path, "Peaks"]:
    run = WORK / name
    seeds = ", ".join(str(seed) for seed in range(count))
    (WORK / f"{name}.toml").write_text(
        f"""
[[stage]]
name = "train"
command = ["{sys.executable}", "{HERE / 'small.py'}"]
{settings}
[stage.matrix]
seed = [{seeds}]
steps = [{ARGS.steps}]
"""
    )
    with Peaks() as peaks:
        begun = time.monotonic()
        done = gpulane("run", f"{name}.toml", "--run-dir", str(run), cache=cache)
        seconds = time.monotonic() - begun
    check(f"{count} trainings, {name}", done.returncode == 0 and len(events(run, "job_succeeded")) == count, f"{seconds:.1f} s")
    if done.returncode:
        print(done.stderr[-3000:])
    check(f"{name}: no try failed", not events(run, "job_failed"), [event.get("message") for event in events(run, "job_failed")])
    return seconds, run, peaks


def packing() -> None:
    one, run, peaks = trainings("one-by-one", "", ARGS.serial, cache="one")
    one *= 13 / ARGS.serial
    print(f"     one by one: {one:.1f} s for 13, {one / 13:.1f} s each")
    pids = {event["job"]: event["pid"] for event in events(run, "job_started")}
    off = [abs(event["peak_vram"] - peaks.peaks[pids[event["job"]]]) / peaks.peaks[pids[event["job"]]] for event in events(run, "job_succeeded")]
    check("peaks are within 5% of the true ones", max(off) < 0.05, f"worst {max(off):.2%}, {min(peaks.peaks.values()) >> 20}–{max(peaks.peaks.values()) >> 20} MiB")
    for name, settings, goal in [("auto", 'memory = "auto"', 6), ("auto-mps", 'memory = "auto"\nmps = true', 9)]:
        seconds, run, peaks = trainings(name, settings, cache=name)
        measured = events(run, "memory_measured")
        begun = events(run, "run_started")[0]["time"]
        for event in measured:
            true = max(peaks.peaks.values())
            print(f"     measured at {event['time']} (run began {begun}): {event['peak'] / 2**20:.0f} MiB, reserved {event['reserve'] / 2**20:.0f}; true peak {true / 2**20:.0f}")
        if measured:
            check(f"{name}: measured within 5% of the truth", abs(measured[-1]["peak"] - max(peaks.peaks.values())) < 0.05 * max(peaks.peaks.values()))
        check(f"{name}: {goal} times one by one, measuring included", one / seconds >= goal, f"{one:.1f} s / {seconds:.1f} s = {one / seconds:.2f}")
        if ARGS.again:
            again, _, _ = trainings(f"{name}-again", settings, cache=name)
            print(f"     a second run, which knows the memory: {again:.1f} s, {one / again:.2f} times")
    time.sleep(0.2)
    check("no MPS daemon and no memory is left", NVML.used() < 32 << 20 and not mps_processes(), (NVML.used() >> 20, mps_processes()))


def mps_processes() -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and "nvidia-cuda-mps" in (entry / "cmdline").read_text() and "\nState:\tZ" not in (entry / "status").read_text():
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def oom() -> None:
    run = WORK / "over-packed"
    (WORK / "over.toml").write_text(
        f"""
[[stage]]
name = "grow"
command = ["{sys.executable}", "{HERE / 'grow.py'}"]
memory = "25GiB"
[stage.matrix]
seed = [0, 1, 2, 3, 4]
gib = [60]
seconds = [2]
"""
    )
    begun = time.monotonic()
    done = gpulane("run", "over.toml", "--run-dir", str(run))
    ooms = [event for event in events(run, "job_failed") if event["reason"] == "oom"]
    check("an over-packed set ends with every job succeeded", done.returncode == 0 and len(events(run, "job_succeeded")) == 5, f"{len(ooms)} tries ran out of memory, {time.monotonic() - begun:.1f} s")
    check("it really was over-packed, and recognised", len(ooms) >= 2 and len(ooms) == len(events(run, "job_failed")), [event.get("message", "")[:150] for event in ooms[:2]])
    alone = WORK / "never"
    done = gpulane("run", "--run-dir", str(alone), "-s", "gib=200", "--", sys.executable, str(HERE / "grow.py"))
    failed = events(alone, "job_failed")
    check("what never fits fails with oom and the numbers", done.returncode == 3 and failed and failed[-1]["reason"] == "oom", failed[-1].get("message") if failed else done.stderr[-500:])


def kill() -> None:
    for name, mps in [("kill", ""), ("kill-mps", "mps = true")]:
        run = WORK / name
        (WORK / f"{name}.toml").write_text(
            f"""
[[stage]]
name = "hold"
command = ["{sys.executable}", "{HERE / 'hold.py'}"]
memory = "8GiB"
{mps}
[stage.matrix]
n = [0, 1, 2]
"""
        )
        process = subprocess.Popen([GPULANE, "run", "--quiet", f"{name}.toml", "--run-dir", str(run)], cwd=WORK, stderr=subprocess.DEVNULL, env=environment("kill"))
        wait_until("memory held", lambda: len(list(run.glob("jobs/*/*/attempt-1/out/ready-*"))) == 6, 120)
        held = NVML.used() >> 20
        begun = time.monotonic()
        process.send_signal(signal.SIGKILL)
        try:
            wait_until("memory back", lambda: NVML.used() == 0 and not NVML.processes() and not mps_processes(), 15)
            took = time.monotonic() - begun
            check(f"{name}: SIGKILL of gpulane, 0 MiB within 2 s", took < 2, f"{held} MiB back in {took:.2f} s")
        except TimeoutError:
            check(f"{name}: memory back", False, (NVML.used() >> 20, NVML.processes(), mps_processes()))
        process.wait()


def fault() -> None:
    run = WORK / "fault"
    (WORK / "fault.toml").write_text(
        f"""
[[stage]]
name = "fault"
command = ["{sys.executable}", "{HERE / 'fault.py'}"]
memory = "4GiB"
mps = true
[stage.matrix]
fault = [0, 1]
n = [0, 1, 2]
exclude = [{{ fault = 1, n = 1 }}, {{ fault = 1, n = 2 }}]
"""
    )
    begun = time.monotonic()
    done = gpulane("run", "fault.toml", "--run-dir", str(run))
    seconds = time.monotonic() - begun
    said = events(run, "mps_fault")
    good = [event["job"] for event in events(run, "job_succeeded")]
    check("a fault under MPS: the others succeed, the culprit fails", done.returncode == 3 and len(good) == 3 and len(said) >= 1, f"{seconds:.1f} s, {said[:1]}")
    for event in events(run, "job_failed"):
        print("    ", event["job"], event["attempt"], event["reason"], event.get("shared"), (event.get("message") or "")[:120])


def queue() -> None:
    runs = [WORK / f"queue-{at}" for at in range(5)]
    code = "import time,torch; torch.zeros(1,device='cuda'); time.sleep(1)"
    for run in runs:
        gpulane("run", "--detach", "--run-dir", str(run), "--", sys.executable, "-c", code)
    wait_until("all ended", lambda: all(events(run, "run_finished") for run in runs), 120)
    starts = [events(run, "job_started")[0]["time"] for run in runs]
    ends = [events(run, "job_succeeded")[0]["time"] for run in runs]
    check("five detached runs are a queue", starts == sorted(starts) and all(end <= start for end, start in zip(ends, starts[1:])), list(zip(starts, ends)))


def back() -> None:
    run = WORK / "back"
    code = "import torch; x=torch.empty(8<<30,dtype=torch.uint8,device='cuda'); torch.cuda.synchronize()"
    done = gpulane("run", "--run-dir", str(run), "-s", "n=range(4)", "--", sys.executable, "-c", code)
    check("8 GiB each, one after the other", done.returncode == 0 and not events(run, "vram_held"))
    log = events(run)
    when = {(event["event"], event.get("job")): event["time"] for event in log}
    print("     gaps between an end and the next start:", [(name, job, time) for (name, job), time in when.items() if name in ("job_started", "job_succeeded")])


def main() -> int:
    print(subprocess.check_output(["nvidia-smi", "-L"], text=True).strip())
    print(f"{os.cpu_count()} cores, Linux {os.uname().release}, {WORK}")
    parts = {"gpus": gpus, "packing": packing, "oom": oom, "kill": kill, "fault": fault, "queue": queue, "back": back}
    chosen = ARGS.only.split(",")
    if unknown := [name for name in chosen if name not in parts]:
        PARSER.error(f"no such part: {', '.join(unknown)}; there are {', '.join(parts)}")
    for name in chosen:
        try:
            parts[name]()
        except Exception as error:  # noqa: BLE001: the other parts still tell something
            check(f"{name}: {type(error).__name__}: {error}", False)
    shutil.rmtree(WORK, ignore_errors=True)
    print(f"{len(failures)} failed: {failures}")
    return len(failures)


if __name__ == "__main__":
    sys.exit(main())
