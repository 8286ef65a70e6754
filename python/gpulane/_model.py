"""The model of a map: the class a user derives from, and how `FILE.py:Class` becomes an object."""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
from functools import partial
from types import ModuleType
from typing import Any, Dict, List, Optional, Sequence, Union

__all__ = ["Model", "ModelError", "asked_members", "load_model", "preload"]

_loaded: Dict[str, ModuleType] = {}
"""Files that were imported before their time, by path."""


class Model:
    """One model over many items: `gpulane map FILE.py:Class INPUT… --out DIR`.

        class Tagger(gpulane.Model):
            decode = "rgb:224x224"
            batch = 256

            def setup(self):
                import torch
                ...

            def predict_batch(self, batch):
                return self.net(batch.float() / 255).argmax(1)

    >>> class Lengths(gpulane.Model):
    ...     def predict_batch(self, batch):
    ...         return [len(item) for item in batch]
    >>> Lengths().predict_batch([b"one", b"three"])      # as `gpulane map` does with each batch
    [3, 5]

    `setup` is called once per worker process, on its GPU (`CUDA_VISIBLE_DEVICES` holds no other); then
    `predict_batch` for every batch. Any class with these methods will do, and so will a plain function
    `predict_batch(batch)`; the attributes may be set on the function too. What `--set KEY=VALUE` gives, or `args` in a
    plan, are keyword arguments of `__init__`, or of the function.

    **What `batch` is** depends on `decode` and on what the model's module imports, in this order:

    =================  =====================================  ==============================  =====================
    decode             torch                                  cupy, numpy                     neither
    =================  =====================================  ==============================  =====================
    `rgb:WxH`          uint8 tensor N×3×H×W, channels last    uint8 array N×H×W×3             list of `memoryview`
    `rgba:WxH`         uint8 tensor N×4×H×W, channels last    uint8 array N×H×W×4             list of `memoryview`
    `gray:WxH`         uint8 tensor N×1×H×W                   uint8 array N×H×W               list of `memoryview`
    `rgb`, `gray`, …   list of tensors H×W×3, H×W             list of arrays                  list of `memoryview`
    `npy`, `load`      one tensor if all have one shape,      likewise                        list of `memoryview`
                       else a list
    `bytes`            list of `bytes`                        the same                        the same
    `text`, `value`    list of `str`                          the same                        the same
    =================  =====================================  ==============================  =====================

    Behind a size, words say how it is reached: `crop`, `pad`, `short=256` (torchvision's `Resize(256)` and
    `CenterCrop`), or none to stretch; and a filter of Pillow's, `nearest`, `box`, `bilinear`, `hamming`, `bicubic` or
    `lanczos`, if it is not to be `bilinear`: `rgb:224x224:short=256:bicubic`. `srgb` applies colour profiles.

    With a GPU, tensors and CuPy arrays are on it, their copy already made or under way on a stream of its own. NumPy
    arrays and `memoryview` are read-only views of shared memory: valid until `predict_batch` returns; copy
    what is to be kept. `gray` of a 16-bit image is uint16; of a stack of pages, pages×H×W. `framework` chooses by
    name instead of by what is imported. `self.items` holds the names of the batch's items during the call. Of items in
    tar shards, `members = ["json", "txt"]` asks for other members of their WebDataset sample: `self.samples` holds a
    dict for each item, such as `{"json": b"…"}`.

    **What it returns**: one result per item, as a list or tuple; or an array or tensor with N rows; or a dict of
    columns, each with N values. A result is a number, a bool, text, None, an array or list of numbers (an embedding), a
    dict of those (a column each), or anything nested that JSON has. Tensors may stay on the GPU: they are fetched while
    the next batch is worked on. Half precision is kept as 32 bits. NaN stays NaN in columns of numbers and is null
    inside nested values; with `--nan fail` such an item fails. Not: bytes (write a file, or return base64 text).

    An exception is tried again once, then narrowed down to the items that cause it; these fail, the others go on. Out
    of memory: fewer items at once. `load(self, path)`, if there is one, is called with `decode = "load"`, in other
    processes that have no GPU and do not call `setup`; it returns a NumPy array (or anything with the buffer protocol),
    bytes or text.
    """

    decode: Optional[str] = None
    """How items are decoded, unless the command line says otherwise. None: `bytes`, or `load` if there is a `load`."""

    members: Optional[Union[str, Sequence[str]]] = None
    """Extensions of the other members of its WebDataset sample that an item of a tar shard brings along, unless the
    command line says otherwise: `["json", "txt"]`; `"*"`: all. They are in `self.samples`."""

    batch: Optional[int] = None
    """Items per batch, unless the command line says otherwise. None: found out while running."""

    framework: str = "auto"
    """`auto`, `torch`, `cupy`, `numpy` or `none`: what batches are given as."""

    items: Sequence[str] = ()
    """Names of the items of the batch being worked on."""

    samples: Sequence[Dict[str, bytes]] = ()
    """Of each item of the batch the members of its sample that were asked for, by their extensions: only those that
    exist, in the order of their extensions. Empty dicts for items that lie in no tar shard."""

    def setup(self) -> None:
        """Called once, before the first batch."""

    def predict_batch(self, batch: Any) -> Any:
        """Must be written by whoever derives from this."""
        raise NotImplementedError(f"{type(self).__name__} has no predict_batch(self, batch)")


