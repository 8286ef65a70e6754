"""Batches as torch tensors on the GPU."""

from __future__ import annotations

import gc
import math
from typing import Any, List, Tuple

from .._batches import Library
from .._ring import ELEMENTS
from ._gpu import Buffer, Gpu
from ._host import torch_images, torch_type

__all__ = ["Torch"]


class Torch(Gpu):
    """Memory from torch's own allocator, so that it is counted and given back with the model's."""

    name = "torch"

    def __init__(self, torch: Any) -> None:
        torch.cuda.init()
        super().__init__()
        self._torch = torch
        # First in the queue for the GPU: what it does is short, and the model waits for it.
        self._stream = torch.cuda.Stream(priority=-1)
        self.stream = self._stream.cuda_stream

    def allocate(self, size: int) -> Buffer:
        with self._torch.cuda.stream(self._stream):
            owner = self._torch.empty(size, dtype=self._torch.uint8, device="cuda")
        return Buffer(owner, owner.data_ptr())

    def library(self, memory: Buffer, origin: int) -> Library:
        return _Tensors(self._torch, memory.owner, origin)

    def compute_stream(self) -> int:
        handle: int = self._torch.cuda.current_stream().cuda_stream
        return handle

    def hand_over(self, given: Any) -> None:
        # The allocator then waits for the model's stream before it reuses the memory, whoever keeps the tensor.
        stream = self._torch.cuda.current_stream()
        for tensor in given if isinstance(given, list) else [given]:
            if isinstance(tensor, self._torch.Tensor):
                tensor.record_stream(stream)

    def read(self, memory: Buffer, size: int) -> bytes:
        self._stream.synchronize()
        return bytes(memory.owner[:size].cpu().tolist())

    def free(self) -> None:
        gc.collect()
        self._torch.cuda.empty_cache()

    def peak(self) -> int:
        return int(self._torch.cuda.max_memory_reserved())


class _Tensors(Library):
    def __init__(self, torch: Any, memory: Any, origin: int) -> None:
        self._torch = torch
        self._memory = memory
        self._origin = origin

    def view(self, offset: int, element: int, shape: Tuple[int, ...]) -> Any:
        kind = torch_type(self._torch, element)
        at = offset - self._origin
        size = ELEMENTS[element][1] * math.prod(shape)
        return self._memory[at : at + size].view(kind).view(shape)

    def stack(self, arrays: List[Any]) -> Any:
        return self._torch.stack(arrays)

    def images(self, stacked: Any) -> Any:
        return torch_images(stacked)
