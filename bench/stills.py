#!/usr/bin/env python3
"""PNG, WebP, GIF and BMP to RGB pixels: gpulane's decoder beside Pillow, OpenCV and torchvision, in images per CPU-second of one thread.

    cargo build --release -p gpulane-decode --example stills
    python bench/stills.py target/release/examples/stills [FOLDER…] [--rounds 7]

Needs Pillow and OpenCV; torchvision takes part where it is installed. Without folders, some are made in a temporary place. All take turns,
the files are in memory, and the median of the rounds counts. `full` is the whole picture as RGB, `224` the same brought to 224×224 (not by
torchvision). Pixels are made as the library makes them by default.
"""

from __future__ import annotations

import argparse
import io
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable

import cv2
import numpy as np
from PIL import Image

try:
    import torch
    import torchvision
except ImportError:
    torch = torchvision = None


def photograph(width: int, height: int, seed: int) -> Image.Image:
    """Noise of all sizes, as in a photograph."""
    random = np.random.default_rng(seed)
    pixels = np.zeros((height, width, 3))
    for octave in range(2, 10):
        across, down = max(2, width * 2**octave // 512), max(2, height * 2**octave // 512)
        small = Image.fromarray((random.random((down, across, 3)) * 255).astype(np.uint8))
        pixels += np.asarray(small.resize((width, height), Image.Resampling.BICUBIC)).astype(float) / 1.5 ** (octave - 2)
    pixels = (pixels - pixels.min()) * 255 / (pixels.max() - pixels.min())
    return Image.fromarray(np.clip(pixels + random.normal(0, 3, pixels.shape), 0, 255).astype(np.uint8))


def make(root: Path) -> list[Path]:
    """A folder for every kind."""
    folders = []
    for size, sides, count in (("small", (500, 375), 6), ("2mp", (1632, 1224), 2)):
        for index in range(count):
            rgb = photograph(*sides, seed=index)
            rgba = rgb.copy()
            rgba.putalpha(rgb.convert("L"))
            for kind, image, options in (
                ("webp-lossy", rgb, {"quality": 80}),
                ("webp-lossless", rgb, {"lossless": True}),
                ("webp-alpha", rgba, {"quality": 80}),
                ("png-rgb", rgb, {}),
                ("png-rgba", rgba, {}),
                ("png-palette", rgb.quantize(256), {}),
                ("png-gray", rgb.convert("L"), {}),
                ("gif", rgb.quantize(256), {}),
                ("bmp", rgb, {}),
            ):
                folder = root / f"{kind}-{size}"
                folder.mkdir(exist_ok=True)
                image.save(folder / f"{index}.{kind.split('-')[0]}", **options)
                if folder not in folders:
                    folders.append(folder)
    return folders


def pillow(size: int | None) -> Callable[[bytes], object]:
    def decode(encoded: bytes) -> object:
        image = Image.open(io.BytesIO(encoded)).convert("RGB")
        return image.resize((size, size), Image.Resampling.BILINEAR) if size else image

    return decode


def opencv(size: int | None) -> Callable[[bytes], object]:
    def decode(encoded: bytes) -> object:
        pixels = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR_RGB)
        return cv2.resize(pixels, (size, size), interpolation=cv2.INTER_AREA) if size else pixels

    return decode


def torchvision_decode(encoded: bytes) -> object:
    data = torch.frombuffer(bytearray(encoded), dtype=torch.uint8)
    return torchvision.io.decode_image(data, torchvision.io.ImageReadMode.RGB)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ours", help="the built example")
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--milliseconds", type=float, default=300, help="CPU time of a turn, about")
    options = parser.parse_args()
    cv2.setNumThreads(1)
    if torch:
        torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        folders = options.folders or make(Path(temporary))
        print(f"{'':24} {'ours':>9} {'Pillow':>9} {'OpenCV':>9} {'torchv.':>9}   images per CPU-second; ours to the best")
        for folder in folders:
            for size in (None, 224):
                measure(options, folder, size)


def measure(options: argparse.Namespace, folder: Path, size: int | None) -> None:
    files = [path.read_bytes() for path in sorted(folder.iterdir())]
    peers: dict[str, Callable[[bytes], object]] = {"Pillow": pillow(size), "OpenCV": opencv(size)}
    if torch and not size:
        peers["torchv."] = torchvision_decode
    began = time.process_time()
    for file in files:
        peers["Pillow"](file)
    repeats = max(1, round(options.milliseconds / 1000 / max(time.process_time() - began, 1e-6)))
    rates: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        decode = f"rgb:{size}x{size}" if size else "rgb"
        done = subprocess.run([options.ours, folder, decode, str(repeats)], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{folder}: {done.stderr}")
        rates.setdefault("ours", []).append(len(files) * repeats / float(done.stdout))
        for name, decode_file in peers.items():
            try:
                began = time.process_time()
                for _ in range(repeats):
                    for file in files:
                        decode_file(file)
                rates.setdefault(name, []).append(len(files) * repeats / (time.process_time() - began))
            except (RuntimeError, cv2.error):
                continue  # a format it does not know
    medians = {name: statistics.median(rate) for name, rate in rates.items()}
    best = max(rate for name, rate in medians.items() if name != "ours")
    row = " ".join(f"{medians[name]:9.1f}" if name in medians else f"{'':9}" for name in ("ours", "Pillow", "OpenCV", "torchv."))
    print(f"{folder.name + (' 224' if size else ' full'):24} {row}   {medians['ours'] / best:.2f}", flush=True)


if __name__ == "__main__":
    main()
