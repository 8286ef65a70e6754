"""What the pictures show: seeded scenes with smooth colour, edges, saturated patches and a little noise."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

SIZES = [(1, 1), (2, 3), (7, 5), (16, 16), (17, 31), (40, 64), (64, 48), (97, 61), (128, 128), (200, 150), (333, 251)]


def scene(name: str, width: int, height: int) -> Any:
    """Height × width × 3, uint8. Two names give two scenes."""
    dice = np.random.default_rng(zlib.crc32(name.encode()))
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    x, y = x / max(width - 1, 1), y / max(height - 1, 1)
    channels = []
    for _ in range(3):
        a, b, c, d = dice.uniform(0.5, 3, 4)
        channels.append(127 + 100 * np.sin(a * x * 3 + c) * np.cos(b * y * 3 + d))
    image = np.stack(channels, axis=-1)
    for _ in range(6):
        left, top = dice.uniform(0, 0.8, 2)
        right, bottom = left + dice.uniform(0.05, 0.4), top + dice.uniform(0.05, 0.4)
        inside = (x >= left) & (x < right) & (y >= top) & (y < bottom)
        image[inside] = dice.choice([[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255], [0, 0, 0], [250, 200, 20]])
    image += dice.normal(0, 4, image.shape)
    return np.clip(np.round(image), 0, 255).astype(np.uint8)


def alpha(name: str, width: int, height: int) -> Any:
    """Height × width, uint8: transparency from 0 to 255."""
    del name
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    return np.clip(255 * (x + y) / max(width + height - 2, 1), 0, 255).astype(np.uint8)


def gray(name: str, width: int, height: int) -> Any:
    return scene(name, width, height)[..., 1].copy()


def deep(name: str, width: int, height: int, channels: int = 3) -> Any:
    """Height × width × channels, uint16, with low bytes that matter."""
    base = scene(name, width, height).astype(np.uint16)
    more = np.concatenate([base] * (channels // 3 + 1), axis=-1)[..., :channels]
    dice = np.random.default_rng(zlib.crc32(name.encode()) + 1)
    return (more << 8) + dice.integers(0, 256, more.shape, dtype=np.uint16)
