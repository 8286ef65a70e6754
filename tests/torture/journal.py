"""The journal as docs/run-directory.md describes it: one JSON object a line, numbered, each with a checksum.

The reader is the torture's own; it shares nothing with gpulane's.
"""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Event = dict[str, Any]

_SEAL = re.compile(rb'^(.*),"crc":"([0-9a-f]{8})"\}$', re.DOTALL)


@dataclass
class Reading:
    """What a journal says, and what is wrong with it."""

    events: list[Event] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def parse(line: bytes) -> Event | None:
    """One line without its newline, if it is whole."""
    sealed = _SEAL.match(line)
    if sealed is None or f"{zlib.crc32(sealed[1]):08x}".encode() != sealed[2]:
        return None
    try:
        event = json.loads(sealed[1] + b"}")
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


def read(path: Path) -> Reading:
    """A whole journal. A torn last line is no fault: a crash may leave one."""
    reading = Reading()
    try:
        text = path.read_bytes()
    except OSError as error:
        reading.faults.append(f"{path}: {error}")
        return reading
    lines = text.split(b"\n")
    torn = lines.pop()
    if torn:
        lines.append(torn)
    for number, line in enumerate(lines, 1):
        event = parse(line)
        if event is None:
            if number < len(lines) or not torn:
                reading.faults.append(f"{path}:{number}: not a whole record: {line[:120]!r}")
            continue
        reading.events.append(event)
    for before, after in zip(reading.events, reading.events[1:], strict=False):
        if after.get("seq") != before.get("seq", 0) + 1:
            reading.faults.append(f"{path}: record {before.get('seq')} is followed by {after.get('seq')}")
    return reading


@dataclass
class Follower:
    """Reads what is appended to a journal, as far as lines are whole. What is left of a cut one is not new."""

    path: Path
    at: int = 0
    seen: list[Event] = field(default_factory=list)
    # The whole lines that are in the file, up to `at`.
    held: list[bytes] = field(default_factory=list)

    def poll(self) -> list[Event]:
        """What is new since the last call."""
        try:
            with open(self.path, "rb") as file:
                file.seek(0, 2)
                shorter = file.tell() < self.at
                file.seek(0 if shorter else self.at)
                text = file.read()
        except OSError:
            return []
        whole = text.rfind(b"\n") + 1
        lines = text[:whole].split(b"\n")[:-1]
        if shorter:
            same = 0
            while same < min(len(lines), len(self.held)) and lines[same] == self.held[same]:
                same += 1
            self.at, self.held, lines = whole, lines, lines[same:]
        else:
            self.at += whole
            self.held += lines
        fresh = [event for event in map(parse, lines) if event is not None]
        self.seen += fresh
        return fresh
