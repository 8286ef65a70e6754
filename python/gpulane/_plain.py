"""Values as JSON text, each as it is: nothing is rounded, replaced or left out. What JSON cannot say is refused with
the reason and the way out; but NaN, which JSON does not have, is null."""

from __future__ import annotations

import json
import math
import os
from typing import Any, Dict, List, Sequence

__all__ = ["dumps", "has_nan", "has_odd_keys", "key_of", "kind_of", "plain", "text_of"]

INFINITY = "1e999"
"""A number beyond all doubles, as the feeder reads infinity."""

WAYS_OUT = {
    "datetime": "return value.isoformat()",
    "date": "return value.isoformat()",
    "time": "return value.isoformat()",
    "timedelta": "return value.total_seconds()",
    "Timestamp": "return value.isoformat()",
    "Decimal": "return str(value), or float(value) if that is exact enough",
    "Fraction": "return str(value), or float(value) if that is exact enough",
    "complex": "return [value.real, value.imag]",
    "UUID": "return str(value)",
    "set": "return sorted(value)",
    "frozenset": "return sorted(value)",
}
EXACT_KINDS = "biufUOT"
"""Kinds of NumPy's element types whose `tolist` gives equal values of Python's own."""

NARROW_FLOATS = ("bfloat16", "float8_", "float6_", "float4_")
"""Beginnings of the names of float types that NumPy does not have itself; a 32-bit float holds all of them."""


def dumps(value: Any) -> bytes:
    """JSON of a value that has nothing JSON does not have; otherwise an error."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def text_of(value: Any) -> bytes:
    """JSON of what `plain` returned."""
    try:
        return dumps(value)
    except UnicodeEncodeError:
        raise ValueError(
            "has half a surrogate pair in a text, which UTF-8 cannot say; return whole characters"
        ) from None
    except ValueError:
        return _spelled(value).encode("utf-8")


def _spelled(value: Any) -> str:
    """JSON of what has NaN or infinity in it."""
    if isinstance(value, float) and not math.isfinite(value):
        return "null" if value != value else INFINITY if value > 0 else "-" + INFINITY
    if isinstance(value, dict):
        return "{" + ",".join(f"{_spelled(key)}:{_spelled(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_spelled, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def key_of(key: Any) -> str:
    """A dict's key as text, in the way of Python's own json for what that accepts."""
    if isinstance(key, str):
        return str.__str__(key)
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    if isinstance(key, int):
        return int.__repr__(key)
    return float.__repr__(key) if isinstance(key, float) else str(key)


def has_odd_keys(values: Sequence[Any]) -> bool:
    """Whether a dict somewhere in it has keys that are not text."""
    for value in values:
        if isinstance(value, dict):
            if any(type(key) is not str for key in value) or has_odd_keys(list(value.values())):
                return True
        elif isinstance(value, (list, tuple)) and has_odd_keys(value):
            return True
    return False


def plain(value: Any) -> Any:
    """The value as lists, dicts with keys of text, and what JSON has; an error says why it cannot be."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):
        return _plain_dict(value)
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    if isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError("bytes cannot be written; return text (base64), a number or an array, or write a file")
    if isinstance(value, os.PathLike):
        return plain(os.fspath(value))
    if hasattr(value, "tolist"):
        return _plain_array(value)
    name = type(value).__name__
    advice = WAYS_OUT.get(name, "return numbers, text, None, arrays, lists or dicts of those")
    if hasattr(value, "value") and hasattr(value, "name"):
        advice = "return its .value or .name"
    raise TypeError(f"{kind_of(value)} cannot be written; {advice}")


def _plain_dict(value: Dict[Any, Any]) -> Dict[str, Any]:
    named = {key_of(key): plain(inner) for key, inner in value.items()}
    if len(named) < len(value):
        keys = [key_of(key) for key in value]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"has two keys that are both written `{twice}`")
    return named


def _plain_array(value: Any) -> Any:
    dtype: Any = getattr(value, "dtype", None)
    kind = getattr(dtype, "kind", None)
    name = str(getattr(dtype, "name", dtype))
    if name.startswith(NARROW_FLOATS) and hasattr(value, "astype"):
        value = value.astype("float32")
    elif kind is not None and (kind not in EXACT_KINDS or kind == "f" and dtype.itemsize > 8):
        raise TypeError(
            f"an array of {name} cannot be written as it is; return real numbers of at most 64 bits, or text"
        )
    listed = value.tolist()
    if type(listed) is type(value):
        raise TypeError(
            f"{kind_of(value)} cannot be written; return numbers, text, None, arrays, lists or dicts of those"
        )
    return plain(listed)


def has_nan(value: Any) -> bool:
    """Whether what `plain` returned has NaN somewhere."""
    if isinstance(value, float):
        return value != value
    inner: List[Any] = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return any(map(has_nan, inner))


def kind_of(value: Any) -> str:
    """For a person: what it is."""
    return "None" if value is None else f"a value of type {type(value).__name__}"
