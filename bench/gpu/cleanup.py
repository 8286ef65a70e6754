#!/usr/bin/env python3
"""`gpulane.cleanup()` on a real GPU: fills the pools of torch and CuPy, cleans, and looks with the driver's own eyes.

    bench/gpu/cleanup.py [FILE.json]

Needs torch; CuPy if it is there. The work is done in a process like a notebook's, which is told what to run piece by
piece, and in a Jupyter kernel where there is one. Nothing else may use the GPU meanwhile. Takes less than two minutes.
Every check prints a line, all numbers go to FILE.json; the last line is `N failed`, as the exit code.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, List

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20
MARGIN = 64 * MIB
"""What a context may differ by from one process to the next."""
PATIENCE_S = 60.0

failures: List[str] = []

BARE = "import torch; torch.zeros(1, device='cuda'); torch.cuda.synchronize()"

# `scale` 1 fills gigabytes; a small one does the same kinds of work, so that the same code is loaded onto the GPU.
FILL = """
import importlib.util, json, sys
sys.path.insert(0, {python!r})
import torch
import gpulane

def fill_torch(scale):
    kept = [torch.rand(int(scale * 256) + 1, 1 << 20, device="cuda") for _ in range(4)]
    side = max(64, int(8192 * scale))
    a = torch.rand(side, side, device="cuda", dtype=torch.float16)
    for stream in [torch.cuda.Stream() for _ in range(4)]:
        with torch.cuda.stream(stream):
            a @ a
    torch.fft.fftn(torch.rand(max(8, int(256 * scale)), 64, 64, device="cuda"))
    pinned = [torch.empty(int(scale * 64) + 1, 1 << 20, dtype=torch.uint8, pin_memory=True) for _ in range(4)]
    torch.cuda.synchronize()

def fill_compiled(scale):
    try:
        made = torch.compile(lambda x: (x.sin() * 2 + 1).sum(1), mode="reduce-overhead")
        x = torch.rand(int(scale * 64) + 1, 1 << 20, device="cuda")
        for _ in range(4):
            made(x)
        torch.cuda.synchronize()
        return "compiled"
    except Exception as error:
        return f"not compiled: {{type(error).__name__}}"

def fill_cupy(scale):
    import cupy
    kept = [cupy.random.random((int(scale * 128) + 1, 1 << 20), dtype=cupy.float32) for _ in range(4)]
    for side in (64, 96, 128):
        cupy.fft.fftn(cupy.random.random((max(8, int(side * scale)), side, side), dtype=cupy.float32))
    pinned = [cupy.cuda.alloc_pinned_memory((int(scale * 64) + 1) << 20) for _ in range(4)]
    cupy.cuda.runtime.deviceSynchronize()

fill_torch({scale})
compiled = fill_compiled({scale})
if importlib.util.find_spec("cupy"):
    fill_cupy({scale})
print("REPORT " + json.dumps({{"compiled": compiled}}))
"""

CLEAN = """
import time
begun = time.monotonic()
freed = gpulane.cleanup(quiet=True)
print("REPORT " + json.dumps({
    "seconds": time.monotonic() - begun, "freed": freed.freed, "by_library": freed.by_library, "held": freed.held,
    "pinned": freed.pinned, "context": freed.context, "failures": list(freed.failures), "said": str(freed),
}))
"""

AGAIN = """
x = torch.rand(512, 512, device="cuda", dtype=torch.float64)
right = [bool(torch.allclose((x @ x).cpu(), x.cpu() @ x.cpu()))]
if importlib.util.find_spec("cupy"):
    import cupy
    y = cupy.random.random((64, 64))
    right.append(bool(cupy.allclose(cupy.fft.ifftn(cupy.fft.fftn(y)).real, y)))
    del y
del x
print("REPORT " + json.dumps({"right": right}))
"""


def check(name: str, holds: bool, seen: object = "") -> None:
    print(f"{'ok  ' if holds else 'FAIL'} {name}  {seen}", flush=True)
    if not holds:
        failures.append(name)


class Nvml:
    """Our own eyes, apart from gpulane's. Of the whole GPU: in a container, processes may not be told apart."""

    class Memory(ctypes.Structure):
        _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self.device = ctypes.c_void_p()
        for rc in (
            self.library.nvmlInit_v2(),
            self.library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device)),
        ):
            if rc:
                raise SystemExit(f"NVML answers with error {rc}: is there a GPU?")

    def used(self) -> int:
        memory = self.Memory()
        rc = self.library.nvmlDeviceGetMemoryInfo(self.device, ctypes.byref(memory))
        if rc:
            raise SystemExit(f"NVML answers with error {rc}")
        return int(memory.used)


class Plain:
    """A process that stays and runs what it is told, as a kernel does."""

    name = "plain process"
    LOOP = (
        "import sys, json\n"
        "space = {'__name__': '__main__'}\n"
        "for line in sys.stdin:\n"
        "    exec(json.loads(line), space)\n"
        "    print('DONE', flush=True)\n"
    )

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-B", "-c", self.LOOP], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, code: str) -> Dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(code) + "\n")
        self.process.stdin.flush()
        report: Dict[str, Any] = {}
        for line in self.process.stdout:
            if line.startswith("REPORT "):
                report = json.loads(line[len("REPORT ") :])
            elif line.strip() == "DONE":
                return report
        raise RuntimeError(f"the process ended with {self.process.wait()}")

    def end(self) -> float:
        """Seconds from the end of its input to the end of the process."""
        assert self.process.stdin is not None
        begun = time.monotonic()
        self.process.stdin.close()
        self.process.wait(PATIENCE_S)
        return time.monotonic() - begun


