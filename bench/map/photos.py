"""Makes photographs for benchmarks: `photos.py FOLDER COUNT [FORMAT]`. 500x375 as a JPEG of quality 90, about 80 KB each, unless told otherwise."""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

WIDTH, HEIGHT = 500, 375
# How each format is written: the extension, what Pillow is told, and how many times the sides.
FORMATS: dict[str, tuple[str, dict, int]] = {
    "jpeg": ("jpg", {"quality": 90}, 1),
    "progressive": ("jpg", {"quality": 90, "progressive": True}, 1),
    "jpeg-12mp": ("jpg", {"quality": 90}, 8),
    "webp": ("webp", {"quality": 80}, 1),
    "webp-lossless": ("webp", {"lossless": True}, 1),
    "png": ("png", {}, 1),
    "tiff": ("tif", {}, 1),
    "tiff-lzw": ("tif", {"compression": "tiff_lzw"}, 1),
    "tiff-deflate": ("tif", {"compression": "tiff_adobe_deflate"}, 1),
    "gif": ("gif", {}, 1),
    "bmp": ("bmp", {}, 1),
}


def photo(seed: int, times: int = 1) -> Image.Image:
    """Smooth colours, some edges, and the grain of a camera."""
    width, height = WIDTH * times, HEIGHT * times
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (8, 10, 3), dtype=np.uint8)
    picture = np.asarray(Image.fromarray(coarse).resize((width, height), Image.BICUBIC)).astype(np.int16)
    rows, columns = np.mgrid[0:height, 0:width]
    for _ in range(12):
        y, x, radius = random.integers(0, height), random.integers(0, width), random.integers(10, 90) * times
        inside = (rows - y) ** 2 + (columns - x) ** 2 < radius**2
        picture[inside] = picture[inside] // 2 + random.integers(0, 128, 3)
    # A large photograph has less noise from pixel to pixel.
    picture += random.normal(0, 11.5 / times**0.5, picture.shape[:2] + (1,)).astype(np.int16)
    return Image.fromarray(picture.clip(0, 255).astype(np.uint8))


def write(job: tuple[str, int, str]) -> int:
    """Writes one; its bytes."""
    folder, seed, name = job
    extension, options, times = FORMATS[name]
    path = Path(folder) / f"{seed:05}.{extension}"
    picture = photo(seed, times)
    if name == "gif":
        picture = picture.quantize(256)
    picture.save(path, **options)
    return path.stat().st_size


def main() -> None:
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    name = sys.argv[3] if len(sys.argv) > 3 else "jpeg"
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor() as pool:
        sizes = list(pool.map(write, [(str(folder), seed, name) for seed in range(count)], chunksize=4))
    (folder / "done").write_text(f"{len(sizes)} photographs, {sum(sizes) / len(sizes) / 1024:.0f} KiB on average\n")


if __name__ == "__main__":
    main()
