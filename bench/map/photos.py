"""Makes photographs for benchmarks: `photos.py FOLDER COUNT`. 500x375, quality 90, about 80 KB each."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image

WIDTH, HEIGHT = 500, 375


def photo(seed: int) -> Image.Image:
    """Smooth colours, some edges, and the grain of a camera."""
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (8, 10, 3), dtype=np.uint8)
    picture = np.asarray(Image.fromarray(coarse).resize((WIDTH, HEIGHT), Image.BICUBIC)).astype(np.int16)
    rows, columns = np.mgrid[0:HEIGHT, 0:WIDTH]
    for _ in range(12):
        y, x, radius = random.integers(0, HEIGHT), random.integers(0, WIDTH), random.integers(10, 90)
        inside = (rows - y) ** 2 + (columns - x) ** 2 < radius**2
        picture[inside] = picture[inside] // 2 + random.integers(0, 128, 3)
    picture += random.normal(0, 11.5, picture.shape[:2] + (1,)).astype(np.int16)
    return Image.fromarray(picture.clip(0, 255).astype(np.uint8))


def main() -> None:
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for seed in range(count):
        photo(seed).save(folder / f"{seed:05}.jpg", quality=90)
    sizes = [path.stat().st_size for path in folder.glob("*.jpg")]
    (folder / "done").write_text(f"{len(sizes)} photographs, {sum(sizes) / len(sizes) / 1024:.0f} KiB on average\n")


if __name__ == "__main__":
    main()
