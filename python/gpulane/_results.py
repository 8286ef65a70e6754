"""What `predict_batch` returned, as columns of bytes. A result that cannot be written fails alone, with its reason."""

from __future__ import annotations

import json
import math
import os
import sys
from array import array
from itertools import chain
from operator import itemgetter
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from ._arrays import ArrayError, Fetched, Fetching, fetch, is_array, rows, stacked

__all__ = ["Answer", "ResultError", "Table", "rows_of"]

LARGEST_EXACT = 1 << 53
"""Whole numbers up to this are themselves as 64-bit floats."""

BYTES_OF = {"f32": 4, "f64": 8, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "u8": 1, "u16": 2, "u32": 4, "u64": 8, "bool": 1}
FLOATS = {"f32": "f", "f64": "d"}


class ResultError(Exception):
    """What `predict_batch` returned cannot be told apart by item."""


class Answer(NamedTuple):
    """A batch's results, ready to be sent."""

    rows: int
    columns: List[Dict[str, Any]]
    failed: List[Dict[str, Any]]
    body: List[Any]


class _Column:
    """One column: JSON text, or elements that may still be on their way."""

    def __init__(self, name: str, content: Any) -> None:
        self.name = name
        self.content = content

    @property
    def pending(self) -> bool:
        return isinstance(self.content, Fetching) and self.content.pending


class Table:
    """The results of one call."""

    def __init__(self, results: Any, count: int, nan_fails: bool) -> None:
        self._count = count
        self._nan_fails = nan_fails
        self._failed: Dict[int, str] = {}
        self._columns: List[_Column] = []
        results = _sized(results, count)
        if isinstance(results, dict):
            for name, values in results.items():
                self._add(name, values)
        elif not is_array(results) and _has_dicts(results):
            self._add_dicts(results)
        else:
            self._add("result", results)

    @property
    def pending(self) -> bool:
        """Whether some of it is still being fetched from a GPU."""
        return any(column.pending for column in self._columns)

    def fail(self, at: int, reason: str) -> None:
        """The item has failed, whatever its result is."""
        self._failed.setdefault(at, reason)

    def answer(self) -> Answer:
        """The columns without the rows that failed; waits for what is on its way."""
        fetched = [
            (column.name, column.content.get() if isinstance(column.content, Fetching) else column.content)
            for column in self._columns
        ]
        if self._nan_fails:
            for name, content in fetched:
                if isinstance(content, Fetched) and content.element in FLOATS:
                    for at in _rows_with_nan(content):
                        self.fail(at, f"result column `{name}` is NaN")
        count = self._count - len(self._failed)
        if count == 0:
            fetched = []
        columns: List[Dict[str, Any]] = []
        body: List[Any] = []
        for name, content in fetched:
            kind, shape, data = _as_sent(content, self._failed)
            columns.append({"name": name, "type": kind, "shape": shape, "bytes": len(data)})
            body.append(data)
        failed = [{"at": at, "reason": reason} for at, reason in sorted(self._failed.items())]
        return Answer(count, columns, failed, body)

    def _add_dicts(self, results: Sequence[Any]) -> None:
        alike = _columns_of_alike(results)
        if alike is not None:
            for name, values in alike.items():
                self._add(name, values)
            return
        names: Dict[str, None] = {}
        for at, row in enumerate(results):
            if isinstance(row, dict):
                names.update(dict.fromkeys(map(str, row)))
            elif row is not None:
                self.fail(at, f"the result is {_kind(row)}, where those of other items are dicts")
        if "item" in names:
            raise ResultError("a result must not have a column `item`: gpulane writes it itself")
        table = [{str(key): value for key, value in row.items()} if isinstance(row, dict) else {} for row in results]
        for name in names:
            self._add(name, [row.get(name) for row in table])

    def _add(self, name: str, values: Any) -> None:
        try:
            content = fetch(values) if is_array(values) else self._from_list(name, values)
        except ArrayError:
            content = self._json(name, rows(values))
        self._columns.append(_Column(name, content))

    def _from_list(self, name: str, values: Sequence[Any]) -> Any:
        kinds = set(map(type, values))
        numbers = _numbers(values, kinds)
        if numbers is not None:
            return Fetching(Fetched(numbers[0], (self._count,), numbers[1]))
        if len(kinds) == 1:
            kind = next(iter(kinds))
            if kind in (list, tuple):
                vectors = _vectors(values)
                if vectors is not None:
                    return Fetching(vectors)
            elif is_array(values[0]):
                together = stacked(list(values))
                if together is not None:
                    return fetch(together)
        return self._json(name, values)

    def _json(self, name: str, values: Sequence[Any]) -> bytes:
        try:
            return _dumps(values if isinstance(values, list) else list(values))
        except (TypeError, ValueError, RecursionError):
            pass  # Something JSON does not have: found below, item by item.
        plain: List[Any] = []
        for at, value in enumerate(values):
            try:
                value = _plain(value)
                if self._nan_fails and _has_nan(value):
                    self.fail(at, f"result column `{name}` is NaN")
                value = _without_nan(value)
                _dumps(value)
            except RecursionError:
                value = None
                self.fail(at, f"result column `{name}` is nested too deeply to be written")
            except Exception as error:  # A user's object may raise anything when looked at.
                value = None
                self.fail(at, f"result column `{name}`: {error}" if name != "result" else f"the result: {error}")
            plain.append(value)
        return _dumps(plain)


