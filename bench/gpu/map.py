#!/usr/bin/env python3
"""`gpulane map` on a real GPU.

    bench/gpu/map.py [checks] [worker] [others]     the worker's GPU side by itself, what people use today
    bench/gpu/map.py GPULANE                        all of it, and files to results by gpulane beside them
    bench/gpu/map.py GPULANE race                   the race alone
    bench/gpu/map.py GPULANE formats [webp] [png] [progressive] [jpeg-12mp]   other formats beside the best DataLoader
    bench/gpu/map.py GPULANE race formats           the race, then the other formats; about eight minutes
    GPULANE_BEFORE=OLDER bench/gpu/map.py GPULANE before [webp] [png] …   two programs in turns over these formats
    bench/gpu/map.py GPULANE steps                  only gpulane's three ways and the ceilings of the CPU

Needs torch, NumPy and Pillow. Every check prints a line; the exit code is the number of those that failed. A table comes last;
all numbers go to map.json in the folder that OUT names, or here.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "python")]
failures: list[str] = []


def check(name: str, holds: bool, seen: object = "") -> None:
    print(f"{'ok  ' if holds else 'FAIL'} {name}  {seen}", flush=True)
    if not holds:
        failures.append(name)


def main() -> int:
    from mapping import checks, contestants, formats, pictures, pipeline, race

    asked = set(sys.argv[1:]) or {"checks"}
    binary = next((word for word in asked if os.path.isfile(word)), None)
    found: dict = {}
    whole = binary and not asked & {"steps", "race", "formats", "before"}
    if whole or "checks" in asked:
        found["checks"] = checks.run(check)
    if whole or "worker" in asked:
        found["worker"] = pipeline.run(("Eager",) if binary else ("Eager", "Compiled"))
    if binary and (whole or asked & {"steps", "race"}):
        found["race"] = race.run(os.path.abspath(binary), check, "steps" not in asked)
    if binary and "formats" in asked:
        found["formats"] = formats.run(os.path.abspath(binary), check, [name for name in formats.FORMATS if name in asked])
    if binary and "before" in asked:
        names = [name for name in formats.FORMATS if name in asked]
        found["before"] = formats.beside_before(os.path.abspath(binary), check, names)
    if not binary and "others" in asked:
        with tempfile.TemporaryDirectory() as folder:
            found["others"] = contestants.run(pictures.write_all(Path(folder), race.DISTINCT))
    found["failures"] = failures
    (Path(os.environ.get("OUT", ".")) / "map.json").write_text(json.dumps(found, indent=1))
    return len(failures)


if __name__ == "__main__":
    sys.exit(main())
