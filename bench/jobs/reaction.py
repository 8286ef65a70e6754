"""Reads what `stamp` wrote: how fast a freed lane got its next job, and whether the runner kept to two at once."""

from __future__ import annotations

import statistics
import struct
from dataclasses import dataclass
from pathlib import Path

RECORD = struct.Struct("=QQQ")


@dataclass(frozen=True)
class Reaction:
    """What one run of stamping jobs shows."""

    jobs: int
    median_us: float
    p95_us: float
    most_at_once: int


def read(stamps: Path, at_once: int) -> Reaction:
    """Pairs starts with the exits that allowed them.

    No runner tells from outside which lane a job ran on, and none has to: with `at_once` lanes, the start number
    k (from 0) can come only after k - at_once + 1 jobs have ended. So the exit that freed the lane for start k is
    the one of rank k - at_once, and that holds for every runner alike.
    """
    data = stamps.read_bytes() if stamps.exists() else b""
    if len(data) % RECORD.size:
        raise ValueError(f"{stamps.name} holds {len(data)} bytes, not a whole number of records")
    records = list(RECORD.iter_unpack(data))
    starts = sorted(start for _, start, _ in records)
    ends = sorted(end for _, _, end in records)
    gaps = sorted((start - end) / 1e3 for start, end in zip(starts[at_once:], ends))
    if not gaps:
        raise ValueError(f"only {len(records)} jobs left a stamp")
    return Reaction(
        jobs=len(records),
        median_us=statistics.median(gaps),
        p95_us=gaps[min(len(gaps) - 1, int(len(gaps) * 0.95))],
        most_at_once=_most_at_once(starts, ends),
    )


def _most_at_once(starts: list[int], ends: list[int]) -> int:
    most = ended = 0
    for started, start in enumerate(starts, 1):
        while ended < len(ends) and ends[ended] <= start:
            ended += 1
        most = max(most, started - ended)
    return most
