"""Where batches go: plain memory, NumPy, or a GPU by torch or CuPy. Imports no library the model has not imported."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from ._host import HostTorch, Numpy, Plain

__all__ = ["choose"]

FRAMEWORKS = ("torch", "cupy", "numpy", "none")


def choose(framework: str) -> Any:
    """The back end for a model: by name, or by what its module and `setup` have imported."""
    if framework == "auto":
        framework = next((name for name in FRAMEWORKS if name in sys.modules), "none")
    elif framework not in FRAMEWORKS:
        raise ValueError(f"framework = {framework!r} is unknown; write auto, torch, cupy, numpy or none")
    if framework == "none":
        return Plain()
    library = importlib.import_module(framework)
    if framework == "numpy":
        return Numpy(library)
    if framework == "torch":
        if not library.cuda.is_available():
            return HostTorch(library)
        from ._torch import Torch

        return Torch(library)
    if library.cuda.runtime.getDeviceCount() < 1:
        raise RuntimeError('CuPy finds no GPU; a model for both can set framework = "numpy"')
    from ._cupy import Cupy

    return Cupy(library)
