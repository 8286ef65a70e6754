"""Where batches go: plain memory, NumPy, or a GPU by torch or CuPy. Imports no library the model has not imported."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from .._batches import Decode
from ._host import HostTorch, Numpy, Plain

__all__ = ["choose", "expect"]

FRAMEWORKS = ("torch", "cupy", "numpy", "none")


def expect(decode: Any) -> None:
    """The model is about to be set up. If it will be given pictures on a GPU, what finishes them there is made
    meanwhile."""
    if os.environ.get("GPULANE_FINISH") == "cpu" or not ({"torch", "cupy"} & sys.modules.keys()):
        return
    try:
        pictures = isinstance(decode, str) and Decode.parse(decode).size is not None
    except ValueError:
        return  # It is told when the model is set up.
    if pictures:
        from ._early import begin

        begin(os.environ.get("GPULANE_FINISH") != "planes")


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
