"""What `predict_batch` returned, as columns of bytes. A result that cannot be written fails alone, with its reason."""

from __future__ import annotations

import math
import sys
from array import array
from bisect import bisect_left, bisect_right
from itertools import accumulate, chain
from operator import itemgetter
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple, Union

from ._arrays import ArrayError, Fetched, Fetching, fetch, is_array, joined, of_one_type, rows, stacked
from ._plain import dumps, has_nan, has_odd_keys, key_of, kind_of, plain, text_of

__all__ = ["Answer", "ResultError", "ReturnedTuple", "Table", "rows_of"]

BYTES_OF = {"f32": 4, "f64": 8, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "u8": 1, "u16": 2, "u32": 4, "u64": 8, "bool": 1}
FLOATS = {"f32": "f", "f64": "d"}


class ResultError(Exception):
    """What `predict_batch` returned cannot be told apart by item."""


class ReturnedTuple(ResultError):
    """`predict_batch` returned a tuple: with as many items as it has members it would pass for one result each."""


class Answer(NamedTuple):
    """A batch's results, ready to be sent."""

    rows: int
    columns: List[Dict[str, Any]]
    failed: List[Dict[str, Any]]
    body: List[Any]


class _Json:
    """A column as JSON."""

    def __init__(self, values: Sequence[Any], whole: bytes) -> None:
        self._values = values
        self._whole = whole

    nan: Sequence[int] = ()
    """Rows that are NaN, which JSON has no word for."""

    def without(self, failed: Dict[int, str]) -> bytes:
        """The list of values but for the rows that failed."""
        return dumps([value for at, value in enumerate(self._values) if at not in failed]) if failed else self._whole


class _Texts(_Json):
    """A column of JSON with something in it that took a look at each value."""

    def __init__(self, texts: List[bytes], nan: List[int]) -> None:
        self._texts = texts
        self.nan = nan

    def without(self, failed: Dict[int, str]) -> bytes:
        return b"[" + b",".join(text for at, text in enumerate(self._texts) if at not in failed) + b"]"


