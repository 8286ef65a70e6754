"""What a file's outcome is worth: equal, within the documented shrink, explained by a rule, or wrong."""

from __future__ import annotations

import fnmatch
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .reference import Reference, content

# More than this from the reference is wrong, unless the shrink or a rule explains it.
LEVELS = 3
# Where nothing was computed from the samples of a lossless file, they are what they are.
EXACT = ("PNG", "BMP", "GIF")
# A JPEG at least this many times the target on both sides is shrunk by its inverse DCT first.
SHRINK_FROM = 4
# What shrinking may do in the mean over a picture; docs/map.md says it.
SHRINK_MEAN = 4.0

GOOD = ("equal", "one level", "three levels", "shrunk", "refused by all")


@dataclass
class Verdict:
    item: str
    form: str
    format: str
    word: str  # one of GOOD, or explained, wrong, refused alone, accepted alone
    why: str = ""  # the reason or the rule
    most: float = 0  # the largest difference
    mean: float = 0


@dataclass
class Rule:
    """A difference that is meant; rules.toml lists them."""

    word: str
    files: str
    forms: str
    reason: str  # a pattern that the reason, ours or theirs, must match
    because: str

    def fits(self, verdict: Verdict) -> bool:
        return (
            verdict.word == self.word
            and fnmatch.fnmatchcase(verdict.item, self.files)
            and fnmatch.fnmatchcase(verdict.form, self.forms)
            and re.search(self.reason, verdict.why) is not None
        )


def rules() -> list[Rule]:
    table = tomllib.loads((Path(__file__).parent / "rules.toml").read_text())
    return [
        Rule(each["word"], each.get("files", "*"), each.get("forms", "*"), each.get("reason", ""), each["because"])
        for each in table.get("rule", [])
    ]


def judge(item: str, path: Path, form: str, ours: Any, reason: str | None, theirs: Reference) -> Verdict:
    """Before rules are asked. `ours` is an array, or nothing where the item failed with a reason."""
    verdict = Verdict(item, form, content(path), "equal")
    if ours is None and theirs.pixels is None:
        verdict.word, verdict.why = "refused by all", reason or ""
    elif ours is None:
        verdict.word, verdict.why = "refused alone", f"{reason} [{theirs.by}: {theirs.format} {theirs.mode}]"
    elif theirs.pixels is None:
        verdict.word, verdict.why = "accepted alone", theirs.why
    else:
        _compare(verdict, ours, theirs)
    return verdict


def explain(verdict: Verdict, known: list[Rule]) -> Verdict:
    for rule in known:
        if rule.fits(verdict):
            verdict.word, verdict.why = f"explained: {verdict.word}", rule.because
            break
    return verdict


def _compare(verdict: Verdict, ours: Any, theirs: Reference) -> None:
    import numpy as np

    pixels = theirs.pixels
    if ours.ndim == 3 and pixels.ndim == 2 and verdict.form == "gray":
        ours = ours[0]  # pages: the first one is compared here
    if ours.shape != pixels.shape:
        verdict.word, verdict.why = (
            "wrong",
            f"shape {ours.shape}, {theirs.by} has {pixels.shape} ({theirs.format} {theirs.mode})",
        )
        return
    if verdict.form == "gray" and (ours.dtype, pixels.dtype) == (np.uint16, np.uint8):
        if np.abs((ours >> 8).astype(np.int64) - pixels.astype(np.int64)).max(initial=0) <= LEVELS:
            verdict.word, verdict.why = "wrong", f"all 16 bits, of which {theirs.by} has the upper 8"
            return
    if ours.dtype != pixels.dtype:
        verdict.word, verdict.why = (
            "wrong",
            f"{ours.dtype}, {theirs.by} has {pixels.dtype} ({theirs.format} {theirs.mode})",
        )
        return
    if ours.dtype.kind == "f" or ours.dtype.itemsize > 2:
        same = ours.tobytes() == pixels.astype(ours.dtype).tobytes()
        if not same:
            verdict.word, verdict.why = "wrong", f"other {ours.dtype} than {theirs.by} has"
        return
    apart = np.abs(ours.astype(np.int64) - pixels.astype(np.int64))
    verdict.most, verdict.mean = float(apart.max(initial=0)), float(apart.mean()) if apart.size else 0.0
    if verdict.most <= _allowed(verdict):
        verdict.word = ["equal", "one level", "three levels", "three levels"][int(verdict.most)]
    elif verdict.format == "JPEG" and _is_shrunk(verdict.form, theirs) and verdict.mean <= SHRINK_MEAN:
        verdict.word = "shrunk"
    else:
        verdict.word = "wrong"
        apart_by = f"up to {verdict.most:.0f} levels, {verdict.mean:.2f} in the mean"
        verdict.why = f"{apart_by}, from {theirs.by} ({theirs.format} {theirs.mode})"


def _allowed(verdict: Verdict) -> int:
    """Levels that rounding may cost. As `rgb`, as large as it is, a lossless file's pixels are given."""
    return 0 if verdict.format in EXACT and verdict.form == "rgb" else LEVELS


def _is_shrunk(form: str, theirs: Reference) -> bool:
    _, _, size = form.partition(":")
    if not size:
        return False
    width, height = map(int, size.split(":")[0].split("x"))
    # Turned pictures have their sides the other way round.
    sides = (theirs.sides, theirs.sides[::-1])
    return any(wide >= SHRINK_FROM * width and high >= SHRINK_FROM * height for wide, high in sides)
