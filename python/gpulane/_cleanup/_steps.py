"""A step of a cleanup may fail; the next one is tried all the same."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, TypeVar

__all__ = ["attempt", "found"]

Result = TypeVar("Result")


def attempt(failures: List[str], what: str, call: Callable[[], Result], otherwise: Result) -> Result:
    """What the call returns; if it raises, that is noted and `otherwise` returned."""
    try:
        return call()
    except Exception as error:
        failures.append(f"{what}: {type(error).__name__}: {error}")
        return otherwise


def found(root: Any, path: str) -> Optional[Any]:
    """What a dotted path leads to, or nothing: names come and go with the versions of a library."""
    for name in path.split("."):
        root = getattr(root, name, None)
        if root is None:
            return None
    return root
