#!/usr/bin/env python3
"""Maps that return anything, interrupted and resumed, read back with pyarrow: every value is the one that was returned.

Each round maps some hundred items with a model that returns values of a few kinds, drawn at random; kills the run in
between; resumes it; and compares what pyarrow and json read with what the model returned. Exit code 1 if a value
differs, an item is missing, twice or failed without need, or parts differ in their types. Needs pyarrow; with NumPy its
types are drawn, too.

    scripts/exact_results.py [--rounds 10] [--seed 1] [--binary target/debug/gpulane] [--format parquet|jsonl]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

ITEMS = 240
VALUES = r"""
import math, random
try:
    import numpy as np
except ImportError:
    np = None

KINDS = {
    "bool": lambda r: r.random() < 0.5,
    "small": lambda r: r.randint(-100, 100),
    "large": lambda r: r.choice([2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), r.getrandbits(62)]),
    "unsigned": lambda r: r.choice([2**63, 2**64 - 1]),
    "huge": lambda r: r.choice([2**64, -(10**30)]),
    "float": lambda r: r.choice([r.random(), -0.0, 1e300, 5e-324]),
    "odd": lambda r: r.choice([math.nan, math.inf, -math.inf]),
    "text": lambda r: r.choice(["", "a", "é\0", "1", "null"]),
    "none": lambda r: None,
    "pair": lambda r: [r.randint(0, 9), r.randint(0, 9)],
    "ragged": lambda r: [r.random() for _ in range(r.randint(0, 3))],
    "large list": lambda r: [2**53 + 1 + i for i in range(r.randint(0, 3))],
    "nested": lambda r: {"a": [r.random(), None, 2**70], "b": {"c": r.choice([1, math.nan, math.inf])}},
    "mixed list": lambda r: [1, "a", r.random()],
    "half": lambda r: "x\ud800",
    "bytes": lambda r: b"x",
}
if np is not None:
    KINDS.update({name: (lambda r, name=name: np.dtype(name).type(r.randint(0, 100))) for name in
                  "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()})
    KINDS.update({name: (lambda r, name=name: np.dtype(name).type(r.random())) for name in ("float16", "float32")})
    KINDS["vector"] = lambda r: np.array([r.random(), math.nan, r.random()], "f4")
    KINDS["vectors"] = lambda r: np.array([r.random()] * r.randint(0, 3), "f4")
    KINDS["matrix"] = lambda r: np.full((r.randint(1, 2), 2), r.getrandbits(60))

def value(seed, kinds, item):
    r = random.Random(f"{seed}/{item}")
    # Most items are of the first kind, so that a wider one comes late, and seldom.
    kind = kinds[0] if r.random() < 0.97 else r.choice(kinds)
    return kind, KINDS[kind](r)
"""
MODEL = """
import time
import gpulane
from values import value

class Model(gpulane.Model):
    decode = "value"
    batch = 8

    def __init__(self, seed, kinds):
        self.seed, self.kinds = seed, kinds.split(",")

    def predict_batch(self, batch):
        time.sleep(0.08)
        return [{"x": value(self.seed, self.kinds, item)[1], "item_again": item} for item in batch]
"""


def same(given: Any, read: Any, in_json: bool) -> bool:
    """Whether `read` is `given`. A whole number may be the float that is equal to it; in JSON NaN is null."""
    if hasattr(given, "tolist"):
        given = given.tolist()
    if isinstance(given, float) and math.isnan(given):
        return (read is None and in_json) or (isinstance(read, float) and math.isnan(read))
    if isinstance(given, list):
        return (
            isinstance(read, list)
            and len(given) == len(read)
            and all(same(a, b, in_json) for a, b in zip(given, read, strict=True))
        )
    if isinstance(given, dict):
        return (
            isinstance(read, dict)
            and list(given) == list(read)
            and all(same(given[k], read[k], in_json) for k in given)
        )
    if given is None or isinstance(given, (bool, str)):
        return type(given) is type(read) and given == read
    return isinstance(read, (int, float)) and not isinstance(read, bool) and given == read


def has_infinity(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(has_infinity, value.values()))
    if isinstance(value, list):
        return any(map(has_infinity, value))
    return isinstance(value, float) and math.isinf(value)


def read_parquet(folder: Path) -> tuple[dict[str, Any], bool, list[str]]:
    """The values by item, whether they are JSON text, and the types of the column in the parts."""
    from pyarrow import parquet

    found: dict[str, Any] = {}
    types = set()
    in_json = False
    for part in sorted(folder.glob("part-*.parquet")):
        table = parquet.read_table(part, partitioning=None)
        field = table.schema.field("x") if "x" in table.schema.names else None
        types.add(str(field) + str(field and field.metadata))
        in_json = field is not None and (field.metadata or {}).get(b"json") == b"true"
        shape = json.loads((field.metadata or {}).get(b"shape", b"[]")) if field is not None else []
        for row in table.to_pylist():
            value = row.get("x")
            if in_json and value is not None:
                value = json.loads(value)
            if len(shape) > 1 and value is not None:
                value = [value[at : at + shape[1]] for at in range(0, len(value), shape[1])]
            assert row["item"] not in found and row["item"] == row["item_again"], row
            found[row["item"]] = value
    return found, in_json, sorted(types)


def read_lines(folder: Path) -> tuple[dict[str, Any], bool, list[str]]:
    rows = [json.loads(line) for part in folder.glob("part-*.jsonl") for line in part.read_text().splitlines()]
    assert len({row["item"] for row in rows}) == len(rows), "an item stands twice"
    return {row["item"]: row["x"] for row in rows}, True, []


def one_round(
    binary: Path, form: str, seed: int, draw: random.Random, kinds_of: dict[str, Callable[..., Any]], value: Any
) -> list[str]:
    kinds = draw.sample(sorted(kinds_of), draw.randint(1, 4))
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "model.py").write_text(MODEL)
        Path(folder, "values.py").write_text(VALUES)
        Path(folder, "items.txt").write_text("".join(f"i{number}\n" for number in range(ITEMS)))
        command = [
            binary,
            "map",
            "model.py:Model",
            "@items.txt",
            "--out",
            "r",
            "--gpus",
            "none",
            "--format",
            form,
            "--decode",
            "value",
        ]
        command += [
            "--workers",
            "1",
            "--max-failures",
            "100%",
            "--set",
            f"seed={seed}",
            "--set",
            f"kinds={','.join(kinds)}",
        ]
        run = subprocess.Popen(
            list(map(str, command)), cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(draw.uniform(1.5, 4.0))
        run.send_signal(draw.choice([signal.SIGKILL, signal.SIGINT, signal.SIGTERM]))
        run.wait()
        for _ in range(100):
            ended = subprocess.run([str(binary), "resume", "r", "--quiet"], cwd=folder, capture_output=True, text=True)
            if ended.returncode in (0, 3, 4):
                break
            time.sleep(0.2)
        else:
            return [f"resume ended with {ended.returncode}: {ended.stderr}"]
        out = Path(folder, "r")
        found, in_json, types = read_parquet(out) if form == "parquet" else read_lines(out)
        failed = {
            row["item"]: row["reason"] for row in map(json.loads, (out / "failed.jsonl").read_text().splitlines())
        }
        if len(types) > 1:
            wrong.append(f"parts differ: {types}")
        for number in range(ITEMS):
            item = f"i{number}"
            kind, given = value(seed, kinds, item)
            given = given.tolist() if hasattr(given, "tolist") else given
            refused = kind in ("half", "bytes") or (form == "jsonl" and has_infinity(given))
            if refused != (item in failed) or refused == (item in found):
                wrong.append(f"{item}: {kind} {given!r}: {failed.get(item)}")
            elif not refused and not same(given, found[item], in_json):
                wrong.append(f"{item}: {kind} {given!r} is read as {found[item]!r}")
    return [f"{form}, seed {seed}, {kinds}: {text}" for text in wrong]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--binary", type=Path, default=Path("target/debug/gpulane"))
    parser.add_argument("--format", choices=("parquet", "jsonl"))
    options = parser.parse_args()
    names: dict[str, Any] = {}
    exec(VALUES, names)  # The model has the same text as a file.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    wrong: list[str] = []
    for seed in range(options.seed, options.seed + options.rounds):
        draw = random.Random(seed)
        form = options.format or draw.choice(["parquet", "parquet", "jsonl"])
        wrong += one_round(options.binary.resolve(), form, seed, draw, names["KINDS"], names["value"])
    print(*wrong[:20], sep="\n")
    print(f"{options.rounds} rounds of {ITEMS} items, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
