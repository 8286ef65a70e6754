"""A picture to be made: its name, the program that makes it, and how. Listing recipes makes and imports nothing."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable


@dataclass(frozen=True)
class Recipe:
    """One picture of the corpus."""

    maker: str  # which program makes it; also the folder it lies in
    name: str  # the file's name, with an extension; unique for the maker
    make: Callable[[Path], None]  # writes the file

    @property
    def place(self) -> str:
        return f"{self.maker}/{self.name}"


def order(seed: int, place: str) -> bytes:
    """A picture's place in the order of a seed: samples are the first of it, so that a larger one holds the smaller."""
    return hashlib.sha256(f"{seed}:{place}".encode()).digest()


def choices(name: str, count: int, **options: list[Any]) -> list[dict[str, Any]]:
    """So many combinations of options, each different, the same every time: a walk through a large product."""
    dice = random.Random(name)
    seen: dict[tuple[Any, ...], dict[str, Any]] = {}
    for _ in range(count * 20):
        if len(seen) == count:
            break
        picked = {key: dice.choice(values) for key, values in options.items()}
        seen.setdefault(tuple(map(str, picked.values())), picked)
    return list(seen.values())


def label(options: dict[str, Any]) -> str:
    """Options as a part of a file's name."""
    words = (f"{key}={value}" for key, value in options.items())
    return ",".join(words).replace("/", "-").replace(" ", "").replace("'", "").replace("(", "").replace(")", "")
