"""Makes the tables of docs/reliability.md from what `./x torture --json FILE` wrote."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
import time
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- counts -->", "<!-- end of counts -->"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("counts", type=Path, nargs="+", help="files that the torture wrote; their counts are added")
    parser.add_argument(
        "--write", type=Path, default=None, help="put the tables into this page instead of printing them"
    )
    options = parser.parse_args()
    counts = [json.loads(path.read_text()) for path in options.counts]
    text = tables(counts)
    if options.write is None:
        print(text)
        return 0
    page = options.write.read_text("utf-8")
    if BEGIN not in page or END not in page:
        print(f"{options.write} has no place for them: {BEGIN} and {END}", file=sys.stderr)
        return 2
    pattern = re.compile(re.escape(BEGIN) + ".*" + re.escape(END), re.DOTALL)
    options.write.write_text(pattern.sub(lambda _: f"{BEGIN}\n{text}\n{END}", page), "utf-8")
    return 0


def tables(counts: list[dict[str, Any]]) -> str:
    """The tables of these runs together."""

    def total(key: str) -> int:
        return sum(int(each[key]) for each in counts)

    minutes, seeds = total("seconds") / 60, ", ".join(str(each["seed"]) for each in counts)
    faults, checked, violated = (added(counts, key) for key in ("faults", "checked", "violations"))
    cores = f"{os.cpu_count()} cores, Linux {platform.release().split('-')[0]}"
    lines = [
        f"{time.strftime('%Y-%m-%d')}, {cores}: {minutes:.0f} minutes (seed {seeds}), {total('rounds')} rounds, "
        f"{total('calls')} calls of gpulane, {total('jobs')} jobs, {total('items')} items, "
        f"{sum(faults.values())} faults, {sum(checked.values())} checks, {sum(violated.values())} violations.",
        "",
        "| fault | times |",
        "|---|---|",
        *(f"| {name} | {times} |" for name, times in sorted(faults.items())),
        "",
        "| invariant | checked | violated |",
        "|---|---|---|",
        *(f"| {name} | {times} | {violated.get(name, 0)} |" for name, times in sorted(checked.items())),
    ]
    return "\n".join(lines)


def added(counts: list[dict[str, Any]], key: str) -> dict[str, int]:
    """The counts under this key, added up."""
    sums: dict[str, int] = {}
    for each in counts:
        for name, times in each[key].items():
            sums[name] = sums.get(name, 0) + int(times)
    return sums


if __name__ == "__main__":
    sys.exit(main())
