"""Small pictures of one grey each, so that their pixels are known without a decoder; and damage to them."""

from __future__ import annotations

import random
import struct
import zlib


def png(grey: int, side: int) -> bytes:
    """A grey PNG."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = (b"\0" + bytes([grey]) * side) * side
    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def _segment(marker: int, data: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data


def jpeg(level: int, quantum: int, side: int, *, tables: bool = True, codes: bool = True) -> bytes:
    """A grey JPEG of pixels 128 + level × quantum / 8; without `tables` it lacks its DQT, without `codes` its DHT."""
    quanta = _segment(0xDB, bytes([0, quantum]) + b"\1" * 63) if tables else b""
    frame = _segment(0xC0, struct.pack(">BHHB", 8, side, side, 1) + bytes([1, 0x11, 0]))
    # Twelve codes of four bits for DC; a single one of one bit, end of block, for AC.
    direct = _segment(0xC4, bytes([0x00, 0, 0, 0, 12] + [0] * 12) + bytes(range(12)))
    alternating = _segment(0xC4, bytes([0x10, 1] + [0] * 15) + b"\0")
    scan = _segment(0xDA, bytes([1, 1, 0x00, 0, 63, 0]))
    head = b"\xff\xd8" + quanta + frame + (direct + alternating if codes else b"") + scan
    return head + _entropy(level, (side // 8) ** 2) + b"\xff\xd9"


def _entropy(level: int, blocks: int) -> bytes:
    size = abs(level).bit_length()
    bits = f"{size:04b}" + (f"{level if level > 0 else level + (1 << size) - 1:0{size}b}" if size else "") + "0"
    bits += "00000" * (blocks - 1)
    bits += "1" * (-len(bits) % 8)
    data = int(bits, 2).to_bytes(len(bits) // 8, "big")
    return data.replace(b"\xff", b"\xff\0")


def damaged(dice: random.Random, whole: bytes) -> bytes:
    """The picture with one byte changed, or cut."""
    at = dice.randrange(2, min(len(whole), 160))
    if dice.random() < 0.25:
        return whole[:at]
    return whole[:at] + bytes([whole[at] ^ (1 << dice.randrange(8))]) + whole[at + 1 :]
