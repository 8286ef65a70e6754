"""This process's GPU memory as the driver sees it. NVML through ctypes: nothing to install, nothing where it is not."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import List, NamedTuple, Optional, Sequence

__all__ = ["Reading", "read"]

DEADLINE_S = 3.0
"""NVML hangs on some sick machines. Nobody waits longer than this for a figure."""

INSUFFICIENT_SIZE = 7
NOT_AVAILABLE = (1 << 64) - 1


class Reading(NamedTuple):
    """GPU memory in bytes, summed over the GPUs asked for."""

    mine: Optional[int]
    """Of this process; None if the driver does not tell, as in most containers, where process ids differ."""
    device: int
    """Of all processes together."""


class _Process(ctypes.Structure):
    """`nvmlProcessInfo_t` since its second version."""

    _fields_ = [
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


class _Memory(ctypes.Structure):
    """`nvmlMemory_t`."""

    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


def read(buses: Sequence[str], library: str = "libnvidia-ml.so.1") -> Optional[Reading]:
    """What is in use on the GPUs with these PCI addresses; nothing if NVML is not there or does not answer."""
    answers: List[Optional[Reading]] = []
    thread = threading.Thread(target=lambda: answers.append(_ask(buses, library)), name="gpulane-nvml", daemon=True)
    thread.start()
    thread.join(DEADLINE_S)
    return answers[0] if answers else None


def _ask(buses: Sequence[str], library: str) -> Optional[Reading]:
    try:
        nvml = ctypes.CDLL(library)
        if nvml.nvmlInit_v2() != 0:
            return None
    except (OSError, AttributeError):
        return None
    try:
        mine: Optional[int] = 0
        device = 0
        for bus in buses:
            handle = ctypes.c_void_p()
            if nvml.nvmlDeviceGetHandleByPciBusId_v2(bus.encode(), ctypes.byref(handle)) != 0:
                return None
            memory = _Memory()
            if nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) != 0:
                return None
            device += memory.used
            share = _share(nvml, handle)
            mine = None if mine is None or share is None else mine + share
        return Reading(mine, device)
    except AttributeError:
        return None  # A driver that is too old for one of these.
    finally:
        nvml.nvmlShutdown()


def _share(nvml: ctypes.CDLL, handle: ctypes.c_void_p) -> Optional[int]:
    """What this process has on one GPU. It does have a context there: not to be listed means to be unknown."""
    room = ctypes.c_uint(64)
    for _ in range(4):
        listed = (_Process * room.value)()
        answer = nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(room), listed)
        if answer != INSUFFICIENT_SIZE:
            break
        room = ctypes.c_uint(room.value * 2)
    if answer != 0:
        return None
    me = os.getpid()
    for process in listed[: room.value]:
        if process.pid == me and process.used != NOT_AVAILABLE:
            return int(process.used)
    return None
