"""Batches as CuPy arrays."""

from __future__ import annotations

import gc
import math
from typing import Any, List, Tuple

from .._batches import Library
from .._ring import ELEMENTS
from ._gpu import Buffer, Gpu

__all__ = ["Cupy"]


class Cupy(Gpu):
    """Memory from CuPy's pool, which keeps an arena per stream: a batch is held until its results are here, so that
    the copy stream does not reuse it before."""

    name = "cupy"

    def __init__(self, cupy: Any) -> None:
        cupy.cuda.Device(0).use()
        cupy.cuda.runtime.free(0)  # Makes the context.
        super().__init__()
        self._cupy = cupy
        # First in the queue for the GPU: what it does is short, and the model waits for it.
        try:
            self._stream = cupy.cuda.Stream(non_blocking=True, priority=-1)
        except TypeError:
            self._stream = cupy.cuda.Stream(non_blocking=True)  # A CuPy that knows no priorities yet.
        self.stream = self._stream.ptr
        self._peak = 0

    def allocate(self, size: int) -> Buffer:
        with self._stream:
            owner = self._cupy.empty(size, dtype="uint8")
        return Buffer(owner, owner.data.ptr)

    def library(self, memory: Buffer, origin: int) -> Library:
        return _Arrays(self._cupy, memory.owner, origin)

    def compute_stream(self) -> int:
        handle: int = self._cupy.cuda.get_current_stream().ptr
        return handle

    def read(self, memory: Buffer, size: int) -> bytes:
        self._stream.synchronize()
        data: bytes = self._cupy.asnumpy(memory.owner[:size]).tobytes()
        return data

    def free(self) -> None:
        gc.collect()
        self._cupy.get_default_memory_pool().free_all_blocks()

    def peak(self) -> int:
        self._peak = max(self._peak, int(self._cupy.get_default_memory_pool().total_bytes()))
        return self._peak


class _Arrays(Library):
    def __init__(self, cupy: Any, memory: Any, origin: int) -> None:
        self._cupy = cupy
        self._memory = memory
        self._origin = origin

    def view(self, offset: int, element: int, shape: Tuple[int, ...]) -> Any:
        kind = self._cupy.dtype(ELEMENTS[element][2])
        at = offset - self._origin
        size = ELEMENTS[element][1] * math.prod(shape)
        return self._memory[at : at + size].view(kind).reshape(shape)

    def stack(self, arrays: List[Any]) -> Any:
        return self._cupy.stack(arrays)
