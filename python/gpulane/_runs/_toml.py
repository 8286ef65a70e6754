"""A plan given as a dict, as the TOML the program reads. One key a line, so that its messages can show the line."""

from __future__ import annotations

import math
import os
import re
from typing import Any, List, Mapping, Tuple

from ._errors import PlanError

__all__ = ["name_in", "toml", "value_text"]

_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")
_NAME = re.compile(r"""^[ \t]*name[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|'([^']*)')""", re.MULTILINE)
_TABLE = re.compile(r"^[ \t]*\[", re.MULTILINE)


def toml(plan: Mapping[str, Any]) -> str:
    """The text of a plan. Values that are None are left out: TOML has no word for them."""
    simple: List[str] = []
    tables: List[str] = []
    for key, value in plan.items():
        if isinstance(value, Mapping):
            tables += ["", f"[{_key(key)}]", *_lines(value, (str(key),))]
        elif isinstance(value, (list, tuple)) and value and all(isinstance(each, Mapping) for each in value):
            for at, each in enumerate(value):
                tables += ["", f"[[{_key(key)}]]", *_lines(each, (str(key), str(at)))]
        elif value is not None:
            simple.append(f"{_key(key)} = {_value(value, (str(key),))}")
    return "\n".join([*simple, *tables]) + "\n"


def value_text(value: Any, place: str) -> str:
    """One value; `place` is what it is called if it cannot be said."""
    return _value(value, (place,))


def name_in(text: str) -> str:
    """The name a plan's text gives itself, or nothing. Only to name a directory: the program reads the plan itself."""
    table = _TABLE.search(text)
    found = _NAME.search(text, 0, table.start() if table else len(text))
    return (found[1] or found[2] or "") if found else ""


def _lines(table: Mapping[str, Any], place: Tuple[str, ...]) -> List[str]:
    return [f"{_key(key)} = {_value(value, (*place, str(key)))}" for key, value in table.items() if value is not None]


def _value(value: Any, place: Tuple[str, ...]) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return _float(float(value))
    if isinstance(value, (str, os.PathLike)):
        return _text(os.fspath(value))
    if isinstance(value, Mapping):
        inner = [f"{_key(key)} = {_value(each, (*place, str(key)))}" for key, each in value.items() if each is not None]
        return "{ " + ", ".join(inner) + " }" if inner else "{}"
    if isinstance(value, (list, tuple, range)):
        return "[" + ", ".join(_value(each, (*place, str(at))) for at, each in enumerate(value)) + "]"
    listed = getattr(value, "tolist", None)  # Numbers and arrays of numpy, torch and kin.
    if callable(listed):
        return _value(listed(), place)
    what = "None, for which TOML has no word" if value is None else f"a {type(value).__name__}"
    raise PlanError(f"{'.'.join(place)} is {what}; a plan holds text, numbers, booleans, lists and dicts")


def _float(value: float) -> str:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return repr(value)


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise PlanError(f"the key {key!r} is a {type(key).__name__}; keys of a plan are text")
    return key if _BARE.match(key) else _text(key)


def _text(text: Any) -> str:
    if not isinstance(text, str):
        raise PlanError(f"{text!r} is a path that is not text")
    special = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return '"' + "".join(special.get(c) or (f"\\u{ord(c):04x}" if c < " " or c == "\x7f" else c) for c in text) + '"'
