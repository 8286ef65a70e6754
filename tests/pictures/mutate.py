"""Good pictures, damaged: seeded bit flips, cuts, changed headers, spliced files, bytes lost, doubled or added."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Callable

# How many bytes count as a header here: sizes, tables and tags of most formats.
HEADER = 96

Change = Callable[[random.Random, bytearray, bytes], None]


def flip(dice: random.Random, data: bytearray, _other: bytes) -> None:
    """One to eight bits anywhere."""
    for _ in range(dice.choice([1, 1, 1, 2, 8])):
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)


def flip_late(dice: random.Random, data: bytearray, _other: bytes) -> None:
    """One bit of the second half, where the picture's data is."""
    data[dice.randrange(len(data) // 2, len(data))] ^= 1 << dice.randrange(8)


def cut(dice: random.Random, data: bytearray, _other: bytes) -> None:
    del data[dice.randrange(1, len(data)) :]


def cut_end(dice: random.Random, data: bytearray, _other: bytes) -> None:
    """The last few bytes."""
    del data[max(1, len(data) - dice.randrange(1, 24)) :]


def header(dice: random.Random, data: bytearray, _other: bytes) -> None:
    """A byte or a number of the header, set to something that is often special."""
    at = dice.randrange(2, min(HEADER, len(data)))
    value = dice.choice(
        [b"\0", b"\xff", b"\x7f", b"\x80", b"\1", b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\1\0"]
    )
    data[at : at + len(value)] = value


def splice(dice: random.Random, data: bytearray, other: bytes) -> None:
    """The beginning of one file, the end of another."""
    at = dice.randrange(1, len(data))
    data[at:] = other[dice.randrange(len(other)) :]


def lose(dice: random.Random, data: bytearray, _other: bytes) -> None:
    at = dice.randrange(len(data))
    del data[at : at + dice.choice([1, 2, 16, 300])]


def double(dice: random.Random, data: bytearray, _other: bytes) -> None:
    at = dice.randrange(len(data))
    data[at:at] = data[at : at + dice.choice([1, 4, 64])]


def blank(dice: random.Random, data: bytearray, _other: bytes) -> None:
    """Zeros, as a disk gives them for a block that was never written."""
    at, count = dice.randrange(len(data)), dice.choice([1, 16, 512])
    data[at : at + count] = bytes(min(count, len(data) - at))


def append(dice: random.Random, data: bytearray, other: bytes) -> None:
    """Bytes behind the end: zeros, noise, or another file."""
    data += dice.choice([bytes(300), dice.randbytes(50), other])


CHANGES: list[Change] = [flip, flip, flip_late, cut, cut_end, header, header, splice, lose, double, blank, append]


def mutants(bases: list[Path], count: int, seed: int, folder: Path) -> dict[Path, Path]:
    """So many damaged files in a folder, and what each was made of; the same for a seed. A name says what was done."""
    folder.mkdir(parents=True, exist_ok=True)
    made = {}
    for number in range(count):
        dice = random.Random(f"{seed}:{number}")
        base = bases[number % len(bases)]
        alike = [each for each in bases if each.suffix == base.suffix]
        data, other = bytearray(base.read_bytes()), dice.choice(alike).read_bytes()
        change = dice.choice(CHANGES)
        change(dice, data, other)
        path = folder / f"{number:05}-{change.__name__}{base.suffix}"
        path.write_bytes(bytes(data) or b"\0")
        made[path] = base
    return made
