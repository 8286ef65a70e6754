"""What a run has brought: jobs with their last metrics, rows of maps. From files that are durable, also while it runs.

pandas and pyarrow are used where they are, and asked for by name where nothing else will do."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path
from typing import Any, Dict, Iterable, List, Optional, Sequence

from ._journal import json_lines

__all__ = ["failed_items", "flat", "form_of", "last_line", "last_metrics", "map_rows", "shaped"]

FORMS = ("list", "pandas", "arrow")
METRICS_READ = 1 << 16
"""Bytes at the end of a metrics file that are read for the last values."""

LOG_READ = 1 << 15
"""Bytes at the end of a log that are read for its last line: a crash of Python is told with all threads' frames."""
DUMP = ("  ", "Thread 0x", "Current thread", "Extension modules: ", "Python runtime state: ")
"""How the lines of such a story begin."""
RUNNER = "/.python/gpulane/"
TRACEBACK = "Traceback (most recent call last):"
LONGEST_LINE = 300
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

Row = Dict[str, Any]


def form_of(as_: Optional[str]) -> str:
    """What is asked for; by default a pandas DataFrame where pandas is installed, else a list of dicts."""
    if as_ is None:
        return "pandas" if importlib.util.find_spec("pandas") else "list"
    if as_ not in FORMS:
        raise ValueError(f"as_={as_!r} is not known; there is {', '.join(map(repr, FORMS))}")
    return as_


def shaped(rows: List[Row], form: str) -> Any:
    """Rows as a list, a DataFrame or an Arrow table."""
    if form == "list":
        return rows
    columns = list(dict.fromkeys(key for row in rows for key in row))
    values = {column: [row.get(column) for row in rows] for column in columns}
    if form == "pandas":
        frame = _package("pandas").DataFrame
        if not columns:
            return frame(rows)
        return frame({column: _values(values[column]) for column in columns}, columns=columns)
    return _package("pyarrow").table(values)


def flat(row: Dict[str, Any]) -> Dict[str, Any]:
    """Config and metrics as columns of their own."""
    own = {key: value for key, value in row.items() if key not in ("config", "metrics")}
    columns: Dict[str, Any] = {}
    for group in ("config", "metrics"):
        for key, value in row[group].items():
            columns[f"{group}.{key}" if key in own or key in columns else key] = value
    return {"job": own.pop("job"), **columns, **own}


def last_metrics(attempt: Path) -> Row:
    """The newest value of each metric of an attempt, as `gpulane.log` wrote them."""
    newest: Row = {}
    for line in json_lines(_end_of(attempt / "metrics.jsonl", METRICS_READ)):
        newest.update(line)
    newest.pop("time", None)
    return newest


def last_line(log: Path) -> str:
    """The last line of a log that has anything in it, such as `ValueError: lr too high`; after a crash of Python, the
    fault and the innermost frame; not our own hint below a traceback. Nothing, if there is none."""
    text = _COLOURS.sub("", _end_of(log, LOG_READ).decode(errors="replace"))
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    if lines and lines[-1].startswith("gpulane: ") and TRACEBACK in lines:
        lines.pop()
    line = (_fault(lines) or lines[-1].strip()) if lines else ""
    return line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1]}…"


def _fault(lines: Sequence[str]) -> str:
    """What `faulthandler` says at the end of a log, in one line."""
    faults = [at for at, line in enumerate(lines) if line.startswith("Fatal Python error: ")]
    dump = lines[faults[-1] + 1 :] if faults else []
    if not faults or not all(line.startswith(DUMP) for line in dump):
        return ""
    threads = [at for at, line in enumerate(dump) if line.startswith("Current thread 0x")]
    frames = [line.strip() for line in dump[threads[0] + 1 :] if RUNNER not in line] if threads else []
    where = frames[0] if frames and frames[0].startswith("File ") else ""
    return ", ".join(filter(None, [lines[faults[-1]], where]))


def _end_of(file: Path, most: int) -> bytes:
    try:
        with open(file, "rb") as opened:
            opened.seek(max(0, opened.seek(0, 2) - most))
            return opened.read(most)
    except OSError:
        return b""


def map_rows(folder: Path, form: str) -> Any:
    """The results of a map, in the order of its items."""
    parts = [folder / name for name in _parts(folder)]
    if any(part.suffix == ".parquet" for part in parts):
        return _from_parquet(parts, folder, form)
    rows = [row for part in parts for row in json_lines(part.read_bytes())]
    order = _order(folder, [row.get("item") for row in rows])
    return shaped([rows[at] for at in order], form)


def failed_items(folder: Path) -> List[Row]:
    """The items of a map that failed, with their reasons."""
    durable = 0
    for line in _ledger(folder):
        durable = line.get("failed_bytes", durable)
    try:
        with open(folder / "failed.jsonl", "rb") as file:
            return list(json_lines(file.read(durable)))
    except FileNotFoundError:
        return []


