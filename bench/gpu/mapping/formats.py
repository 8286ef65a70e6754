"""Other formats than the JPEG of 500×375: files to results by gpulane beside the best DataLoader, in one run."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

from . import contestants, race
from .resnet import network

# Name: extension, what Pillow is told, times the sides, distinct files, how often gpulane gets each, what it was before.
FORMATS: Dict[str, Tuple[str, Dict[str, Any], int, int, int, float]] = {
    "webp": ("webp", {"quality": 80, "method": 2}, 1, 1000, 40, 0.54),
    "png": ("png", {"compress_level": 6}, 1, 1000, 40, 3.4),
    "progressive": ("jpg", {"quality": 90, "progressive": True}, 1, 1000, 60, 1.5),
    "jpeg-12mp": ("jpg", {"quality": 90}, 8, 96, 120, 6.8),
}
"""gpulane's images per second as a multiple of the best DataLoader's, measured before these decoders, stands last."""

GOAL = {"webp": 1.0}
SECONDS = 5.0
# An image of 12 megapixels takes a DataLoader's worker a tenth of a second.
SLOW = {"jpeg-12mp": {"batch_size": 64, "ahead": 1}}


def write(job: Tuple[str, int, str]) -> str:
    """One picture, as bench/map makes them, but with other noise for each size."""
    import numpy as np
    from PIL import Image

    path, seed, name = job
    _, options, times, *_ = FORMATS[name]
    width, height = 500 * times, 375 * times
    random = np.random.default_rng(seed)
    coarse = Image.fromarray(random.integers(0, 256, (12, 16, 3), dtype=np.uint8))
    smooth = np.asarray(coarse.resize((width, height), Image.BICUBIC), dtype=np.float32)
    noise = random.normal(0, 8 / times**0.5, (height, width, 1)).astype(np.float32)
    Image.fromarray(np.clip(smooth + noise, 0, 255).astype(np.uint8)).save(path, **options)
    return path


def write_all(folder: Path, name: str) -> List[str]:
    folder.mkdir(parents=True)
    extension, _, _, count, *_ = FORMATS[name]
    jobs = [(str(folder / f"{number:05}.{extension}"), number, name) for number in range(count)]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(write, jobs, chunksize=4))


def by_torchvision(path: str) -> Any:
    """Whatever the format; formats that this build of torchvision does not know raise."""
    import torchvision
    import torchvision.transforms.v2

    image = torchvision.io.decode_image(torchvision.io.read_file(path), torchvision.io.ImageReadMode.RGB)
    return torchvision.transforms.v2.functional.resize(image, [224, 224], antialias=True)


def by_pil_draft(path: str) -> Any:
    """Pillow at its best: a JPEG is decoded at a smaller size where its inverse DCT can do that."""
    import numpy as np
    import torch
    from PIL import Image

    image = Image.open(path)
    image.draft("RGB", (224, 224))
    return torch.from_numpy(np.array(image.convert("RGB").resize((224, 224), Image.BILINEAR))).permute(2, 0, 1)


def others(name: str, paths: List[str], net: Any) -> Dict[str, float]:
    """DataLoaders of 16 workers; one that cannot read the format is left out."""
    found: Dict[str, float] = {}
    contestants.SECONDS = SECONDS
    reads = {"OpenCV": contestants.by_opencv, "torchvision": by_torchvision, "Pillow": by_pil_draft}
    for library, read in reads.items():
        try:
            read(paths[0])
            rate = contestants.data_loader(paths, read, os.cpu_count() or 16, net, **SLOW.get(name, {}))
            found[f"DataLoader, {library}"] = rate
        except Exception as error:  # Whatever is missing is shown as such.
            print(f"     DataLoader, {library}: {type(error).__name__}: {str(error)[:120]}", flush=True)
    return found


def run(binary: str, check: Callable[[str, bool, object], None], only: List[str]) -> Dict[str, Any]:
    """Each format: gpulane as it is, and the DataLoaders."""
    work = Path(tempfile.mkdtemp(prefix="gpulane-formats-"))
    found: Dict[str, Any] = {}
    net = network(False)
    for name in only or list(FORMATS):
        begun = time.monotonic()
        paths = write_all(work / name, name)
        size = sum(map(os.path.getsize, paths)) / len(paths)
        print(f"\n     {name}: {len(paths)} of {size / 1000:.0f} KB, made in {time.monotonic() - begun:.0f} s", flush=True)
        times = FORMATS[name][4]
        rates = others(name, paths, net)
        ours = race.gpulane(binary, (name, "auto", "Eager", times), paths, work)
        ours.pop("rows", None)
        found[name] = {"bytes": size, "others": rates, "gpulane": ours}
        show(name, found[name], check)
        shutil.rmtree(work / name, ignore_errors=True)
    shutil.rmtree(work, ignore_errors=True)
    return found


def beside_before(binary: str, check: Callable[[str, bool, object], None], only: List[str]) -> Dict[str, Any]:
    """The program that GPULANE_BEFORE names and this one in turns over the same files: has anything become slower?"""
    work = Path(tempfile.mkdtemp(prefix="gpulane-formats-"))
    found: Dict[str, Any] = {}
    programs = {"before": os.path.abspath(os.environ["GPULANE_BEFORE"]), "now": binary}
    for name in only or list(FORMATS):
        paths = write_all(work / name, name)
        rates: Dict[str, List[float]] = {"before": [], "now": []}
        for turn, which in enumerate(("before", "now", "now", "before")):
            step = (f"{name}-{turn}", "auto", "Eager", FORMATS[name][4] // 2)
            rates[which].append(race.gpulane(programs[which], step, paths, work).get("images_per_s", 0.0))
        found[name] = rates
        ratio = sum(rates["now"]) / max(sum(rates["before"]), 1e-9)
        check(f"{name}: not slower than before", ratio >= 0.95, f"{ratio:.2f} {rates}")
        shutil.rmtree(work / name, ignore_errors=True)
    shutil.rmtree(work, ignore_errors=True)
    return found


def show(name: str, seen: Dict[str, Any], check: Callable[[str, bool, object], None]) -> None:
    best = max(seen["others"].values(), default=0.0)
    ours = seen["gpulane"]
    for who, rate in {**seen["others"], "gpulane": ours.get("images_per_s", 0.0)}.items():
        print(f"     {name:12} {who:28} {rate:9.0f} images/s {rate / best if best else 0:8.2f}", flush=True)
    check(f"{name}: every item has a result", ours["exit"] == 0, ours["said"][-3:])
    # What the map says of itself, so that a wrong word about where pictures were decoded is seen.
    print("".join(f"     | {line}\n" for line in ours["said"] if "GPU" in line or "limit" in line), end="", flush=True)
    before = FORMATS[name][5]
    goal = GOAL.get(name, before)
    ratio = ours.get("images_per_s", 0.0) / best if best else 0.0
    # One run on a shared machine: a twentieth is noise.
    check(f"{name}: {goal:g} times the best DataLoader (before: {before:g})", ratio >= goal * 0.95, f"{ratio:.2f}")