def _columns_of_alike(results: Sequence[Any]) -> Optional[Dict[str, Sequence[Any]]]:
    """Columns of dicts that all have the same keys, as most models return them; nothing for others. Much quicker than
    looking at each."""
    first = results[0]
    if type(first) is not dict or len(first) < 2 or set(map(type, results)) != {dict}:
        return None
    if set(map(type, first)) != {str} or set(map(len, results)) != {len(first)} or "item" in first:
        return None
    try:
        return dict(zip(first, zip(*map(itemgetter(*first), results))))
    except KeyError:
        return None


def rows_of(results: Any, count: int) -> List[Any]:
    """One value per item: slower than a table, for batches that were worked on in pieces."""
    results = _sized(results, count)
    if isinstance(results, dict):
        columns = {name: rows(values) if is_array(values) else values for name, values in results.items()}
        return [{name: values[at] for name, values in columns.items()} for at in range(count)]
    return rows(results) if is_array(results) else list(results)


def _has_dicts(results: Sequence[Any]) -> bool:
    return any(issubclass(kind, dict) for kind in set(map(type, results)))


def _sized(results: Any, count: int) -> Any:
    """The results as a dict of columns, an array or a list, each with `count` rows, or an error with the numbers."""
    if isinstance(results, dict):
        if not results:
            raise ResultError("predict_batch returned an empty dict; return a column of values per key")
        named = {str(name): _rows_or_list(values) for name, values in results.items()}
        if "item" in named:
            raise ResultError("a result must not have a column `item`: gpulane writes it itself")
        for name, values in named.items():
            if len(values) != count:
                raise ResultError(f"predict_batch returned {len(values)} values in column `{name}` for {count} items")
        return named
    results = _rows_or_list(results)
    if len(results) != count:
        raise ResultError(f"predict_batch returned {len(results)} results for {count} items")
    return results


def _rows_or_list(values: Any) -> Any:
    if isinstance(values, (list, tuple)):
        return values
    if is_array(values):
        if len(values.shape) == 0:
            raise ResultError("predict_batch returned a single number; return one result per item")
        return values
    if values is None or isinstance(values, (str, bytes, bytearray, memoryview, set, frozenset, dict)):
        raise ResultError(f"predict_batch returned {_kind(values)}; return one result per item")
    try:
        return list(values)
    except TypeError:
        raise ResultError(f"predict_batch returned {_kind(values)}; return one result per item") from None


def _numbers(values: Sequence[Any], kinds: Set[type]) -> Optional[Tuple[str, bytes]]:
    """Numbers of one type, as bytes."""
    try:
        if kinds == {float}:
            return "f64", array("d", values).tobytes()
        if kinds == {int}:
            return "i64", array("q", values).tobytes()
        if kinds == {bool}:
            return "bool", bytes(values)
        if kinds == {int, float} and all(type(v) is float or abs(v) <= LARGEST_EXACT for v in values):
            return "f64", array("d", values).tobytes()
    except OverflowError:
        pass  # Larger than 64 bits: as JSON.
    return None


def _vectors(values: Sequence[Any]) -> Optional[Fetched]:
    """Lists of numbers of one length, as an array."""
    length = len(values[0])
    if length == 0 or any(len(value) != length for value in values):
        return None
    flat = list(chain.from_iterable(values))
    numbers = _numbers(flat, set(map(type, flat)))
    return numbers and Fetched(numbers[0], (len(values), length), numbers[1])


def _as_sent(content: Any, failed: Dict[int, str]) -> Tuple[str, List[int], Any]:
    """Type, shape of a row, and the data without the rows that failed."""
    if isinstance(content, Fetched):
        shape = list(content.shape[1:])
        if not failed:
            return content.element, shape, content.data
        step = BYTES_OF[content.element] * math.prod(shape)
        data = memoryview(content.data).cast("B")
        kept = [data[at * step : (at + 1) * step] for at in range(content.shape[0]) if at not in failed]
        return content.element, shape, b"".join(kept)
    if failed:
        content = _dumps([value for at, value in enumerate(json.loads(content)) if at not in failed])
    return "json", [], content


def _rows_with_nan(content: Fetched) -> List[int]:
    count, width = content.shape[0], math.prod(content.shape[1:])
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        values = numpy.frombuffer(content.data, content.element.replace("f", "float")).reshape(count, width)
        return [int(at) for at in numpy.flatnonzero(numpy.isnan(values).any(axis=1))]
    flat: Any = memoryview(content.data).cast("B")
    flat = flat.cast(FLOATS[content.element])
    return sorted({at // width for at, value in enumerate(flat) if value != value}) if width else []


def _dumps(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _plain(value: Any) -> Any:
    """The value as JSON has it."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError("bytes cannot be written; return text (base64), a number or an array, or write a file")
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    raise TypeError(f"{_kind(value)} cannot be written; return numbers, text, None, arrays, lists or dicts of those")


def _has_nan(value: Any) -> bool:
    if isinstance(value, float):
        return value != value
    if isinstance(value, dict):
        return any(map(_has_nan, value.values()))
    return isinstance(value, list) and any(map(_has_nan, value))


def _without_nan(value: Any) -> Any:
    """JSON has neither NaN nor the infinities: null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _without_nan(inner) for key, inner in value.items()}
    return [_without_nan(inner) for inner in value] if isinstance(value, list) else value


def _kind(value: Any) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"