class _Column(NamedTuple):
    """One column: JSON text, or elements that may still be on their way."""

    name: str
    content: Union[_Json, Fetching]
    absent: Sequence[int] = ()
    """Rows whose result does not have it, which is not the same as None."""

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
        self._absent: Dict[str, List[int]] = {}
        """Rows that lack a column, where dicts have different keys."""
        results = _sized(results, count)
        if isinstance(results, dict):
            columns = results
        elif not is_array(results) and _has_dicts(results):
            columns = self._columns_of_dicts(results)
        else:
            columns = {"result": results}
        self._columns = [self._column(name, values) for name, values in columns.items()]
        if self._failed:
            # What failed has no say in how the others are sent.
            for at, (name, values) in enumerate(columns.items()):
                if not is_array(values):
                    kept = [None if row in self._failed else value for row, value in enumerate(values)]
                    self._columns[at] = self._column(name, kept)

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
            (column, column.content.get() if isinstance(column.content, Fetching) else column.content)
            for column in self._columns
        ]
        if self._nan_fails:
            for (name, _, _), content in fetched:
                if isinstance(content, Fetched) and content.element in FLOATS:
                    for at in _rows_with_nan(content):
                        self.fail(at, f"result column `{name}` is NaN")
        count = self._count - len(self._failed)
        if count == 0:
            fetched = []
        columns: List[Dict[str, Any]] = []
        body: List[Any] = []
        for (name, _, lacking), content in fetched:
            head, data = _as_sent(content, self._failed)
            absent = _renumbered(lacking, self._failed)
            columns.append({"name": name, **head, **({"absent": absent} if absent else {}), "bytes": len(data)})
            body.append(data)
        failed = [{"at": at, "reason": reason} for at, reason in sorted(self._failed.items())]
        return Answer(count, columns, failed, body)

    def _columns_of_dicts(self, results: Sequence[Any]) -> Dict[str, Sequence[Any]]:
        alike = _columns_of_alike(results)
        if alike is not None:
            return alike
        names: Dict[str, None] = {}
        table: List[Dict[str, Any]] = []
        for at, row in enumerate(results):
            table.append({})
            if isinstance(row, dict):
                table[at] = {key_of(key): value for key, value in row.items()}
                names.update(dict.fromkeys(table[at]))
                if len(table[at]) < len(row):
                    keys = [key_of(key) for key in row]
                    twice = next(key for key in keys if keys.count(key) > 1)
                    self.fail(at, f"the result has two keys that are both written `{twice}`")
            elif row is None:
                # As it is written where no dict is beside it.
                table[at] = {"result": None}
                names["result"] = None
            else:
                self.fail(at, f"the result is {kind_of(row)}, where those of other items are dicts")
        if "item" in names:
            raise ResultError("a result must not have a column `item`: gpulane writes it itself")
        for name in [name for name in names if not _is_whole(name)]:
            for at in [at for at, row in enumerate(table) if name in row]:
                self.fail(at, f"the result's key {name!a} has half a surrogate pair, which UTF-8 cannot say")
            del names[name]
        self._absent = {name: [at for at, row in enumerate(table) if name not in row] for name in names}
        return {name: [row.get(name) for row in table] for name in names}

    def _column(self, name: str, values: Any) -> _Column:
        if not _is_whole(name):
            raise ResultError(f"the column {name!a} has half a surrogate pair in its name, which UTF-8 cannot say")
        content: Any
        try:
            content = fetch(values) if is_array(values) else self._from_list(name, values)
        except ArrayError:
            content = self._json(name, rows(values) if is_array(values) else values)
        return _Column(name, content, self._absent.get(name, ()))

    def _from_list(self, name: str, values: Sequence[Any]) -> Any:
        kinds = set(map(type, values))
        nulls: List[int] = []
        if type(None) in kinds and len(kinds) > 1:
            # Numbers of one type stay numbers of that type beside None, whose places hold another's value.
            kinds.discard(type(None))
            nulls = [at for at, value in enumerate(values) if value is None]
            other = next(value for value in values if value is not None)
            filled = [other if value is None else value for value in values]
            content = self._typed(filled, kinds, nulls)
        else:
            content = self._typed(values, kinds, nulls)
        return self._json(name, values) if content is None else content

    def _typed(self, values: Sequence[Any], kinds: Set[type], nulls: Sequence[int]) -> Optional[Fetching]:
        """Numbers, arrays or lists of numbers, of one type; nothing for other values."""
        numbers = _numbers(values, kinds)
        if numbers is not None:
            return Fetching(Fetched(numbers[0], (self._count,), numbers[1], nulls))
        if kinds in ({list}, {tuple}):
            vectors = _vectors(values, nulls)
            return None if vectors is None else Fetching(vectors)
        if not kinds or not all(map(is_array, values)):
            return None
        arrays = of_one_type(list(values))
        together = stacked(arrays)
        if together is not None:
            return fetch(together).beside(nulls)
        together = joined(arrays)
        if together is None:
            return None
        return fetch(together).in_lists([int(value.shape[0]) for value in values], nulls)

    def _json(self, name: str, column: Sequence[Any]) -> _Json:
        values = column if isinstance(column, list) else list(column)
        try:
            whole = dumps(values)
            if b"{" not in whole or not has_odd_keys(values):
                return _Json(values, whole)
        except (TypeError, ValueError, RecursionError):
            pass  # Something JSON does not have: found below, item by item.
        texts: List[bytes] = []
        nan: List[int] = []
        for at, value in enumerate(values):
            text = b"null"
            try:
                value = plain(value)
                text = text_of(value)
                if self._nan_fails and has_nan(value):
                    self.fail(at, f"result column `{name}` is NaN")
                if isinstance(value, float) and value != value:
                    nan.append(at)
            except RecursionError:
                self.fail(at, f"result column `{name}` is nested too deeply to be written")
            except Exception as error:  # A user's object may raise anything when looked at.
                self.fail(at, f"result column `{name}`: {error}" if name != "result" else f"the result: {error}")
            texts.append(text)
        return _Texts(texts, nan)


def _is_whole(name: str) -> bool:
    """Whether UTF-8 can say it."""
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


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
        named = {key_of(name): _rows_or_list(values) for name, values in results.items()}
        if len(named) < len(results):
            keys = [key_of(name) for name in results]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise ResultError(f"predict_batch returned two columns that are both written `{twice}`")
        if "item" in named:
            raise ResultError("a result must not have a column `item`: gpulane writes it itself")
        for name, values in named.items():
            if len(values) != count:
                raise ResultError(f"predict_batch returned {len(values)} values in column `{name}` for {count} items")
        return named
    if isinstance(results, tuple):
        raise ReturnedTuple(_about_tuple(results))
    results = _rows_or_list(results)
    if len(results) != count:
        raise ResultError(f"predict_batch returned {len(results)} results for {count} items")
    return results


