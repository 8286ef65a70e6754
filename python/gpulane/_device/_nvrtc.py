"""CUDA C++ to machine code at run time, by NVRTC through ctypes."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p
from typing import List

from ._libraries import find

__all__ = ["compile_for"]


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
