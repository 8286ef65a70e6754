"""The BMPs among the cases that make.py writes: every header, depth, mask and packing."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from make import Cases

def packed_rows(pixels: np.ndarray, bits: int) -> list[bytes]:
    """Rows of numbers, each row filled up to 32 bits; the highest first."""
    rows = []
    for row in pixels:
        if bits < 8:
            text = "".join(f"{int(value):0{bits}b}" for value in row)
            data = int(text.ljust(-(-len(text) // 8) * 8, "0"), 2).to_bytes(-(-len(text) // 8), "big")
        else:
            data = b"".join(int(value).to_bytes(bits // 8, "little") for value in row)
        rows.append(data.ljust(-(-len(data) // 4) * 4, b"\0"))
    return rows


def bmp(
    sides: tuple[int, int],
    data: bytes,
    bits: int,
    *,
    header: int = 40,
    packed: int = 0,
    top_down: bool = False,
    palette: list[tuple[int, int, int]] = (),
    colours: int = 0,
    masks: tuple[int, ...] = (),
    offset: int | None = None,
) -> bytes:
    width, height = sides
    table = b"".join(bytes((blue, green, red)) + (b"" if header == 12 else b"\0") for red, green, blue in palette)
    if header == 12:
        head = struct.pack("<LHHHH", 12, width, height, 1, bits)
    else:
        head = struct.pack("<LllHHLLLLLL", header, width, -height if top_down else height, 1, bits, packed, len(data), 2835, 2835, colours, 0)
        stored = struct.pack(f"<{len(masks)}L", *masks)
        head = head + stored if header == 40 else (head + stored).ljust(header, b"\0")
    begin = 14 + len(head) + len(table)
    return b"BM" + struct.pack("<LHHL", begin + len(data), 0, 0, begin if offset is None else offset) + head + table + data


def bmps(cases: Cases) -> None:
    sides, random = (13, 7), np.random.default_rng(4)
    colour = lambda count: [tuple(int(value) for value in random.integers(0, 256, 3)) for _ in range(count)]
    for bits in (1, 4, 8):
        indices = random.integers(0, 1 << bits, (7, 13))
        rows, palette = packed_rows(indices, bits), colour(1 << bits)
        for header in (12, 40, 52, 56, 64, 108, 124):
            cases.add(f"bmp {bits} bits header {header}", bmp(sides, b"".join(rows[::-1]), bits, header=header, palette=palette))
        cases.add(f"bmp {bits} bits from the top", bmp(sides, b"".join(rows), bits, top_down=True, palette=palette))
        cases.add(f"bmp {bits} bits gray", bmp(sides, b"".join(rows[::-1]), bits, palette=palette), "gray")
        short = bmp(sides, b"".join(rows[::-1]), bits, palette=palette[: (1 << bits) - 1], colours=(1 << bits) - 1)
        cases.add(f"bmp {bits} bits, a colour missing", short)
        plain = bmp(sides, b"".join(rows[::-1]), bits, palette=palette)
        for name, offset in (("without its palette", 54), ("of nothing", 0), ("of two more", 56 + 4 * len(palette)), ("within the palette", 56)):
            wrong = plain[:10] + struct.pack("<L", offset) + plain[14:] + b"\1\2"
            cases.add(f"bmp {bits} bits, an offset {name}", wrong)
        cases.refuse(f"bmp {bits} bits, an offset beyond the file", plain[:10] + struct.pack("<L", 1 << 20) + plain[14:], "truncated")
        cases.add(f"bmp {bits} bits, bytes behind", plain + b"more")
        cases.refuse(f"bmp {bits} bits, cut", plain[:-9], "truncated")
    ramp = [(value, value, value) for value in range(256)]
    gray = packed_rows(random.integers(0, 256, (7, 13)), 8)
    cases.add("bmp 8 bits, a palette of gray", bmp(sides, b"".join(gray[::-1]), 8, palette=ramp))
    bits = packed_rows(random.integers(0, 2, (7, 13)), 1)
    cases.add("bmp 1 bit, black and white", bmp(sides, b"".join(bits[::-1]), 1, palette=[(0, 0, 0), (255, 255, 255)]))
    cases.add("bmp 1 bit, white and black", bmp(sides, b"".join(bits[::-1]), 1, palette=[(255, 255, 255), (0, 0, 0)]))
    for bits in (16, 24, 32):
        rows = packed_rows(random.integers(0, 1 << bits, (7, 13), dtype=np.int64), bits)
        for header in (40, 108) + ((12,) if bits == 24 else ()):
            cases.add(f"bmp {bits} bits header {header}", bmp(sides, b"".join(rows[::-1]), bits, header=header))
        cases.add(f"bmp {bits} bits from the top", bmp(sides, b"".join(rows), bits, top_down=True))
        cases.refuse(f"bmp {bits} bits, cut", bmp(sides, b"".join(rows[::-1]), bits)[:-9], "truncated")
    words = {16: packed_rows(random.integers(0, 1 << 16, (7, 13)), 16), 32: packed_rows(random.integers(0, 1 << 32, (7, 13), dtype=np.int64), 32)}
    for bits, masks in (
        (16, (0xF800, 0x7E0, 0x1F)),
        (16, (0x7C00, 0x3E0, 0x1F)),
        (32, (0xFF0000, 0xFF00, 0xFF)),
        (32, (0xFF000000, 0xFF0000, 0xFF00)),
        (32, (0xFF000000, 0xFF00, 0xFF)),
    ):
        for header in (40, 52, 108):
            name = f"bmp {bits} bits masks {masks[0]:x} header {header}"
            cases.add(name, bmp(sides, b"".join(words[bits][::-1]), bits, header=header, packed=3, masks=masks))
    for masks in (
        (0xFF000000, 0xFF0000, 0xFF00, 0xFF),
        (0xFF, 0xFF00, 0xFF0000, 0xFF000000),
        (0xFF0000, 0xFF00, 0xFF, 0xFF000000),
        (0xFF000000, 0xFF00, 0xFF, 0xFF0000),
        (0, 0, 0, 0),
    ):
        whole = bmp(sides, b"".join(words[32]), 32, header=108, packed=3, masks=masks)
        cases.add(f"bmp 32 bits with alpha {masks[0]:x} {masks[3]:x}", whole)
        cases.add(f"bmp 32 bits with alpha {masks[0]:x} {masks[3]:x} rgba", whole, "rgba")
    runs_of_bmps(cases, colour(256))
    cases.refuse("bmp header of 41 bytes", bmp(sides, b"", 24, header=41), "header is of a kind")
    cases.refuse("bmp of 3 bits", bmp(sides, bytes(400), 3), "depth")
    cases.refuse("bmp with a JPEG in it", bmp(sides, bytes(400), 24, packed=4), "JPEG or PNG")


def runs_of_bmps(cases: Cases, palette: list[tuple[int, int, int]]) -> None:
    eight = b"\5\x11\3\x22\0\0" + b"\0\7\1\2\3\4\5\6\7\0\1\x33\0\0" + b"\0\2\3\1" + b"\5\x44\0\0" + b"\x10\x55\0\0"
    cases.add("bmp runs of 8 bits", bmp((8, 5), eight + b"\0\1", 8, packed=1, palette=palette))
    cases.add("bmp runs of 8 bits without an end", bmp((8, 5), eight, 8, packed=1, palette=palette))
    four = b"\5\x12\3\x34\0\0" + b"\0\5\x12\x34\x50\0\3\x67\0\0" + b"\0\2\3\1" + b"\5\x89\0\0" + b"\x10\xab\0\0"
    cases.add("bmp runs of 4 bits", bmp((8, 5), four + b"\0\1", 4, packed=2, palette=palette[:16]))
    cases.refuse("bmp runs of 8 bits, cut", bmp((8, 5), eight[:20], 8, packed=1, palette=palette), "truncated")
    cases.refuse("bmp runs of 4 bits, cut", bmp((8, 5), four[:11], 4, packed=2, palette=palette[:16]), "truncated")
