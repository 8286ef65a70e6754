"""Random maps: lists of texts, folders of texts, folders of good, hostile and damaged pictures."""

from __future__ import annotations

import random
import sys
import zlib
from pathlib import Path

from . import pictures
from .story import Item, JobStory, MapStory, StageStory, Story

# Other users must be able to run it, too.
PYTHON = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable


def make(dice: random.Random, pictures_too: bool = True) -> Story:
    """A random map, alone."""
    gpus, lanes = dice.choice([("none", 3), ("sim:2x24GiB", None)])
    story = Story(gpus=gpus, lanes=lanes, map=make_map(dice, dice.choice([1, 2, 3]), pictures_too))
    assert story.map is not None
    if dice.random() < 0.2:
        story.map.keys["max_failures"] = dice.choice([0, 1, 3])
    return story


def make_stage(dice: random.Random, name: str, after: list[str], pictures_too: bool = True) -> StageStory:
    """A random map as a stage of a plan."""
    workers = dice.choice([1, 2])
    jobs = [JobStory(f"{name}/worker-{number}", name, {}) for number in range(workers)]
    return StageStory(name, {"grace": "1s"}, jobs, after, map=make_map(dice, workers, pictures_too))


def make_map(dice: random.Random, workers: int, pictures_too: bool) -> MapStory:
    """The map itself."""
    kind = dice.choice(["value", "value", "text", "pictures", "pictures"] if pictures_too else ["value", "text"])
    items, files = {"value": values, "text": texts, "pictures": images}[kind](dice)
    decode = "gray:16x16" if kind == "pictures" else kind
    keys = {
        "model": "model.py:Model",
        "input": ["@items.txt" if kind == "value" else "items"],
        "format": "jsonl",
        "decode": decode,
        "workers": workers,
        "python": PYTHON,
        "args": {"decode": decode, "pause": dice.choice([0.0, 0.05, 0.2])},
        "batch": dice.choice([3, 8, 20]),
        "threads": dice.choice([1, 2]),
        "ring": "16MiB",
        "max_failures": "100%",
    }
    return MapStory(keys, items, files)


def values(dice: random.Random) -> tuple[list[Item], dict[str, bytes]]:
    """Lines of a list, some of which make the model raise or crash."""
    items = []
    for number in range(dice.choice([30, 120, 300])):
        chance = dice.random()
        head = "raise" if chance < 0.01 else "item"
        text = f"{head}-{number}-{'ü' * dice.choice([0, 0, 1, 40])}"
        items.append(Item(text, "failed" if head == "raise" else "row", zlib.crc32(text.encode())))
    if dice.random() < 0.2:
        items[dice.randrange(len(items))] = Item("crash-1", "failed")
    return items, {"items.txt": "".join(item.name + "\n" for item in items).encode()}


def texts(dice: random.Random) -> tuple[list[Item], dict[str, bytes]]:
    """Files with text; some hold none."""
    items, files = [], {}
    for number in range(dice.choice([20, 80])):
        name = f"items/{number:03}.txt"
        data = f"text {number} ".encode() * dice.choice([1, 1, 50, 3000])
        if dice.random() < 0.05:
            data = bytes(dice.randrange(256) for _ in range(dice.choice([1, 100])))
            items.append(Item(name, "either", twin=data.hex()))
        else:
            items.append(Item(name, "row", zlib.crc32(data)))
        files[name] = data
    return items, files


def images(dice: random.Random) -> tuple[list[Item], dict[str, bytes]]:
    """Pictures: good ones, of known grey, among copies of damaged ones, which must fare alike wherever they stand."""
    made: list[tuple[str, bytes, str, int | None]] = []
    for _ in range(dice.choice([20, 60])):
        side = dice.choice([8, 16, 24, 64])
        if dice.random() < 0.3:
            grey = dice.randrange(256)
            made.append(("png", pictures.png(grey, side), "row", grey))
        else:
            level, quantum = dice.randrange(-60, 60), dice.choice([8, 16])
            made.append(("jpg", pictures.jpeg(level, quantum, side), "row", 128 + level * quantum // 8))
    good = [data for _, data, _, _ in made]
    for _ in range(dice.choice([1, 3, 6])):
        whole = dice.choice(good)
        kind = dice.choice(["flip", "flip", "flip", "no tables", "no codes", "empty", "noise"])
        if kind == "no tables":
            bad, fate = pictures.jpeg(dice.randrange(1, 60), 8, 16, tables=False), "failed"
        elif kind == "no codes":
            bad, fate = pictures.jpeg(dice.randrange(1, 60), 8, 16, codes=False), "either"
        elif kind == "empty":
            bad, fate = b"", "failed"
        elif kind == "noise":
            bad, fate = dice.randbytes(dice.choice([3, 300])), "failed"
        else:
            bad, fate = pictures.damaged(dice, whole), "either"
        made += [("jpg", bad, fate, None)] * 3
    dice.shuffle(made)
    items, files = [], {}
    for number, (ending, data, expect, value) in enumerate(made):
        name = f"items/{number:03}.{ending}"
        files[name] = data
        items.append(Item(name, expect, value, twin=None if expect == "row" else data.hex()))
    return items, files


def write(story: MapStory, folder: Path) -> None:
    """The items and the model."""
    (folder / "model.py").write_bytes(Path(__file__).with_name("model.py").read_bytes())
    for name, data in story.files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
