"""Writes a TIFF byte by byte: any samples, bits, compression, predictor, strips or tiles, planes, bit order and byte
order. Used by tiffs.py."""

from __future__ import annotations

import itertools
import lzma
import struct
import zlib
from dataclasses import dataclass
from typing import Any

import imagecodecs
import numpy as np

WIDTH, HEIGHT = 37, 29
NONE, LZW, DEFLATE, OLD_DEFLATE, PACKBITS, ZSTD, LZMA = 1, 5, 8, 32946, 32773, 50000, 34925
COMPRESSIONS = {
    "none": NONE,
    "lzw": LZW,
    "deflate": DEFLATE,
    "old-deflate": OLD_DEFLATE,
    "packbits": PACKBITS,
    "zstd": ZSTD,
    "lzma": LZMA,
}
PREDICTS = {LZW, DEFLATE, OLD_DEFLATE, ZSTD, LZMA}


@dataclass(frozen=True)
class Kind:
    """What a pixel is."""

    name: str
    photometric: int
    samples: int
    dtype: str
    bits: int = 0  # of a sample; 0: those of the type
    extra: tuple[int, ...] = ()
    shared: tuple[int, int] = (1, 1)  # pixels that share their chroma


def bits_of(kind: Kind) -> int:
    return kind.bits or np.dtype(kind.dtype).itemsize * 8


def colour_map(bits: int) -> np.ndarray:
    noise = np.random.default_rng(bits)
    return noise.integers(0, 65536, (3, 2**bits)).astype("u2")


@dataclass(frozen=True)
class Make:
    """How a file is written."""

    compression: int = NONE
    predictor: int = 1
    chunk: tuple[int, int, bool] = (WIDTH, HEIGHT, False)  # width, height, tiled
    planar: bool = False
    fill: int = 1
    order: str = "<"
    big: bool = False


def packed(chunk: np.ndarray, kind: Kind, make: Make) -> bytes:
    """A strip or tile, height × width × samples, as the bytes of its rows."""
    bits, rows = bits_of(kind), []
    for row in chunk:
        if bits in (8, 16, 32, 64):
            rows.append(row.astype(make.order + kind.dtype).tobytes())
        else:
            spread = (row.reshape(-1, 1).astype(int) >> np.arange(bits - 1, -1, -1)) & 1
            rows.append(np.packbits(spread.reshape(-1).astype("u1")).tobytes())
    if make.compression == PACKBITS:
        return b"".join(imagecodecs.packbits_encode(row) for row in rows)
    return b"".join(rows)


def predicted(chunk: np.ndarray, kind: Kind, make: Make) -> np.ndarray:
    whole = np.dtype(kind.dtype.replace("i", "u").replace("f", "u"))
    numbers = chunk.view(whole) if chunk.dtype.itemsize == whole.itemsize else chunk
    numbers = np.ascontiguousarray(numbers)
    return np.diff(numbers, axis=1, prepend=np.zeros_like(numbers[:, :1])).astype(whole).view(kind.dtype)


def predicted_floats(chunk: np.ndarray, kind: Kind) -> bytes:
    """Bytes of a row apart, highest first, then their differences a pixel's samples back."""
    rows = []
    for row in chunk:
        big = row.astype(">" + kind.dtype).reshape(-1)
        planes = big.view("u1").reshape(len(big), -1).T.reshape(-1)
        moved = planes.copy()
        moved[chunk.shape[2] :] = planes[chunk.shape[2] :] - planes[: -chunk.shape[2]]
        rows.append(moved.tobytes())
    return b"".join(rows)


