"""Damaged files through `gpulane map`: no crash, no hang, memory as claimed, nothing left of one file in the next.

What is accepted must be what strict Pillow sees in the same bytes, and no JPEG with units that had to be concealed.
"""

from __future__ import annotations

import json
import random
import resource
import shutil
import subprocess
import sys
import time
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

from . import compare, corpus, table
from .damage import judge_damage
from .judge import Verdict, explain, rules
from .mutate import mutants
from .recipe import order
from .through import LIMIT_S, Outcome, through_map

ALL = 10_000
BASES = 240
# Larger ones are slow to decode ten thousand times, and damage is damage.
LARGEST_BASE = 60_000
FORM = "rgb"
# A picture of a few hundred pixels a side; a decoder that takes this long stands still.
SLOWEST_S = 20.0
# What a decoder may take beside its claim: notes of a picture, and what an allocator keeps.
BESIDE = 24 << 20
# The feeder's own memory beside ring and budget.
FEEDER = 512 << 20
RING = 256 << 20
BUDGET = 2 << 30


def main(binary: Path, alone: Path, count: int, seed: int, scratch: Path) -> int:
    started = time.monotonic()
    folder = corpus.PLACE / "mutants"
    shutil.rmtree(folder, ignore_errors=True)
    bases = base_files(seed)
    if not bases:
        print("mutants: no file to start from: is Pillow installed?", file=sys.stderr)
        return 1
    files = mutants(bases, count, seed, folder)
    bases_of = {str(file.relative_to(corpus.PLACE)): base for file, base in files.items()}
    items = list(bases_of)
    print(f"mutants: {len(items)} of {len(bases)} files in {time.monotonic() - started:.0f} s", file=sys.stderr)
    first, peak = mapped(binary, items, seed, scratch / "first", ["--threads", "2"])
    second, _ = mapped(binary, items, seed + 1, scratch / "second", ["--threads", "1", "--batch", "5"])
    by_itself, crashes = each_alone(alone, items)
    troubles = [*first.troubles, *second.troubles, *crashes]
    troubles += differences(items, first, second, by_itself) + costs(by_itself)
    if peak > RING + BUDGET + FEEDER:
        troubles.append(f"the largest process of the map took {peak >> 20} MiB")
    verdicts = judged(items, bases_of, first)
    bad = [verdict for verdict in verdicts if table.is_bad(verdict)]
    report(items, first, verdicts, by_itself, peak)
    (scratch / "unexplained.txt").write_text("".join(f"{each.word}\t{each.item}\t{each.why}\n" for each in bad))
    for each in bad[:40]:
        print(f"{each.word}: {each.item}: {each.why}", file=sys.stderr)
    for trouble in troubles[:40]:
        print(f"mutants: {trouble}", file=sys.stderr)
    seconds = time.monotonic() - started
    print(f"mutants: {len(items)}, {len(bad)} unexplained, {len(troubles)} other faults, {seconds:.0f} s")
    return 1 if bad or troubles else 0


def judged(items: list[str], bases_of: dict[str, Path], outcome: Outcome) -> list[Verdict]:
    """Verdicts with what is known of the originals, and rules asked last."""
    known = rules()
    found = []
    for verdict in compare.judged(items, [FORM], {FORM: outcome}, known=[]):
        ours = outcome.pixels(verdict.item) if verdict.item in outcome.kept else None
        path = corpus.PLACE / verdict.item
        found.append(explain(judge_damage(verdict, path, bases_of[verdict.item], ours, FORM), known))
    return found


def base_files(seed: int) -> list[Path]:
    """Good files of every format and of several makers."""
    chosen = sorted(corpus.recipes(), key=lambda recipe: order(seed, recipe.place))
    by_suffix: dict[str, list[Any]] = {}
    for recipe in chosen:
        if recipe.maker in ("pillow", "tifffile", "vips") and "large" not in recipe.name:
            by_suffix.setdefault(recipe.name.rpartition(".")[2], []).append(recipe)
    wanted = [recipe for found in by_suffix.values() for recipe in found[: BASES // len(by_suffix)]]
    return [path for path in corpus.make(wanted) if 40 < path.stat().st_size <= LARGEST_BASE]


def mapped(binary: Path, items: list[str], seed: int, out: Path, options: list[str]) -> tuple[Outcome, int]:
    """The items in an order of their own, and the largest process of the map in bytes."""
    shuffled = items.copy()
    random.Random(seed).shuffle(shuffled)
    options = ["--ring", f"{RING >> 20}MiB", *options]
    outcome = through_map(binary, shuffled, corpus.PLACE, FORM, out, options)
    return outcome, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def each_alone(alone: Path, items: list[str]) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """What a fresh decoder says of each; a crash costs that file, is told, and the rest goes on."""
    found: dict[str, dict[str, Any]] = {}
    crashes = []
    rest = items
    while rest:
        done = subprocess.run(
            [str(alone), FORM],
            cwd=corpus.PLACE,
            input="\n".join(rest) + "\n",
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.endswith("}")]
        found |= {line["item"]: line for line in lines if "item" in line}
        if done.returncode == 0:
            break
        last = next(line["begin"] for line in reversed(lines) if "begin" in line)
        crashes.append(f"{last}: the decoder's process ended with {done.returncode}")
        rest = rest[rest.index(last) + 1 :]
    return found, crashes


def differences(items: list[str], first: Outcome, second: Outcome, by_itself: dict[str, dict[str, Any]]) -> list[str]:
    """Items that came out otherwise after other neighbours, or by themselves."""
    found = []
    for item in items:
        fates = [_fate(first, item), _fate(second, item)]
        own = by_itself.get(item)
        if own:
            fates.append(own["reason"] if "reason" in own else str(own["crc32"]))
        if any("--ring" in fate for fate in fates):
            continue  # too large for a slot here, whatever its pixels
        if len(set(fates)) > 1:
            found.append(f"{item}: not the same in another order or alone: {' / '.join(fates)}")
    return found


def _fate(outcome: Outcome, item: str) -> str:
    """The reason, or a sum of the pixels."""
    if item in outcome.failed:
        return outcome.failed[item]
    return str(zlib.crc32(outcome.pixels(item).tobytes())) if item in outcome.kept else "lost"


def costs(by_itself: dict[str, dict[str, Any]]) -> list[str]:
    found = []
    for item, own in by_itself.items():
        if own["seconds"] > SLOWEST_S:
            found.append(f"{item}: took {own['seconds']:.0f} s")
        if own["taken"] > own["claimed"] + BESIDE:
            found.append(f"{item}: took {own['taken'] >> 20} MiB, claimed {own['claimed'] >> 20} MiB")
    return found


def report(
    items: list[str], first: Outcome, verdicts: list[Any], by_itself: dict[str, dict[str, Any]], peak: int
) -> None:
    print("\n".join(table.by_format(verdicts)))
    kinds = Counter((item.rpartition("-")[2].partition(".")[0], item in first.kept) for item in items)
    print("\n| change | accepted | refused |\n|---|---|---|")
    for kind in sorted({kind for kind, _ in kinds}):
        print(f"| {kind} | {kinds[kind, True]} | {kinds[kind, False]} |")
    slowest = max((own["seconds"] for own in by_itself.values()), default=0)
    most = max((own["taken"] for own in by_itself.values()), default=0)
    print(
        f"\nslowest {slowest:.2f} s; most memory for one {most >> 20} MiB; the map's largest process {peak >> 20} MiB"
    )
