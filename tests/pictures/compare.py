"""The corpus through `gpulane map` in several forms, beside the references."""

from __future__ import annotations

import concurrent.futures
import resource
import sys
import time
from pathlib import Path
from typing import Any

from .corpus import PLACE, quiet
from .judge import GOOD, Rule, Verdict, explain, judge, rules
from .reference import Reference, references, second_opinion
from .through import Outcome, through_map

FORMS = ["rgb", "rgb:64x48", "rgb:224x224:crop", "gray", "gray:100x80"]
# A library that wants more than this for one file refuses it.
MEMORY = 6 << 30


def compare(binary: Path, files: list[Path], forms: list[str], scratch: Path) -> tuple[list[Verdict], list[str]]:
    """A verdict for each file and form, and what went wrong around them."""
    items = [str(file.relative_to(PLACE)) for file in files]
    outcomes = {}
    for form in forms:
        started = time.monotonic()
        outcomes[form] = through_map(binary, items, PLACE, form, scratch / form.replace(":", "-"))
        print(f"pictures: {len(items)} files as {form} in {time.monotonic() - started:.0f} s", file=sys.stderr)
    troubles = [f"{form}: {trouble}" for form, outcome in outcomes.items() for trouble in outcome.troubles]
    return judged(items, forms, outcomes), troubles


def judged(
    items: list[str], forms: list[str], outcomes: dict[str, Outcome], known: list[Rule] | None = None
) -> list[Verdict]:
    chunks = [items[start : start + 20] for start in range(0, len(items), 20)]
    known = rules() if known is None else known
    found: list[Verdict] = []
    for verdicts in _in_processes(chunks, forms, outcomes):
        found += (explain(verdict, known) for verdict in verdicts)
    return sorted(found, key=lambda verdict: (verdict.item, verdict.form))


def _in_processes(chunks: list[list[str]], forms: list[str], outcomes: dict[str, Outcome]) -> list[list[Verdict]]:
    """A reference that crashes its process costs that file its reference, and no other."""
    found = []
    again: list[list[str]] = []
    with concurrent.futures.ProcessPoolExecutor(initializer=_limit) as pool:
        tasks = {pool.submit(_judge_chunk, chunk, forms, _part(outcomes, chunk)): chunk for chunk in chunks}
        for task, chunk in tasks.items():
            try:
                found.append(task.result())
            except concurrent.futures.process.BrokenProcessPool:
                again += [[item] for item in chunk]
    for chunk in again:
        with concurrent.futures.ProcessPoolExecutor(1, initializer=_limit) as pool:
            try:
                found.append(pool.submit(_judge_chunk, chunk, forms, _part(outcomes, chunk)).result())
            except concurrent.futures.process.BrokenProcessPool:
                found.append(
                    [Verdict(chunk[0], form, "other", "accepted alone", "the reference crashed") for form in forms]
                )
    return found


def _part(outcomes: dict[str, Outcome], chunk: list[str]) -> dict[str, Outcome]:
    return {
        form: Outcome(
            {item: outcome.kept[item] for item in chunk if item in outcome.kept},
            {item: outcome.failed[item] for item in chunk if item in outcome.failed},
        )
        for form, outcome in outcomes.items()
    }


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    quiet()


def _judge_chunk(chunk: list[str], forms: list[str], outcomes: dict[str, Outcome]) -> list[Verdict]:
    verdicts = []
    for item in chunk:
        path = PLACE / item
        theirs = references(path, forms)
        for form in forms:
            outcome = outcomes[form]
            ours = outcome.pixels(item) if item in outcome.kept else None
            verdict = judge(item, path, form, ours, outcome.failed.get(item), theirs[form])
            verdicts.append(_heard_again(verdict, path, ours, theirs[form]))
    return verdicts


def _heard_again(verdict: Verdict, path: Path, ours: Any, theirs: Reference) -> Verdict:
    """A TIFF that is wrong by Pillow may be right by tifffile: then the two differ, and that is said."""
    if verdict.word != "wrong" or verdict.format != "TIFF" or theirs.by != "Pillow":
        return verdict
    other = second_opinion(path, verdict.form)
    if other and judge(verdict.item, path, verdict.form, ours, None, other).word in GOOD:
        verdict.word, verdict.why = (
            "explained: wrong",
            f"tifffile sees what gpulane sees, Pillow (mode {theirs.mode}) does not",
        )
    return verdict
