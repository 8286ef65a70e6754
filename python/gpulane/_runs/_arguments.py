"""Arguments of a map's model, as `--set` takes them: each value in TOML, so that it arrives as the type it has here."""

from __future__ import annotations

import math
from typing import Any, List, Mapping, Optional, Sequence, Union

from ._errors import PlanError
from ._toml import value_text

__all__ = ["Arguments", "words_of"]

Arguments = Union[Mapping[str, Any], str, Sequence[str], None]
"""By name; or as on the command line: `"least=3"`, or several of these."""


def words_of(args: Optional[Mapping[str, Any]], set: Arguments) -> List[str]:
    """`KEY=VALUE` for each; `args` is the plan's word for them and `set` the command line's."""
    if args is not None and not isinstance(args, Mapping):
        raise TypeError(f"args= is a dict of the model's arguments, not a {type(args).__name__}: args={{'least': 3}}")
    named = dict(args or {})
    if isinstance(set, Mapping):
        twice = [key for key in set if key in named]
        if twice:
            raise PlanError(f"args= and set= both give {twice[0]!r}; they mean the same, so give it once")
        named.update(set)
        set = None
    words = [f"{_name(key)}={_text(value, key)}" for key, value in named.items()]
    return words + ([set] if isinstance(set, str) else list(set or []))


def _name(key: Any) -> str:
    if not isinstance(key, str) or not key.isidentifier():
        raise PlanError(f"{key!r} cannot be the name of a model's argument: letters, digits and `_`, no digit first")
    return key


def _text(value: Any, place: str) -> str:
    """What JSON does not have would arrive as text, and nobody would notice: it is refused."""
    _check(value, place)
    return value_text(value, place)


def _check(value: Any, place: str) -> None:
    if value is None:
        raise PlanError(f"argument {place} is None, for which there is no word; leave it out, as the model's default")
    if isinstance(value, float) and not math.isfinite(value):
        raise PlanError(f"argument {place} is {value}, a number JSON does not have; write it as text: {str(value)!r}")
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise PlanError(f"argument {place} does not fit into 64 bits; write it as text: {str(value)!r}")
    if isinstance(value, str) and "\0" in value:
        raise PlanError(f"argument {place} has a NUL character, which no process can be given")
    if isinstance(value, Mapping):
        for key, each in value.items():
            _check(each, f"{place}.{key}")
    elif isinstance(value, (list, tuple)):
        for at, each in enumerate(value):
            _check(each, f"{place}.{at}")
    elif callable(getattr(value, "tolist", None)):
        _check(value.tolist(), place)
