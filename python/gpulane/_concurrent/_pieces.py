"""How many items go into which captured size. Numbers only."""

from __future__ import annotations

from bisect import bisect_left
from typing import List, NamedTuple, Sequence

__all__ = ["Piece", "cut"]


class Piece(NamedTuple):
    """Some items of an input, and the captured size they are filled up to."""

    first: int
    items: int
    size: int


def cut(rows: int, sizes: Sequence[int]) -> List[Piece]:
    """The pieces for `rows` items; `sizes` ascend. What is larger than the largest is split; the rest is filled up.

    >>> cut(9, [1, 8])
    [Piece(first=0, items=8, size=8), Piece(first=8, items=1, size=1)]
    """
    largest = sizes[-1]
    pieces = [Piece(first, largest, largest) for first in range(0, rows - largest + 1, largest)]
    done = len(pieces) * largest
    if done < rows:
        pieces.append(Piece(done, rows - done, sizes[bisect_left(sizes, rows - done)]))
    return pieces
