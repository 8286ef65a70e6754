"""What was seen, as tables: for the terminal and, between marks, for docs/pictures.md."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from .judge import GOOD, Verdict

BEGIN, END = "<!-- written by ./x pictures -->", "<!-- end -->"
FORMATS = ["JPEG", "PNG", "TIFF", "WebP", "GIF", "BMP", "other"]


def is_bad(verdict: Verdict) -> bool:
    """Wrong, or alone with its judgement, and no rule says why."""
    return verdict.word not in GOOD and not verdict.word.startswith("explained: ")


def by_format(verdicts: list[Verdict]) -> list[str]:
    """Comparisons, a row a format."""
    columns = [*GOOD[:-1], "explained", "refused by all", "unexplained"]
    lines = [
        "| format | files | comparisons | " + " | ".join(columns) + " |",
        "|---|" + "---|" * (len(columns) + 2),
    ]
    for name in FORMATS:
        mine = [verdict for verdict in verdicts if verdict.format == name]
        if not mine:
            continue
        counts = Counter(_column(verdict) for verdict in mine)
        files = len({verdict.item for verdict in mine})
        lines.append(
            f"| {name} | {files} | {len(mine)} | " + " | ".join(str(counts[column]) for column in columns) + " |"
        )
    return lines


def _column(verdict: Verdict) -> str:
    if is_bad(verdict):
        return "unexplained"
    return "explained" if verdict.word.startswith("explained: ") else verdict.word


def differences(verdicts: list[Verdict]) -> list[str]:
    """What is explained, by format and rule, in files."""
    found: dict[tuple[str, str, str], set[str]] = {}
    for verdict in verdicts:
        if verdict.word.startswith("explained: "):
            word = verdict.word.removeprefix("explained: ")
            what = {"wrong": "differs"}.get(word, word)
            found.setdefault((verdict.format, what, verdict.why), set()).add(verdict.item)
    lines = ["| format | what | files | why |", "|---|---|---|---|"]
    order = sorted(found.items(), key=lambda pair: (FORMATS.index(pair[0][0]), pair[0][1], -len(pair[1])))
    return lines + [f"| {name} | {what} | {len(items)} | {why} |" for (name, what, why), items in order]


def refusals(verdicts: list[Verdict]) -> list[str]:
    """Why files are refused that the references refuse as well, in files."""
    found: dict[tuple[str, str], set[str]] = {}
    for verdict in verdicts:
        if verdict.word == "refused by all":
            found.setdefault((verdict.format, _kind(verdict.why)), set()).add(verdict.item)
    lines = ["| format | reason | files |", "|---|---|---|"]
    order = sorted(found.items(), key=lambda pair: (FORMATS.index(pair[0][0]), -len(pair[1]), pair[0][1]))
    return lines + [f"| {name} | {reason} | {len(items)} |" for (name, reason), items in order]


def _kind(reason: str) -> str:
    """A reason without its figures."""
    text = re.sub(r"\d[\d.,]*( (?:bytes|KiB|MiB|GiB))?", "…", reason.splitlines()[0] if reason else "")
    return re.sub(r"(…[ ×x]*)+", "… ", text).strip().replace("|", "\\|")[:110]


def write(page: Path, verdicts: list[Verdict], heading: str) -> None:
    """Puts the tables between the marks of a page."""
    text = page.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    parts = [heading, "", *by_format(verdicts), "", "Differences, and why:", "", *differences(verdicts), "",
             "Files that Pillow and tifffile refuse as well:", "", *refusals(verdicts)]  # fmt: skip
    page.write_text(before + BEGIN + "\n\n" + "\n".join(parts) + "\n\n" + END + after)