class Kernel:
    """A Jupyter kernel."""

    name = "Jupyter kernel"

    def __init__(self) -> None:
        from jupyter_client.manager import start_new_kernel

        self.manager, self.client = start_new_kernel(kernel_name="python3")

    def run(self, code: str) -> Dict[str, Any]:
        said: List[str] = []

        def hear(message: Dict[str, Any]) -> None:
            if message["msg_type"] == "stream":
                said.append(message["content"]["text"])

        reply = self.client.execute_interactive(code, timeout=PATIENCE_S, output_hook=hear)["content"]
        if reply["status"] != "ok":
            raise RuntimeError("\n".join(reply.get("traceback", ["the cell failed"])))
        lines = [line for line in "".join(said).splitlines() if line.startswith("REPORT ")]
        return json.loads(lines[-1][len("REPORT ") :]) if lines else {}

    def end(self) -> float:
        """Seconds from asking it to shut down to the end of the process."""
        begun = time.monotonic()
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=False)
        return time.monotonic() - begun


def memory_back(nvml: Nvml, base: int) -> int:
    """What is left of a process that has ended. The driver may take a moment."""
    deadline = time.monotonic() + 10
    while nvml.used() - base > MARGIN and time.monotonic() < deadline:
        time.sleep(0.05)
    return nvml.used() - base


def reference(nvml: Nvml, code: str) -> int:
    """GPU memory of a fresh process that has run this and nothing else."""
    base = nvml.used()
    process = Plain()
    process.run(code)
    used = nvml.used() - base
    process.end()
    memory_back(nvml, base)
    return used


def fill(scale: float) -> str:
    return FILL.format(python=str(ROOT / "python"), scale=scale)


def subject(nvml: Nvml, kind: Any, loaded: int) -> Dict[str, Any]:
    """Filled, cleaned, used again, cleaned again, ended."""
    base = nvml.used()
    process = kind()
    filling = process.run(fill(1.0))
    full = nvml.used() - base
    cleaned = process.run(CLEAN)
    after = nvml.used() - base
    again = process.run(AGAIN)
    process.run(CLEAN)
    twice = nvml.used() - base
    ended = process.end()
    left = memory_back(nvml, base)
    name = kind.name
    libraries = ["torch"] + (["CuPy"] if importlib.util.find_spec("cupy") else [])
    check(f"{name}: the pools held memory", full - loaded >= 3 << 30, f"{full // MIB} MiB, {filling['compiled']}")
    check(
        f"{name}: back to the context", after <= loaded + MARGIN, f"{after // MIB} MiB, of it code {loaded // MIB} MiB"
    )
    told = cleaned["freed"] / max(1, full - after)
    check(f"{name}: what it says is what the driver sees", 0.9 <= told <= 1.1, f"{told:.3f}; {cleaned['said']}")
    by = cleaned["by_library"]
    check(f"{name}: every library gave back", all(by.get(each, 0) >= 1 << 30 for each in libraries), by)
    check(f"{name}: no step failed", not cleaned["failures"], cleaned["failures"])
    check(f"{name}: both go on working", all(again["right"]), again["right"])
    check(f"{name}: back again the second time", twice <= loaded + MARGIN, f"{twice // MIB} MiB")
    check(f"{name}: the cell that cleans up is over within 2 s", cleaned["seconds"] <= 2.0, f"{cleaned['seconds']:.2f} s")
    check(f"{name}: ends by itself", ended <= 10.0, f"{ended:.2f} s")
    check(f"{name}: nothing is left on the GPU", left <= MARGIN, f"{left // MIB} MiB")
    figures = {"full": full, "after": after, "twice": twice, "left": left, "end_s": round(ended, 3)}
    return {"name": name, **figures, "cleanup": cleaned}


def main() -> int:
    begun = time.monotonic()
    nvml = Nvml()
    bare, loaded = reference(nvml, BARE), reference(nvml, fill(0.001))
    print(
        f"     a bare context takes {bare // MIB} MiB; with the code of this work loaded {loaded // MIB} MiB",
        flush=True,
    )
    found: Dict[str, Any] = {"bare_context": bare, "loaded_context": loaded, "subjects": []}
    kinds: List[Any] = [Plain]
    if importlib.util.find_spec("jupyter_client") and importlib.util.find_spec("ipykernel"):
        kinds.append(Kernel)
    else:
        print("     Jupyter is not installed: the plain process stands in for a notebook", flush=True)
    for kind in kinds:
        try:
            found["subjects"].append(subject(nvml, kind, loaded))
        except Exception as error:
            check(f"{kind.name}: {type(error).__name__}: {error}", False)
    found["seconds"] = round(time.monotonic() - begun, 1)
    found["failures"] = failures
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(found, indent=1))
    print(f"\n{found['seconds']} s")
    print(f"{len(failures)} failed")
    return len(failures)


if __name__ == "__main__":
    sys.exit(main())
