"""JAX: compiled functions; on request, its GPU client with the pool, which JAX gives back in no other way."""

from __future__ import annotations

import sys
from typing import Any, List, Optional, Sequence

from ._freed import Library
from ._steps import attempt, found

__all__ = ["Jax"]


class Jax:
    """JAX, if this process uses a GPU with it."""

    name = "JAX"

    def __init__(self, devices: Optional[Sequence[int]], reset: bool) -> None:
        self._jax: Any = sys.modules.get("jax")
        self._has_context = devices != []
        self._reset = reset
        self._found = Library(self.name)
        self._was_in_use = bool(self._gpus())
        self._before = self._pool()

    def forget(self) -> None:
        """Drops compiled functions, and the constants in them."""
        clear = found(self._jax, "clear_caches")
        if clear is not None and self._was_in_use:
            attempt(self._found.failures, "jax.clear_caches", clear, None)

    def release(self) -> None:
        """Ends the client if that was asked for and no array lives in it: arrays would be lost."""
        if not self._reset or not self._was_in_use:
            return
        living = found(self._jax, "live_arrays")
        count = len(attempt(self._found.failures, "jax.live_arrays", living, [None])) if living is not None else 0
        if count:
            self._found.failures.append(f"JAX keeps its memory: {count} of its arrays are alive; delete them first")
            return
        clear = self._clear_backends()
        if clear is None:
            self._found.failures.append("JAX keeps its memory: this version has no clear_backends")
        else:
            attempt(self._found.failures, "jax.extend.backend.clear_backends", clear, None)

    def tell(self) -> Optional[Library]:
        """What came back; nothing if JAX does not use a GPU."""
        if not self._was_in_use:
            return None
        self._found.held = self._pool()
        self._found.freed = max(0, self._before - self._found.held)
        return self._found

    def _clear_backends(self) -> Any:
        """Where it is depends on the version."""
        try:
            from importlib import import_module

            return found(import_module("jax.extend.backend"), "clear_backends")
        except ImportError:
            return found(self._jax, "clear_backends")

    def _gpus(self) -> List[Any]:
        """JAX's GPUs, if it has its clients up; asking must not bring them up."""
        if self._jax is None or not self._has_context or not self._is_up():
            return []
        nothing: List[Any] = []
        listed = attempt(self._found.failures, "jax.local_devices", lambda: list(self._jax.local_devices()), nothing)
        return [device for device in listed if getattr(device, "platform", "") in ("gpu", "cuda", "rocm")]

    def _is_up(self) -> bool:
        bridge = sys.modules.get("jax._src.xla_bridge")
        ask = getattr(bridge, "backends_are_initialized", None)
        if ask is None:
            return bool(getattr(bridge, "_backends", None))
        return bool(attempt(self._found.failures, "jax backends_are_initialized", ask, False))

    def _pool(self) -> int:
        """What its allocator has from the GPU, in use or not."""
        return sum(
            attempt(self._found.failures, "jax memory_stats", lambda device=device: _pool_of(device), 0)  # type: ignore[misc]
            for device in self._gpus()
        )


def _pool_of(device: Any) -> int:
    stats = device.memory_stats() or {}
    return int(stats.get("pool_bytes", stats.get("bytes_in_use", 0)))