def _from_parquet(parts: Sequence[Path], folder: Path, form: str) -> Any:
    if not importlib.util.find_spec("pyarrow"):
        raise ImportError(
            f"the results in {folder} are Parquet files, which need pyarrow: `pip install pyarrow`; "
            "a map with format='jsonl' (`--format jsonl`) needs no package"
        )
    arrow = _package("pyarrow")
    parquet = importlib.import_module("pyarrow.parquet")
    tables = [parquet.read_table(part, partitioning=None) for part in parts]
    try:
        # A column that was empty at first is only in later parts.
        table = arrow.concat_tables(tables, promote_options="default")
    except (arrow.ArrowTypeError, arrow.ArrowInvalid):
        # When the map is finished, all parts have the types that hold everything. Until then nothing is converted.
        if form != "list":
            raise ValueError(
                f"the parts in {folder} have columns of different types until the map is finished: "
                "`gpulane resume` it, or ask for as_='list'"
            ) from None
        rows = [row for table in tables for row in table.to_pylist()]
        return [rows[at] for at in _order(folder, [row["item"] for row in rows])]
    table = table.take(_order(folder, table.column("item").to_pylist()))
    if form == "arrow":
        return table
    return _frame(table) if form == "pandas" else table.to_pylist()


def _frame(table: Any) -> Any:
    """A DataFrame. Whole numbers beside missing values have pandas' nullable types (`Int64`): NumPy's have no place for
    what is missing, and the doubles that pandas takes instead hold 53 bits."""
    types = importlib.import_module("pyarrow.types")
    frame = table.to_pandas()
    lacking = [
        field.name for field in table.schema if types.is_integer(field.type) and table.column(field.name).null_count > 0
    ]
    exact = table.select(lacking).to_pandas(types_mapper=_nullable)
    for name in lacking:
        frame[name] = exact[name]
    return frame


def _nullable(kind: Any) -> Any:
    """The type of pandas that holds these whole numbers, and that one is missing."""
    return getattr(_package("pandas"), f"{'UInt' if str(kind).startswith('u') else 'Int'}{kind.bit_width}Dtype")()


def _values(values: List[Any]) -> Any:
    """A column of a DataFrame that rounds nothing: whole numbers beside missing values are nullable, and those that no
    double holds stay themselves beside floats."""
    pandas = _package("pandas")
    kinds = {type(value) for value in values if value is not None}
    whole = [value for value in values if type(value) is int]
    if kinds == {int} and len(whole) < len(values):
        for name, least, most in (("Int64", -(2**63), 2**63), ("UInt64", 0, 2**64)):
            if least <= min(whole) and max(whole) < most:
                return pandas.array(values, dtype=name)
        return pandas.Series(values, dtype=object)
    if kinds == {int, float} and any(abs(value) > 2**53 for value in whole):
        return pandas.Series(values, dtype=object)
    return values


def _parts(folder: Path) -> List[str]:
    """The files the ledger names: whatever else lies there is not durable."""
    parts: Dict[int, str] = {}
    for line in _ledger(folder):
        part = line.get("part")
        # One of another user may name any file there is.
        if isinstance(part, str) and part and os.path.basename(part) == part:
            parts[line["commit"]] = part
        parts.pop(line.get("lost", -1), None)
    return list(parts.values())


def _ledger(folder: Path) -> Iterable[Row]:
    try:
        text = (folder / "commits.jsonl").read_bytes()
    except FileNotFoundError:
        return []
    return json_lines(text[: text.rfind(b"\n") + 1])


def _order(folder: Path, names: Sequence[Any]) -> List[int]:
    """Places of the rows in the order of the frozen list. An item that stands there twice has two rows, which are
    equal in name and stay as they came."""
    places: Dict[str, int] = {}
    with open(folder / "items.list", encoding="utf-8", newline="\n") as file:
        next(file, None)  # Its header.
        for number, line in enumerate(file):
            places.setdefault(_name(line.rstrip("\n").split("\t")[1]), number)
    return sorted(range(len(names)), key=lambda at: places.get(names[at], len(places)))


def _name(field: str) -> str:
    """The name of an item as results have it: only one that is not UTF-8 keeps its escapes."""
    if "\\" not in field or "\\x" in field.replace("\\\\", ""):
        return field
    special = {"t": "\t", "n": "\n", "r": "\r"}
    letters = iter(field)
    return "".join(letter if letter != "\\" else (lambda c: special.get(c, c))(next(letters, "")) for letter in letters)


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"{name} cannot be imported ({error}); `pip install {name}`, or ask for as_='list'") from None