def _about_tuple(results: Tuple[Any, ...]) -> str:
    """What was returned, and what to return."""
    kinds = ", ".join(type(value).__name__ for value in results[:3])
    more = ", …" if len(results) > 3 else ""
    return (
        f"predict_batch returned a tuple of {len(results)} ({kinds}{more}); return a list with one result per item, or "
        'a dict with a column per key, such as {"logits": logits, "features": features}'
    )


def _rows_or_list(values: Any) -> Any:
    if isinstance(values, (list, tuple)):
        return values
    if is_array(values):
        if len(values.shape) == 0:
            raise ResultError("predict_batch returned a single number; return one result per item")
        return values
    if hasattr(values, "columns") and not callable(values.columns):
        # Going through one of these gives the names of its columns, or the columns.
        raise ResultError(f"predict_batch returned {kind_of(values)}; return a dict with a list or an array per column")
    if values is None or isinstance(values, (str, bytes, bytearray, memoryview, set, frozenset, dict)):
        raise ResultError(f"predict_batch returned {kind_of(values)}; return one result per item")
    try:
        return list(values)
    except TypeError:
        raise ResultError(f"predict_batch returned {kind_of(values)}; return one result per item") from None


def _numbers(values: Sequence[Any], kinds: Set[type]) -> Optional[Tuple[str, bytes]]:
    """Numbers of one type, as bytes."""
    try:
        if kinds == {float}:
            return "f64", array("d", values).tobytes()
        if kinds == {int}:
            return "i64", array("q", values).tobytes()
        if kinds == {bool}:
            return "bool", bytes(values)
    except OverflowError:
        pass  # Larger than 64 bits: as JSON.
    return None


def _vectors(values: Sequence[Any], nulls: Sequence[int]) -> Optional[Fetched]:
    """Lists of numbers, as an array where they are of one length."""
    flat = list(chain.from_iterable(values))
    numbers = _numbers(flat, set(map(type, flat)))
    if numbers is None:
        return None
    lengths = list(map(len, values))
    if min(lengths) == max(lengths):
        return Fetched(numbers[0], (len(values), lengths[0]), numbers[1], nulls)
    return Fetched(numbers[0], (len(flat),), numbers[1], nulls, lengths)


def _as_sent(content: Any, failed: Dict[int, str]) -> Tuple[Dict[str, Any], Any]:
    """The head of a column, and its data, without the rows that failed."""
    head: Dict[str, Any] = {"type": "json", "shape": []}
    if isinstance(content, _Json):
        nan = _renumbered(content.nan, failed)
        return {**head, "nan": nan} if nan else head, content.without(failed)
    head["type"] = content.element
    if content.lengths is None:
        head["shape"] = list(content.shape[1:])
    nulls = _renumbered(content.nulls, failed)
    if nulls:
        head["nulls"] = nulls
    if content.lengths is not None:
        head["ragged"] = True
        lengths = array("I", [length for at, length in enumerate(content.lengths) if at not in failed])
        if sys.byteorder == "big":
            lengths.byteswap()
        return head, lengths.tobytes() + b"".join(_kept(content, failed))
    return head, b"".join(_kept(content, failed)) if failed else content.data


def _renumbered(places: Sequence[int], failed: Dict[int, str]) -> List[int]:
    """Places among the rows that have not failed."""
    gone = sorted(failed)
    return [at - bisect_left(gone, at) for at in places if at not in failed]


def _kept(content: Fetched, failed: Dict[int, str]) -> Iterator[Any]:
    """The data of each row that has not failed."""
    data = memoryview(content.data).cast("B")
    start = 0
    for at, width in enumerate(_widths(content)):
        end = start + width * BYTES_OF[content.element]
        if at not in failed:
            yield data[start:end]
        start = end


def _widths(content: Fetched) -> Sequence[int]:
    """Elements of each row."""
    return [math.prod(content.shape[1:])] * content.shape[0] if content.lengths is None else content.lengths


def _rows_with_nan(content: Fetched) -> List[int]:
    numpy = sys.modules.get("numpy")
    if numpy is not None and content.lengths is None:
        values = numpy.frombuffer(content.data, content.element.replace("f", "float"))
        values = values.reshape(content.shape[0], math.prod(content.shape[1:]))
        found = [int(at) for at in numpy.flatnonzero(numpy.isnan(values).any(axis=1))]
    else:
        flat: Any = memoryview(content.data).cast("B")
        flat = flat.cast(FLOATS[content.element])
        ends = list(accumulate(_widths(content)))
        found = sorted({bisect_right(ends, at) for at, value in enumerate(flat) if value != value})
    return [at for at in found if at not in content.nulls]
