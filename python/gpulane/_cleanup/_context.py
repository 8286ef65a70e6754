"""On which GPUs this process has a CUDA context. Asks the driver in a way that creates none."""

from __future__ import annotations

import ctypes
from typing import List, NamedTuple, Optional

__all__ = ["Device", "active"]


class Device(NamedTuple):
    """A GPU this process has a context on."""

    ordinal: int
    """As torch, CuPy and JAX count, within `CUDA_VISIBLE_DEVICES`."""
    bus: str
    """Its PCI address, by which NVML knows it."""


def active() -> Optional[List[Device]]:
    """The GPUs with a context; none where CUDA was not used; None where there is no driver to ask."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    count = ctypes.c_int()
    # Fails where nobody called cuInit in this process, which is then an answer too.
    if driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return []
    return [
        Device(ordinal, _bus_of(driver, ordinal)) for ordinal in range(count.value) if _has_context(driver, ordinal)
    ]


def _has_context(driver: ctypes.CDLL, ordinal: int) -> bool:
    flags, is_active = ctypes.c_uint(), ctypes.c_int()
    answer: int = driver.cuDevicePrimaryCtxGetState(ordinal, ctypes.byref(flags), ctypes.byref(is_active))
    return answer == 0 and is_active.value == 1


def _bus_of(driver: ctypes.CDLL, ordinal: int) -> str:
    text = ctypes.create_string_buffer(32)
    answer: int = driver.cuDeviceGetPCIBusId(text, len(text), ordinal)
    return text.value.decode() if answer == 0 else ""