class ModelError(Exception):
    """`FILE.py:Class` does not lead to a model. For a person."""


class _Function:
    """A plain function as a model."""

    def __init__(self, function: Any, given: Dict[str, Any]) -> None:
        self.predict_batch = partial(function, **given) if given else function
        self.decode = getattr(function, "decode", None)
        self.batch = getattr(function, "batch", None)
        self.framework = getattr(function, "framework", "auto")
        self.items: Sequence[str] = ()

    def setup(self) -> None:
        """Nothing to do."""


def asked_members(model: Any) -> Optional[List[str]]:
    """The extensions that a model's `members` asks for, which the feeder checks; nothing if it says nothing. An
    attribute of that name without any text in it is the model's own, and no request."""
    members = getattr(model, "members", None)
    if isinstance(model, _Function) or members is None:
        return None
    if isinstance(members, str):
        return [word.strip() for word in members.split(",")] if members.strip() else []
    if not isinstance(members, (list, tuple, set, frozenset)):
        return None
    wrong = [word for word in members if not isinstance(word, str)]
    if not wrong:
        return sorted(members)
    if len(wrong) == len(members):
        return None
    shown = ", ".join(repr(word) for word in wrong)
    raise ModelError(f'`members` of {type(model).__name__} has {shown} in it; write texts, such as ["json", "txt"]')


def load_model(target: str, given: Optional[Dict[str, Any]] = None) -> Any:
    """The model `FILE.py:Class` names, made with these arguments but not set up."""
    given = given or {}
    path, colon, name = target.rpartition(":")
    if not colon or not path or not name:
        raise ModelError(f"`{target}` names no model; write FILE.py:Class or FILE.py:function")
    found = getattr(_module(path), name, None)
    if found is None:
        raise ModelError(f"{path} has no `{name}`")
    if isinstance(found, type):
        if not callable(getattr(found, "predict_batch", None)):
            raise ModelError(f"class {name} of {path} has no predict_batch(self, batch)")
        _check(found, f"class {name} of {path}", given, taken=0)
        return found(**given)
    if callable(getattr(found, "predict_batch", None)):
        if given:
            raise ModelError(
                f"`{name}` of {path} is made already and takes no arguments; name its class, or a function"
            )
        return found
    if callable(found):
        _check(found, f"function {name} of {path}", given, taken=1)
        return _Function(found, given)
    raise ModelError(f"`{name}` of {path} is neither a class nor a function")


def _check(made: Any, what: str, given: Dict[str, Any], taken: int) -> None:
    """That a class or function takes these arguments and needs no others; `taken`: how many it gets otherwise."""
    try:
        parameters = list(inspect.signature(made).parameters.values())[taken:]
    except (TypeError, ValueError):
        return  # It does not say what it takes.
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    names: List[str] = [p.name for p in named]
    unknown = [name for name in given if name not in names]
    if unknown and not any(p.kind is p.VAR_KEYWORD for p in parameters):
        takes = "it takes " + ", ".join(names) if names else "it takes no arguments"
        raise ModelError(f"{what} takes no argument {', '.join(f'`{name}`' for name in unknown)}; {takes}")
    missing = [p.name for p in named if p.default is p.empty and p.name not in given]
    if missing:
        first = missing[0]
        raise ModelError(
            f"{what} needs {', '.join(f'`{name}`' for name in missing)}: write --set {first}=VALUE, or "
            f"args = {{ {first} = VALUE }} in a plan"
        )


def preload(target: str) -> None:
    """Imports the file of `FILE.py:Class`, for a `load_model` to come."""
    path = os.path.abspath(target.rpartition(":")[0])
    _loaded[path] = _module(path)


def _module(path: str) -> ModuleType:
    """The file as a module under its own name, so that pickles and `inspect` find it; its folder importable, as if
    it had been run by hand, and the working directory."""
    path = os.path.abspath(path)
    if path in _loaded:
        return _loaded[path]
    if not os.path.isfile(path):
        raise ModelError(f"there is no file {path}")
    name = os.path.splitext(os.path.basename(path))[0]
    folder = os.path.dirname(path)
    for place in (os.getcwd(), folder):
        if place not in sys.path:
            sys.path.insert(0, place)
    if name in sys.modules or not name.isidentifier():
        # A file named as a module that is loaded already, such as `json.py`, must not take its place.
        name = "gpulane_model_" + "".join(letter if letter.isalnum() else "_" for letter in name)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ModelError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
