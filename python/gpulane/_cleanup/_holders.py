"""Whether an object keeps GPU memory: is such an array, or leads to one."""

from __future__ import annotations

import gc
import types
from typing import Any, List, Set

__all__ = ["holds_gpu_memory"]

MOST_OBJECTS = 20_000
"""Looked at before giving up: outputs of a cell are small, or tables of plain values."""

_NOT_OWNED = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.CodeType, types.FrameType)
"""What leads on to half the program, and owns none of it."""

_PLAIN = (int, float, complex, str, bytes, bytearray, type(None))


def holds_gpu_memory(value: Any) -> bool:
    """Whether this is an array on a GPU, or an object that leads to one through its own parts."""
    waiting: List[Any] = [value]
    seen: Set[int] = set()
    while waiting and len(seen) < MOST_OBJECTS:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, _PLAIN) or isinstance(each, _NOT_OWNED):
            continue
        seen.add(id(each))
        if _is_on_gpu(each):
            return True
        waiting.extend(gc.get_referents(each))
    return False


def _is_on_gpu(value: Any) -> bool:
    """By what the arrays of torch, CuPy and JAX say of themselves."""
    kind = type(value)
    if not any(hasattr(kind, name) for name in ("is_cuda", "__cuda_array_interface__")):
        return False
    try:
        # Torch refuses the interface for tensors with a gradient, so that the plain question comes first.
        return bool(getattr(value, "is_cuda", False)) or hasattr(value, "__cuda_array_interface__")
    except Exception:
        return False  # An array that was deleted, or an object that only looks like one.
