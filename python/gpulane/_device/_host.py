"""Batches in this process's memory: lists of views, NumPy arrays, torch tensors without a GPU."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional, Tuple

from .._batches import Decode, Library, Ready, arrange, listed
from .._ring import ELEMENTS, Batch, Ring

__all__ = ["HostTorch", "Numpy", "Plain"]

LETTERS_OF_MEMORYVIEW = frozenset("BbHhIiQqfd?")
"""What every supported Python can cast a `memoryview` to."""


class Plain:
    """Views of shared memory, and the ways of all back ends without a GPU."""

    name = "none"
    device = "cpu"
    accepts: Tuple[str, ...] = ()
    prefetches = False
    """Nothing is gained by making batches ready ahead of time: there is no device that could do it meanwhile."""

    def open(self, ring: Ring) -> None:
        """Begins with a ring."""
        self.decode = Decode.parse(ring.decode)

    def close(self) -> None:
        """Done with the ring."""

    def prepare(self, batch: Batch, start: int, end: int) -> Ready:
        """What the model gets for the items from `start` to `end`."""
        given = listed(batch, start, end, self.decode)
        if given is not None:
            copied = 0 if self.decode.kind != "bytes" else sum(map(len, given))
            return Ready(given, on_host=copied)
        arrays, copied = arrange(batch, start, end, self.decode, self.library(batch))
        return Ready(arrays, on_host=copied)

    def library(self, batch: Batch) -> Library:
        """Makes arrays over a batch's memory."""
        return _Views(batch)

    def free(self) -> None:
        """Gives back memory kept for later."""

    def is_broken(self) -> bool:
        """Whether the device can no longer be used by this process."""
        return False

    def memory(self) -> Optional[Dict[str, int]]:
        """GPU memory: what this process had at most, and what there is."""
        return None


class Numpy(Plain):
    """Read-only NumPy arrays over shared memory."""

    name = "numpy"

    def __init__(self, numpy: Any) -> None:
        self._numpy = numpy

    def library(self, batch: Batch) -> Library:
        return _NumpyViews(self._numpy, batch)


class HostTorch(Plain):
    """Torch tensors where there is no GPU. They are copies: torch has no read-only tensors, and a model that works in
    place would spoil what it is given again after an error."""

    name = "torch"

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def prepare(self, batch: Batch, start: int, end: int) -> Ready:
        ready = super().prepare(batch, start, end)
        if self.decode.kind not in ("bytes", "text", "value"):
            ready.on_host = sum(size for _, size in batch.places(start, end))
        return ready

    def library(self, batch: Batch) -> Library:
        return _TorchCopies(self._torch, batch)


class _Views(Library):
    stacks = False

    def __init__(self, batch: Batch) -> None:
        self._memory = batch.memory

    def view(self, offset: int, element: int, shape: Tuple[int, ...]) -> Any:
        _, size, letter = ELEMENTS[element]
        flat: Any = self._memory[offset : offset + size * math.prod(shape)].toreadonly()
        if not shape or 0 in shape or letter not in LETTERS_OF_MEMORYVIEW:
            return flat
        return flat.cast(letter, shape) if letter != "B" or len(shape) > 1 else flat


class _NumpyViews(Library):
    def __init__(self, numpy: Any, batch: Batch) -> None:
        self._numpy = numpy
        self._memory = batch.memory

    def view(self, offset: int, element: int, shape: Tuple[int, ...]) -> Any:
        kind = self._numpy.dtype(ELEMENTS[element][2])
        if 0 in shape:
            return self._numpy.empty(shape, kind)
        array = self._numpy.frombuffer(self._memory, kind, math.prod(shape), offset).reshape(shape)
        array.flags.writeable = False
        return array

    def stack(self, arrays: List[Any]) -> Any:
        together = self._numpy.stack(arrays)
        together.flags.writeable = False  # As always, so that no model works with some batches alone.
        return together


TORCH_NAMES = {"u8": "uint8", "i8": "int8", "f16": "float16", "f32": "float32", "f64": "float64", "bool": "bool"}


def torch_type(torch: Any, element: int) -> Any:
    """Torch's name for an element type."""
    name = ELEMENTS[element][0]
    found = getattr(torch, TORCH_NAMES.get(name) or name.replace("u", "uint").replace("i", "int", 1), None)
    if found is None:
        raise ValueError(f"this torch has no tensors of {name}")
    return found


class _TorchCopies(Library):
    def __init__(self, torch: Any, batch: Batch) -> None:
        self._torch = torch
        self._memory = batch.memory

    def view(self, offset: int, element: int, shape: Tuple[int, ...]) -> Any:
        kind = torch_type(self._torch, element)
        if 0 in shape:
            return self._torch.empty(shape, dtype=kind)
        count = math.prod(shape)
        return self._torch.frombuffer(self._memory, dtype=kind, count=count, offset=offset).reshape(shape).clone()

    def stack(self, arrays: List[Any]) -> Any:
        return self._torch.stack(arrays)

    def images(self, stacked: Any) -> Any:
        return torch_images(stacked)


def torch_images(stacked: Any) -> Any:
    """N×H×W×3 as N×3×H×W without moving a byte (channels last); N×H×W as N×1×H×W."""
    return stacked.permute(0, 3, 1, 2) if stacked.dim() == 4 else stacked.unsqueeze(1)
