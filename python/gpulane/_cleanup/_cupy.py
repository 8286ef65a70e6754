"""CuPy: plans of FFTs with their workspaces, the device pool, the pinned pool."""

from __future__ import annotations

import sys
from typing import Any, Callable, List, Optional, Sequence

from ._freed import Library
from ._steps import attempt, found

__all__ = ["CuPy"]


class CuPy:
    """CuPy, if this process uses a GPU with it."""

    name = "CuPy"

    def __init__(self, devices: Optional[Sequence[int]]) -> None:
        self._cupy: Any = sys.modules.get("cupy")
        self._devices = devices
        self._found = Library(self.name)
        self._before = self._total()

    def is_in_use(self) -> bool:
        """Whether there is something to clean: CuPy is imported, and this process has a context."""
        if found(self._cupy, "get_default_memory_pool") is None:
            return False
        if self._devices is None:
            return bool(found(self._cupy, "cuda.runtime.is_hip"))  # No CUDA driver, but another one.
        return self._devices != []

    def forget(self) -> None:
        """Drops the plans of FFTs, which this thread has for each GPU."""
        cache = found(self._cupy, "fft.config.get_plan_cache")
        if cache is not None and self.is_in_use():
            self._on_each("cupy.fft plan cache", lambda: cache().clear())

    def release(self) -> None:
        """Gives back what the pools hold and nobody uses."""
        if not self.is_in_use():
            return
        self._on_each("cupy.cuda.Device.synchronize", lambda: self._cupy.cuda.Device().synchronize())
        for pool in self._pools():
            self._on_each("cupy memory pool", pool.free_all_blocks)
        pinned = found(self._cupy, "get_default_pinned_memory_pool")
        if pinned is not None:
            attempt(self._found.failures, "cupy pinned memory pool", lambda: pinned().free_all_blocks(), None)

    def tell(self) -> Optional[Library]:
        """What came back; nothing if CuPy does not use a GPU. Its pinned pool does not count bytes."""
        if not self.is_in_use():
            return None
        self._found.held = self._total()
        self._found.freed = max(0, self._before - self._found.held)
        return self._found

    def _total(self) -> int:
        """Device memory of the pools, in use or not."""
        if not self.is_in_use():
            return 0
        totals: List[int] = []
        for pool in self._pools():
            self._on_each("cupy memory pool", lambda pool=pool: totals.append(int(pool.total_bytes())))  # type: ignore[misc]
        return sum(totals)

    def _pools(self) -> List[Any]:
        """The default pool, and the one that was put in its place."""
        pools = [attempt(self._found.failures, "cupy memory pool", self._cupy.get_default_memory_pool, None)]
        allocator = found(self._cupy, "cuda.get_allocator")
        if allocator is not None:
            chosen = attempt(self._found.failures, "cupy.cuda.get_allocator", allocator, None)
            pools.append(getattr(chosen, "__self__", None))
        usable = [pool for pool in pools if hasattr(pool, "free_all_blocks") and hasattr(pool, "total_bytes")]
        return [pool for at, pool in enumerate(usable) if not any(pool is other for other in usable[:at])]

    def _on_each(self, what: str, call: Callable[[], Any]) -> None:
        """Calls it with each GPU that has a context as the current one; CuPy's caches and pools look at that."""
        for device in [None] if self._devices is None else self._devices:
            attempt(self._found.failures, what, lambda device=device: self._on(device, call), None)  # type: ignore[misc]

    def _on(self, device: Optional[int], call: Callable[[], Any]) -> None:
        if device is None:
            call()
        else:
            with self._cupy.cuda.Device(device):
                call()
