#!/usr/bin/env python3
"""TIFF photographs to RGB pixels: gpulane's decoder beside OpenCV and Pillow, in one run, in turns, from bytes in memory.

    cargo build --release -p gpulane-decode --example pixels
    python bench/map/tiffs.py [--pixels target/release/examples/pixels] [--rounds 7]

Needs numpy, pillow, opencv-python-headless and tifffile. Seconds are those of CPU (user + system) on one thread; figures are medians of the rounds, in megabytes
of pixels a second of CPU. All three give the same pixels, which is checked first.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cv2
import numpy as np
import tifffile
from PIL import Image

SIZES = {"small": (375, 500), "large": (1536, 2048)}


def photograph(height: int, width: int) -> np.ndarray:
    """Noise on structure, so that it compresses like a photograph."""
    noise = np.random.default_rng(3)
    y, x = np.mgrid[0:height, 0:width] / 100
    channels = [128 + 60 * np.sin(x * (1.3 + at) + np.cos(y * 1.7)) + 40 * np.sin(y * (2.1 - 0.4 * at)) for at in range(3)]
    picture = np.stack(channels, -1) + noise.normal(0, 2.5, (height, width, 3))
    picture[(x.astype(int) + y.astype(int)) % 4 == 0] //= 2
    return np.clip(picture, 0, 255).astype("u1")


def files(picture: np.ndarray) -> dict[str, bytes]:
    """Strips as libtiff cuts them, 8 to 64 KiB, and tiles."""
    made = {}
    for name, compression, predictor in (
        ("none", None, False),
        ("lzw", "lzw", False),
        ("lzw, predictor 2", "lzw", True),
        ("deflate", "zlib", False),
        ("deflate, predictor 2", "zlib", True),
    ):
        for layout, options in (("strips", {"rowsperstrip": 16}), ("tiles", {"tile": (256, 256)})):
            buffer = io.BytesIO()
            options = {"compression": compression, "predictor": predictor, "photometric": "rgb", **options}
            tifffile.imwrite(buffer, picture, **options)
            made[f"{name}, {layout}"] = buffer.getvalue()
    return made


def by_opencv(encoded: np.ndarray) -> np.ndarray:
    return cv2.cvtColor(cv2.imdecode(encoded, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)


def by_opencv_as_it_is(encoded: np.ndarray) -> np.ndarray:
    return cv2.imdecode(encoded, cv2.IMREAD_COLOR)


def by_pillow(encoded: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(encoded)).convert("RGB"))


class Gpulane:
    def __init__(self, binary: str) -> None:
        self.process = subprocess.Popen([binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, line: str) -> dict:
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def pixels(self, path: Path) -> bytes:
        return self.process.stdout.read(self.ask(f"rgb\t{path}")["bytes"])

    def seconds(self, path: Path, rounds: int) -> float:
        return self.ask(f"rgb\t{path}\t{rounds}")["cpu"]


def seconds(work, argument, rounds: int) -> float:
    began = time.process_time()
    for _ in range(rounds):
        work(argument)
    return (time.process_time() - began) / rounds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pixels", default="target/release/examples/pixels")
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    cv2.setNumThreads(0)
    gpulane = Gpulane(args.pixels)
    print("| file | gpulane MB/s | OpenCV | OpenCV, as BGR | Pillow | gpulane is, of the best |\n|---|---|---|---|---|---|")
    for size, (height, width) in SIZES.items():
        picture = photograph(height, width)
        repeats = max(1, 3_000_000 // picture.size)
        for name, encoded in files(picture).items():
            with tempfile.NamedTemporaryFile(suffix=".tif") as file:
                file.write(encoded)
                file.flush()
                stored = np.frombuffer(encoded, "u1")
                same = [picture.tobytes() == pixels for pixels in (gpulane.pixels(Path(file.name)), by_opencv(stored).tobytes(), by_pillow(encoded).tobytes())]
                assert all(same), (name, same)
                times: dict[str, list[float]] = {"gpulane": [], "opencv": [], "bgr": [], "pillow": []}
                for _ in range(args.rounds):
                    times["gpulane"].append(gpulane.seconds(Path(file.name), repeats))
                    times["opencv"].append(seconds(by_opencv, stored, repeats))
                    times["bgr"].append(seconds(by_opencv_as_it_is, stored, repeats))
                    times["pillow"].append(seconds(by_pillow, encoded, repeats))
            rates = {who: picture.nbytes / statistics.median(taken) / 1e6 for who, taken in times.items()}
            best = max(rates["opencv"], rates["bgr"], rates["pillow"])
            figures = " | ".join(f"{rates[who]:.0f}" for who in times)
            print(f"| {size}, {name} ({len(encoded) / picture.nbytes:.2f}) | {figures} | {rates['gpulane'] / best:.2f}× |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
