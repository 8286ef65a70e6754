"""What comes out of a model: tensors anywhere in tuples, lists, dicts and dataclasses, taken apart and put together."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, List, Tuple

__all__ = ["Rebuild", "UnknownAnswer", "take_apart", "tensors_of"]

Rebuild = Callable[[List[Any]], Any]
"""Makes an answer of the same build out of other tensors."""

_CONSTANTS = (type(None), bool, int, float, complex, str, bytes)


class UnknownAnswer(Exception):
    """An answer whose tensors cannot be exchanged for copies."""


def take_apart(answer: Any, tensor: type) -> Tuple[List[Any], Rebuild]:
    """The tensors of an answer, and how to build the like from others. What is no tensor stays as it is."""
    if isinstance(answer, tensor):
        return [answer], _only
    found: List[Any] = []
    plan = _walk(answer, tensor, found)

    def rebuild(tensors: List[Any]) -> Any:
        return plan(iter(tensors).__next__)

    return found, rebuild


def tensors_of(answer: Any, tensor: type) -> List[Any]:
    """The tensors of any answer, also of one that could not be built again: as far as they can be seen."""
    try:
        return take_apart(answer, tensor)[0]
    except UnknownAnswer:
        seen = getattr(answer, "__dict__", {})
        return [inner for inner in seen.values() if isinstance(inner, tensor)]


def _only(tensors: List[Any]) -> Any:
    return tensors[0]


Plan = Callable[[Callable[[], Any]], Any]


def _walk(value: Any, tensor: type, found: List[Any]) -> Plan:
    if isinstance(value, tensor):
        found.append(value)
        return lambda following: following()
    if isinstance(value, _CONSTANTS):
        return lambda following: value
    if dataclasses.is_dataclass(value) and not isinstance(value, (type, dict)):
        plans = {field.name: _walk(getattr(value, field.name), tensor, found) for field in dataclasses.fields(value)}
        return lambda following: dataclasses.replace(value, **{name: plan(following) for name, plan in plans.items()})
    kind = type(value)
    if isinstance(value, dict):
        inner = {key: _walk(each, tensor, found) for key, each in value.items()}
        if kind is dict:
            return lambda following: {key: plan(following) for key, plan in inner.items()}
        if all(isinstance(key, str) for key in inner):  # Ordered dicts, and the model outputs that derive from them.
            return lambda following: kind(**{key: plan(following) for key, plan in inner.items()})
    elif isinstance(value, tuple):
        parts = [_walk(each, tensor, found) for each in value]
        if hasattr(value, "_fields"):
            return lambda following: kind(*[plan(following) for plan in parts])
        return lambda following: tuple([plan(following) for plan in parts])
    elif kind is list:
        parts = [_walk(each, tensor, found) for each in value]
        return lambda following: [plan(following) for plan in parts]
    raise UnknownAnswer(
        f"it returns a {kind.__name__}, whose tensors cannot be copied; return tensors, tuples or dicts"
    )
