"""The corpus on the disk, below target/pictures: made by recipes, or fetched from source packages."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import sys
from pathlib import Path
from typing import Iterable

from . import by_pillow, by_tifffile, by_tools, by_vips, fetched
from .recipe import Recipe, order

ROOT = Path(__file__).resolve().parent.parent.parent
PLACE = ROOT / "target" / "pictures"
_RECIPES: list[Recipe] = []


def recipes() -> list[Recipe]:
    """All that can be made, whether or not the programs are here."""
    return [*by_pillow.recipes(), *by_tifffile.recipes(), *by_vips.recipes(), *by_tools.recipes()]


def sample(count: int | None, seed: int, sources: list[fetched.Source], only: str = "") -> list[Path]:
    """So many files of the corpus, the same for a seed; all of it without a count. A third of a sample is fetched.

    `only` stands somewhere in the path of each."""
    wanted = sorted(
        (recipe for recipe in recipes() if only in f"made/{recipe.place}"), key=lambda recipe: order(seed, recipe.place)
    )
    files = [file for source in sources for file in source.files(PLACE) if only in str(file.relative_to(PLACE))]
    files.sort(key=lambda file: order(seed, str(file.relative_to(PLACE))))
    if count is not None:
        files = files[: count // 3]
        wanted = wanted[: count - len(files)]
    return sorted([*make(wanted), *files])


def make(wanted: list[Recipe]) -> list[Path]:
    """Makes what is not there yet. A recipe its program refuses (many are impossible) leaves a note and no file."""
    _RECIPES[:] = wanted
    stamps = {maker: _stamp(maker) for maker in {recipe.maker for recipe in wanted}}
    todo = [number for number, recipe in enumerate(wanted) if not _is_made(recipe, stamps[recipe.maker])]
    if todo:
        print(f"pictures: making {len(todo)} files", file=sys.stderr)
        with multiprocessing.get_context("fork").Pool(initializer=quiet, maxtasksperchild=200) as pool:
            for _ in pool.imap_unordered(
                _make_one, [(number, stamps[wanted[number].maker]) for number in todo], chunksize=8
            ):
                pass
    return [path for recipe in wanted if (path := PLACE / "made" / recipe.place).exists()]


def quiet() -> None:
    """What libraries in C print from now on goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def refused(wanted: Iterable[Recipe]) -> dict[str, int]:
    """Recipes that gave no file, by maker."""
    counts: dict[str, int] = {}
    for recipe in wanted:
        if not (PLACE / "made" / recipe.place).exists():
            counts[recipe.maker] = counts.get(recipe.maker, 0) + 1
    return counts


def _stamp(maker: str) -> str:
    """Changes when a script that makes files does."""
    here = Path(__file__).resolve().parent
    own = here / f"by_{maker}.py"
    names = ["recipe.py", "scenes.py", "requirements.txt", own.name if own.exists() else "by_tools.py"]
    return hashlib.sha256(b"".join((here / name).read_bytes() for name in names)).hexdigest()[:16]


def _note(recipe: Recipe) -> Path:
    return PLACE / "notes" / (recipe.place + ".json")


def _is_made(recipe: Recipe, stamp: str) -> bool:
    note = _note(recipe)
    return note.exists() and json.loads(note.read_text())["stamp"] == stamp


def _make_one(task: tuple[int, str]) -> None:
    number, stamp = task
    recipe = _RECIPES[number]
    path = PLACE / "made" / recipe.place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    why = ""
    try:
        recipe.make(path)
    except Exception as error:  # noqa: BLE001 -- whatever a program says against a combination
        path.unlink(missing_ok=True)
        why = f"{type(error).__name__}: {error}"[:300]
    note = _note(recipe)
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(json.dumps({"stamp": stamp, "why": why}))
