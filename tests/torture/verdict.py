"""What judges share: the count of checks, what was announced, what jobs noted."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import journal
from .story import Happened


@dataclass
class Verdict:
    """What was checked, and what did not hold."""

    checked: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def check(self, invariant: str, holds: bool, otherwise: str) -> bool:
        """Counts a check, and keeps what was seen if it does not hold."""
        self.checked[invariant] += 1
        if not holds:
            self.violations.append(f"{invariant}: {otherwise}")
        return holds

    def add(self, other: Verdict) -> None:
        """Takes another judge's verdict in."""
        self.checked += other.checked
        self.violations += other.violations


def check_announced(verdict: Verdict, happened: Happened, events: list[journal.Event]) -> None:
    """What was announced is in the journal, under its number."""
    if happened.doubt:
        return
    there = {event["seq"]: (event["event"], event.get("job")) for event in events}
    lost = {seq: said for seq, said in happened.records.items() if there.get(seq) != said}
    verdict.check("no announced record is lost", not lost, f"announced and not in the journal: {lost}")


def read_notes(path: Path) -> list[dict[str, Any]]:
    """What a job noted; lines that are torn, for it may have been killed or kept from writing, are left out."""
    notes = []
    with contextlib.suppress(OSError):
        for line in path.read_bytes().split(b"\n"):
            with contextlib.suppress(ValueError):
                notes.append(json.loads(line))
    return notes
