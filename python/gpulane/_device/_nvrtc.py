"""CUDA C++ to machine code at run time, by NVRTC through ctypes."""

from __future__ import annotations

import ctypes
import threading
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p
from typing import List, Optional

from ._cuda import Driver
from ._libraries import find

__all__ = ["compile_early", "compile_for", "compiled"]

_early: Optional["_Early"] = None


class _Early(threading.Thread):
    """Compiles for the GPU this process sees, before anything has been done on it."""

    def __init__(self, source: str) -> None:
        super().__init__(name="gpulane-compile", daemon=True)
        self.source = source
        self.capability = ""
        self.code: List[bytes] = []

    def run(self) -> None:
        try:
            self.capability = Driver.capability_of_first()
            self.code = compile_for(self.source, self.capability)
        except (OSError, RuntimeError):
            pass  # No driver, no GPU: then nobody will ask.


def compile_early(source: str) -> None:
    """Begins to compile what will be asked for."""
    global _early
    _early = _Early(source)
    _early.start()


def compiled(source: str, capability: str) -> List[bytes]:
    """As `compile_for`, but what was begun early is waited for."""
    if _early is not None and _early.source == source:
        _early.join()
        if _early.capability == capability and _early.code:
            return _early.code
    return compile_for(source, capability)


def compile_for(source: str, capability: str) -> List[bytes]:
    """Machine code for a GPU of that compute capability; none where there is no NVRTC or it does not know the GPU."""
    nvrtc = find("nvrtc")
    program = c_void_p()
    if nvrtc is None or nvrtc.nvrtcCreateProgram(
        byref(program), c_char_p(source.encode()), b"finish.cu", 0, None, None
    ):
        return []
    try:
        options = (c_char_p * 2)(f"--gpu-architecture=sm_{capability}".encode(), b"--std=c++14")
        if nvrtc.nvrtcCompileProgram(program, c_int(2), options):
            return []
        size = c_size_t()
        if nvrtc.nvrtcGetCUBINSize(program, byref(size)) or size.value == 0:
            return []
        code = ctypes.create_string_buffer(size.value)
        return [] if nvrtc.nvrtcGetCUBIN(program, code) else [code.raw]
    finally:
        nvrtc.nvrtcDestroyProgram(byref(program))