def grouped(chunk: np.ndarray, kind: Kind) -> bytes:
    """Groups of lumas, then the chroma they share."""
    across, down = kind.shared
    height, width = -(-chunk.shape[0] // down) * down, -(-chunk.shape[1] // across) * across
    whole = np.zeros((height, width, 3), "u1")
    whole[: chunk.shape[0], : chunk.shape[1]] = chunk
    parts = []
    for top, left in itertools.product(range(0, height, down), range(0, width, across)):
        parts.append(whole[top : top + down, left : left + across, 0].tobytes() + whole[top, left, 1:].tobytes())
    return b"".join(parts)


def compressed(data: bytes, compression: int) -> bytes:
    match compression:
        case 5:
            return bytes(imagecodecs.lzw_encode(data))
        case 8 | 32946:
            return zlib.compress(data, 6)
        case 50000:
            return bytes(imagecodecs.zstd_encode(data))
        case 34925:
            return lzma.compress(data)
    return data


REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def chunks_of(samples: np.ndarray, kind: Kind, make: Make) -> list[bytes]:
    width, height, tiled = make.chunk
    planes = [samples[..., at : at + 1] for at in range(kind.samples)] if make.planar else [samples]
    chunks = []
    for plane in planes:
        for top, left in itertools.product(range(0, HEIGHT, height), range(0, WIDTH, width)):
            part = plane[top : top + height, left : left + width]
            if tiled:
                room = np.zeros((height, width, plane.shape[2]), plane.dtype)
                room[: part.shape[0], : part.shape[1]] = part
                part = room
            if kind.shared != (1, 1):
                data = grouped(part, kind)
                data = imagecodecs.packbits_encode(data) if make.compression == PACKBITS else data
            elif make.predictor == 3:
                data = predicted_floats(part, kind)
            else:
                data = packed(predicted(part, kind, make) if make.predictor == 2 else part, kind, make)
            data = compressed(data, make.compression)
            chunks.append(data.translate(REVERSED) if make.fill == 2 else data)
    return chunks


def tags_of(kind: Kind, make: Make) -> list[tuple[int, int, list[Any]]]:
    """Tag, field type and values; those of the data come later."""
    formats = {"u": 1, "i": 2, "f": 3}
    tags = [
        (256, 4, [WIDTH]),
        (257, 4, [HEIGHT]),
        (258, 3, [bits_of(kind)] * kind.samples),
        (259, 3, [make.compression]),
        (262, 3, [kind.photometric]),
        (277, 3, [kind.samples]),
        (284, 3, [2 if make.planar else 1]),
        (339, 3, [formats[kind.dtype[0]]] * kind.samples),
    ]
    if make.fill != 1:
        tags.append((266, 3, [make.fill]))
    if make.predictor != 1:
        tags.append((317, 3, [make.predictor]))
    if kind.extra:
        tags.append((338, 3, list(kind.extra)))
    if kind.photometric == 3:
        tags.append((320, 3, [int(level) for level in colour_map(bits_of(kind)).reshape(-1)]))
    if kind.photometric == 6:
        tags.append((530, 3, list(kind.shared)))
    return tags


def container(tags: list[tuple[int, int, list[Any]]], chunks: list[bytes], make: Make) -> bytes:
    """The file: its data, what its tags point to, its directory."""
    order, big = make.order, make.big
    width, height, tiled = make.chunk
    head = struct.pack(order + "2sH", b"II" if order == "<" else b"MM", 43 if big else 42)
    head += struct.pack(order + "HHQ", 8, 0, 0) if big else struct.pack(order + "I", 0)
    body, offsets = bytearray(head), []
    for chunk in chunks:
        body += b"\0" * (len(body) % 2)
        offsets.append(len(body))
        body += chunk
    counts = [len(chunk) for chunk in chunks]
    if tiled:
        tags = [*tags, (322, 3, [width]), (323, 3, [height]), (324, 4, offsets), (325, 4, counts)]
    else:
        tags = [*tags, (273, 4, offsets), (278, 4, [height]), (279, 4, counts)]
    entries = b""
    room = 8 if big else 4
    for tag, kind, values in sorted(tags):
        stored = b"".join(
            value if kind == 7 else struct.pack(order + {3: "H", 4: "I"}[kind], value) for value in values
        )
        count = len(stored) if kind == 7 else len(values)
        if len(stored) > room:
            body += b"\0" * (len(body) % 2)
            place, stored = len(body), stored
            body += stored
            stored = struct.pack(order + ("Q" if big else "I"), place)
        entries += struct.pack(order + ("HHQ" if big else "HHI"), tag, kind, count) + stored.ljust(room, b"\0")
    body += b"\0" * (len(body) % 2)
    place = len(body)
    body += struct.pack(order + ("Q" if big else "H"), len(tags)) + entries + b"\0" * room
    if big:
        body[8:16] = struct.pack(order + "Q", place)
    else:
        body[4:8] = struct.pack(order + "I", place)
    return bytes(body)
