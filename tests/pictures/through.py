"""Files through the real `gpulane map`, with real workers: what became of each, exactly once."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
LIMIT_S = 3600
# All succeeded, or some items failed: the map itself went well.
WENT_WELL = (0, 3)


@dataclass
class Outcome:
    """What a map made of its items."""

    kept: dict[str, Path] = field(default_factory=dict)  # pixels, as .npy
    failed: dict[str, str] = field(default_factory=dict)  # the reason
    troubles: list[str] = field(default_factory=list)  # items lost or settled twice, crashes of the feeder

    def pixels(self, item: str) -> Any:
        import numpy as np

        return np.load(self.kept[item])


def through_map(
    binary: Path, items: list[str], base: Path, decode: str, out: Path, options: list[str] | None = None
) -> Outcome:
    """Maps files, named relative to `base`, into `out`, which is emptied first."""
    shutil.rmtree(out, ignore_errors=True)
    (out / "pixels").mkdir(parents=True)
    (out / "files.txt").write_text("".join(f"{item}\n" for item in items))
    command = [
        str(binary), "map", f"{HERE / 'model.py'}:Keep", f"@{out / 'files.txt'}", "--out", str(out / "map"),
        "--decode", decode, "--format", "jsonl", "--gpus", "none", "--workers", "1", "--max-failures", "100%",
        "--python", sys.executable, "--set", f"folder={out / 'pixels'}", *(options or []),
    ]  # fmt: skip
    with (out / "map.log").open("wb") as log:
        done = subprocess.run(
            command, cwd=base, stdout=log, stderr=log, stdin=subprocess.DEVNULL, timeout=LIMIT_S, check=False
        )
    if done.returncode not in WENT_WELL:
        raise RuntimeError(f"gpulane map ended with {done.returncode}; see {out / 'map.log'}")
    return _read(items, out)


def _read(items: list[str], out: Path) -> Outcome:
    outcome = Outcome()
    settled: dict[str, int] = {}
    for part in sorted((out / "map").glob("part-*.jsonl")):
        for line in part.read_text().splitlines():
            item = json.loads(line)["item"]
            settled[item] = settled.get(item, 0) + 1
            outcome.kept[item] = out / "pixels" / (hashlib.sha1(item.encode()).hexdigest() + ".npy")
    failed = out / "map" / "failed.jsonl"
    for line in failed.read_text().splitlines() if failed.exists() else []:
        entry = json.loads(line)
        settled[entry["item"]] = settled.get(entry["item"], 0) + 1
        outcome.failed[entry["item"]] = entry["reason"]
    for item in items:
        if settled.pop(item, 0) != 1:
            outcome.troubles.append(f"{item}: not settled exactly once")
    outcome.troubles += [f"{item}: settled, but no item" for item in settled]
    for item, path in outcome.kept.items():
        if not path.exists():
            outcome.troubles.append(f"{item}: in the results, but the model did not get it")
    log = (out / "map.log").read_text(errors="replace")
    outcome.troubles += [line for line in log.splitlines() if "decoder crashed" in line or "panicked" in line]
    return outcome
