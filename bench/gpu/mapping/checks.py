"""The worker's GPU side by itself: finishing against the fixtures, nvJPEG against Pillow, copies out of a memfd."""

from __future__ import annotations

import ctypes
import io
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import numpy as np
import torch
from PIL import Image

from gpulane._batches import Decode
from gpulane._device._cuda import Event
from gpulane._device._gpu import Gpu
from gpulane._device._nvjpeg import NvJpeg
from gpulane._device._torch import Torch
from gpulane._ring import ENTRY, JPEG, PLANES, Batch, Ring

from .pictures import picture

FIXTURES = Path(__file__).resolve().parents[3] / "tests" / "map-protocol" / "planes"
Check = Callable[[str, bool, object], None]


def ring_of(items: List[Tuple[int, Tuple[int, ...], int, int, bytes]], decode: str) -> Tuple[Ring, Batch]:
    """A ring of one slot that holds these: kind, dims, orientation, chroma, data."""
    table = -(-len(items) * ENTRY.size // 4096) * 4096
    size = table + sum(-(-len(item[4]) // 64) * 64 for item in items)
    size = -(-size // 4096) * 4096
    fd = os.memfd_create("ring")
    os.ftruncate(fd, size)
    at, rows = table, b""
    for number, (kind, dims, orientation, chroma, data) in enumerate(items):
        rows += ENTRY.pack(number, at, len(data), kind, 1, orientation, chroma, 0, *dims, 0, 0)
        os.pwrite(fd, data, at)
        at += -(-len(data) // 64) * 64
    os.pwrite(fd, rows, 0)
    ring = Ring(fd, {"slots": 1, "slot_bytes": size, "capacity": len(items), "decode": decode})
    head = {"batch": 1, "slot": 0, "first": 0, "count": len(items), "packed": False, "data": table, "data_end": at}
    return ring, Batch(ring, head)


def finished(gpu: Gpu, batch: Batch) -> np.ndarray:
    """What a batch becomes on the GPU: N×H×W×3."""
    ready = gpu.prepare(batch, 0, batch.count)
    ready.begin()
    result = ready.given.permute(0, 2, 3, 1).cpu().numpy()
    ready.end()
    return result


def fixtures(gpu: Gpu, check: Check) -> None:
    """Planes of every chroma and orientation, against what Pillow makes of the same file."""
    worst, mean = 0, 0.0
    for path in sorted(FIXTURES.glob("*.planes")):
        about = json.loads(path.with_suffix(".json").read_text())
        width, height = about["target"]
        dims = (about["height"], about["width"], about["chroma_height"], about["chroma_width"])
        item = (PLANES, dims, about["orientation"], about["chroma"], path.read_bytes())
        ring, batch = ring_of([item, item], f"rgb:{width}x{height}:{about['fit']}")
        gpu.open(ring)
        got = finished(gpu, batch)
        gpu.close()
        expected = np.frombuffer(path.with_suffix(".rgb").read_bytes(), np.uint8).reshape(height, width, 3)
        apart = np.abs(got.astype(int) - expected)
        worst, mean = max(worst, int(apart.max())), max(mean, float(apart.mean()))
    check("planes: at most 2 apart, 0.3 in the mean", worst <= 2 and mean <= 0.3, f"most {worst}, mean {mean:.3f}")


def jpegs(gpu: Gpu, check: Check, count: int = 64) -> None:
    """nvJPEG and the kernel, against Pillow."""
    data = [picture(seed) for seed in range(count)]
    gray = io.BytesIO()
    Image.open(io.BytesIO(data[0])).convert("L").save(gray, "JPEG", quality=90)
    rest = [gray.getvalue()]
    for subsampling in (0, 1):
        out = io.BytesIO()
        Image.open(io.BytesIO(data[1])).save(out, "JPEG", quality=90, subsampling=subsampling)
        rest.append(out.getvalue())
    data += rest
    ring, batch = ring_of([(JPEG, (375, 500, 0, 0), 1, 0, one) for one in data], "rgb:224x224")
    gpu.open(ring)
    got = finished(gpu, batch).astype(int)
    gpu.close()
    expected = [
        np.asarray(Image.open(io.BytesIO(one)).convert("RGB").resize((224, 224), Image.BILINEAR)) for one in data
    ]
    apart = np.abs(got - np.stack(expected))
    worst, mean = int(apart.max()), float(apart.mean(axis=(1, 2, 3)).max())
    check("nvJPEG: at most 4 apart, 1 in the mean", worst <= 4 and mean <= 1, f"most {worst}, mean {mean:.3f}")


def timed(gpu: Gpu, batch: Batch, rounds: int = 30) -> Tuple[float, float]:
    """Seconds per batch on the copy stream, and on the wall."""
    for _ in range(3):
        gpu.prepare(batch, 0, batch.count)
    torch.cuda.synchronize()
    spent, kept = [], []
    begun = time.monotonic()
    for _ in range(rounds):
        kept.append(gpu.prepare(batch, 0, batch.count))
        if len(kept) > 2:
            ready = kept.pop(0)
            ready.begin()
            ready.end()
            spent.append(ready.seconds()[0])
    torch.cuda.synchronize()
    return statistics.median(spent), (time.monotonic() - begun) / rounds


def rates(gpu: Gpu, count: int = 256) -> Dict[str, Any]:
    """How quick a batch of `count` photographs is made ready, by the road it takes."""
    data = [picture(seed) for seed in range(count)]
    found: Dict[str, Any] = {}
    planes = []
    for one in data:
        image = Image.open(io.BytesIO(one))
        image.draft("YCbCr", None)
        luma, cb, cr = image.split()
        luma = luma.resize((500, 376))
        half = (250, 188)
        planes.append(luma.tobytes() + cb.resize(half).tobytes() + cr.resize(half).tobytes())
    roads = {
        "planes": [(PLANES, (375, 500, 188, 250), 1, 2, one) for one in planes],
        "jpeg": [(JPEG, (375, 500, 0, 0), 1, 0, one) for one in data],
    }
    for name, items in roads.items():
        ring, batch = ring_of(items, "rgb:224x224")
        gpu.open(ring)
        cpu = time.process_time()
        device, wall = timed(gpu, batch)
        cpu = (time.process_time() - cpu) / 33
        gpu.close()
        found[name] = {
            "device_ms": round(device * 1e3, 3),
            "wall_ms": round(wall * 1e3, 3),
            "images_per_s": round(count / wall),
            "cpu_ms_per_batch": round(cpu * 1e3, 3),
        }
    return found


def host_side(gpu: Torch, count: int = 256) -> Dict[str, float]:
    """Where the time of a batch of JPEGs goes in this process, in milliseconds."""
    import cProfile
    import pstats

    ring, batch = ring_of([(JPEG, (375, 500, 0, 0), 1, 0, picture(seed)) for seed in range(count)], "rgb:224x224")
    gpu.open(ring)
    decoder = gpu._decoder
    sources = [(batch.address + entry.offset, entry.bytes) for entry in batch.entries(0, count)]
    begun = time.monotonic()
    for address, length in sources:
        decoder._layout(address, length, 0)
    layout = time.monotonic() - begun
    torch.cuda.synchronize()
    begun = time.monotonic()
    decoder.decode(sources, gpu.allocate, gpu.stream)
    returned = time.monotonic() - begun
    torch.cuda.synchronize()
    done = time.monotonic() - begun
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(5):
        gpu.prepare(batch, 0, count)
    torch.cuda.synchronize()
    profile.disable()
    pstats.Stats(profile).sort_stats("tottime").print_stats(8)
    gpu.close()
    spent = {"layout": layout, "decode returned": returned, "decode done": done}
    return {name: round(seconds * 1e3, 2) for name, seconds in spent.items()}


def nvjpeg_rates(gpu: Torch) -> Dict[str, Any]:
    """nvJPEG's engines one by one; batches of 64 and 256."""
    found: Dict[str, Any] = {}
    before = gpu._decoder
    os.environ.pop("GPULANE_NVJPEG", None)
    for decoder in NvJpeg.candidates(gpu.driver):
        gpu._decoder = decoder
        trusted = gpu._is_trusted(decoder)
        for count in (64, 256):
            found[f"{decoder.backend} {count}"] = rates(gpu, count)["jpeg"] if trusted else "not right"
    gpu._decoder = before
    return found


def copies(gpu: Gpu, check: Check) -> None:
    """Host to device out of a registered memfd."""
    size, slots = 256 * 224 * 224 * 3 + 16384, 24
    size = -(-size // 4096) * 4096
    fd = os.memfd_create("ring")
    os.posix_fallocate(fd, 0, size * slots)
    ring = Ring(fd, {"slots": slots, "slot_bytes": size, "capacity": 256, "decode": "bytes"})
    ctypes.memset(ring.address, 7, ring.bytes)
    begun = time.monotonic()
    gpu.open(ring)
    pinning = time.monotonic() - begun
    target = gpu.allocate(size)
    first, last = Event(gpu.driver), Event(gpu.driver)
    for rounds in (1, 4):
        first.record(gpu.stream)
        for slot in range(slots * rounds):
            gpu.driver.to_device(target.address, ring.address + slot % slots * size, size, gpu.stream)
        last.record(gpu.stream)
        last.wait()
    rate = size * slots * 4 / last.seconds_since(first) / 1e9
    gpu.close()
    ring.close()
    check("host to device out of the ring, 50 GB/s", rate >= 50, f"{rate:.1f} GB/s")
    print(f"     pinned {size * slots / 2**30:.2f} GiB in {pinning:.3f} s", flush=True)


def run(check: Check) -> Dict[str, Any]:
    """All of it."""
    print(f"     {sys.version.split()[0]}, torch {torch.__version__}", flush=True)
    begun = time.monotonic()
    gpu = Torch(torch)
    print(f"     context in {time.monotonic() - begun:.3f} s", flush=True)
    begun = time.monotonic()
    os.environ["GPULANE_FINISH"] = "planes"
    gpu.accepts(None)
    print(f"     kernel compiled in {time.monotonic() - begun:.3f} s", flush=True)
    del os.environ["GPULANE_FINISH"]
    begun = time.monotonic()
    gpu = Torch(torch)
    accepts = gpu.accepts(None)
    print(f"     accepts {accepts}, nvJPEG {gpu.decoder}, made in {time.monotonic() - begun:.3f} s", flush=True)
    check("the finishing kernel compiles", "planes" in accepts, "")
    check("nvJPEG is trusted", "jpeg" in accepts, gpu.decoder)
    found: Dict[str, Any] = {"accepts": accepts, "nvjpeg": gpu.decoder}
    if "planes" in accepts:
        fixtures(gpu, check)
    copies(gpu, check)
    if "jpeg" in accepts:
        jpegs(gpu, check)
        found["rates"] = rates(gpu)
        found["engines"] = nvjpeg_rates(gpu)
        found["host_ms"] = host_side(gpu)
        print(json.dumps(found, indent=1), flush=True)
    return found
