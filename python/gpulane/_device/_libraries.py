"""Where NVIDIA's libraries lie: beside torch or CuPy, in a CUDA toolkit, or where the system looks."""

from __future__ import annotations

import ctypes
import glob
import os
import sys
from typing import Iterator, Optional

__all__ = ["find"]

VERSIONS = ("13", "12", "11.2", "11.0", "11", "")


def find(name: str) -> Optional[ctypes.CDLL]:
    """The library `lib{name}.so.*`, or nothing."""
    for candidate in _candidates(name):
        try:
            return ctypes.CDLL(candidate)
        except OSError:
            continue
    return None


def _candidates(name: str) -> Iterator[str]:
    wanted = _wanted_version()
    order = sorted(VERSIONS, key=lambda version: version.partition(".")[0] != wanted)
    for version in order:
        for folder in sys.path:
            # Wheels of CUDA 13 share one folder, older ones have one each.
            for inner in ("nvidia/*/lib", "torch/lib", "cupy/.data/lib"):
                yield from sorted(glob.glob(os.path.join(folder, inner, f"lib{name}.so.{version}*")), reverse=True)
    for version in order:
        suffix = f".{version}" if version else ""
        for toolkit in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
            if toolkit:
                yield os.path.join(toolkit, "lib64", f"lib{name}.so{suffix}")
        yield f"lib{name}.so{suffix}"


def _wanted_version() -> str:
    """The CUDA version torch was built for, so that libraries of one process fit together."""
    torch = sys.modules.get("torch")
    version = getattr(getattr(torch, "version", None), "cuda", None) or ""
    return version.partition(".")[0]
