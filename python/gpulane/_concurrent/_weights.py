"""Whether a model's weights are still those its graph reads."""

from __future__ import annotations

from itertools import chain
from typing import Any, Iterator, List

__all__ = ["Weights", "tensors_in"]


def tensors_in(model: Any) -> Iterator[Any]:
    """Parameters and buffers of a module; nothing of a plain function."""
    if hasattr(model, "parameters") and hasattr(model, "buffers"):
        return chain(model.parameters(), model.buffers())
    return iter(())


class Weights:
    """The weights a graph was captured with. Keeps their memory: a graph then gives old answers rather than garbage."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._kept: List[Any] = [tensor.detach() for tensor in tensors_in(model)]
        self._places = self._look()

    def _look(self) -> List[int]:
        return [tensor.data_ptr() for tensor in tensors_in(self._model)]

    def replaced(self) -> bool:
        """Whether some are no longer where they were. Changes in place do not count: the graph sees them."""
        return self._look() != self._places
