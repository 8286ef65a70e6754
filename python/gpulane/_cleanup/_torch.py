"""Torch: compiled code and its graphs, cuBLAS workspaces, memory of other processes, device and host caches."""

from __future__ import annotations

import sys
from typing import Any, List, Optional, Sequence

from ._freed import Library
from ._steps import attempt, found

__all__ = ["Torch"]


class Torch:
    """Torch, if this process uses a GPU with it."""

    name = "torch"

    def __init__(self, devices: Optional[Sequence[int]]) -> None:
        self._torch: Any = sys.modules.get("torch")
        self._devices = devices
        self._found = Library(self.name)
        self._before, self._pinned_before = self._reserved(), self._pinned()

    def is_in_use(self) -> bool:
        """Whether torch has CUDA up. Asking does not bring it up."""
        is_initialized = found(self._torch, "cuda.is_initialized")
        if is_initialized is None or self._devices == []:
            return False
        return bool(attempt(self._found.failures, "torch.cuda.is_initialized", is_initialized, False))

    def forget(self) -> None:
        """Drops what `torch.compile` keeps: code, and the CUDA graphs with their memory."""
        if "torch._dynamo" in sys.modules:
            self._step("torch._dynamo.reset", found(self._torch, "_dynamo.reset"))

    def release(self) -> None:
        """Gives memory back: first what lies in the caches as workspaces, then the caches."""
        if not self.is_in_use():
            return
        synchronize = found(self._torch, "cuda.synchronize")
        for device in [None] if self._devices is None else self._devices:
            self._step("torch.cuda.synchronize", synchronize, *([] if device is None else [device]))
        self._step("torch._C._cuda_clearCublasWorkspaces", found(self._torch, "_C._cuda_clearCublasWorkspaces"))
        self._step("torch.cuda.ipc_collect", found(self._torch, "cuda.ipc_collect"))
        self._step("torch.cuda.empty_cache", found(self._torch, "cuda.empty_cache"))
        # The public name is new; before it there were private ones.
        for path in ("accelerator.memory.empty_host_cache", "_C._accelerator_emptyHostCache", "_C._host_emptyCache"):
            empty_host_cache = found(self._torch, path)
            if empty_host_cache is not None:
                self._step(f"torch.{path}", empty_host_cache)
                break

    def tell(self) -> Optional[Library]:
        """What came back; nothing if torch does not use a GPU."""
        if not self.is_in_use() and not self._found.failures:
            return None
        self._found.held = self._reserved()
        self._found.freed = max(0, self._before - self._found.held)
        self._found.pinned = max(0, self._pinned_before - self._pinned())
        return self._found

    def _reserved(self) -> int:
        """Device memory of the caching allocator, in use or not, on all GPUs. No context comes of asking."""
        if not self.is_in_use():
            return 0
        return attempt(self._found.failures, "torch.cuda.memory_reserved", self._sum_reserved, 0)

    def _sum_reserved(self) -> int:
        cuda = self._torch.cuda
        devices: List[Any] = list(range(cuda.device_count())) if self._devices is None else list(self._devices)
        return sum(int(cuda.memory_reserved(device)) for device in devices)

    def _pinned(self) -> int:
        """Pinned memory of the host allocator; 0 where torch is too old to count it."""
        stats = found(self._torch, "cuda.memory.host_memory_stats")
        if stats is None or not self.is_in_use():
            return 0
        return attempt(
            self._found.failures,
            "torch.cuda.memory.host_memory_stats",
            lambda: int(stats().get("allocated_bytes.current", 0)),
            0,
        )

    def _step(self, what: str, call: Any, *arguments: Any) -> None:
        if call is not None:
            attempt(self._found.failures, what, lambda: call(*arguments), None)
