"""The process of an isolated stage: makes the one call it was started for, and leaves."""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import signal
import struct
import sys
import traceback
from typing import Any, Callable, Dict, NoReturn, Tuple, Type

from . import _ending

__all__ = ["LENGTH", "MARK", "remade", "serve"]

LENGTH = struct.Struct("<Q")
"""What travels is preceded by its length: who else holds a pipe open cannot hide its end."""

MARK = "__gpulane_isolated__"
"""Set on functions that run elsewhere, so that the function itself is found beneath them here."""

_PR_SET_PDEATHSIG = 1


def serve(request: int, answer: int, parent: int) -> NoReturn:
    """Takes the call from one descriptor, makes it, and writes to the other what came of it."""
    _die_with(parent)
    for descriptor in (request, answer):
        os.set_inheritable(descriptor, False)
    with os.fdopen(request, "rb") as pipe:
        (length,) = LENGTH.unpack(pipe.read(LENGTH.size))
        said = _answer(pipe.read(length))
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    with os.fdopen(answer, "wb") as reply:
        reply.write(LENGTH.pack(len(said)))
        reply.write(said)
    with contextlib.suppress(Exception):  # Python then ends by itself.
        if _ending.can_be_short():
            _ending.end()
    sys.exit(0)


def _die_with(parent: int) -> None:
    """From now on the kernel ends us when the parent ends. If it has already, we end at once."""
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), *[ctypes.c_ulong(0)] * 3)
    if os.getppid() != parent:
        os._exit(1)


def _answer(request: bytes) -> bytes:
    try:
        sys.path[:], sys.argv[:], module, path, given = pickle.loads(request)
        args, kwargs = pickle.loads(given)
        result = _function(module, path)(*args, **kwargs)
    except BaseException as error:
        return _raised(error)
    return _returned(result, path)


def _function(module: str, path: str) -> Callable[..., Any]:
    """The function itself, beneath what makes it run elsewhere."""
    found: Any = importlib.import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    beneath = found
    while beneath is not None:
        inner = getattr(beneath, "__wrapped__", None)
        # functools.wraps copies the mark to whatever is put on top: the innermost that has it is ours.
        if hasattr(beneath, MARK) and not hasattr(inner, MARK):
            return _checked(inner)
        beneath = inner
    return _checked(found)  # It was made a stage where it was called.


def _checked(function: Any) -> Callable[..., Any]:
    if not callable(function):
        raise TypeError(f"{function!r} cannot be called")
    return function  # type: ignore[no-any-return]


def _returned(result: Any, path: str) -> bytes:
    from ._cleanup._holders import holds_gpu_memory

    if holds_gpu_memory(result):
        return _raised(
            TypeError(
                f"`{path}` returns what lives on the GPU, and that ends with its process; return it on the host: "
                "`.cpu()` of a tensor, `.get()` of a CuPy array"
            )
        )
    try:
        return pickle.dumps(("returned", result, ""), pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        return _raised(TypeError(f"`{path}` returns what cannot be pickled: {error}"))


def _raised(error: BaseException) -> bytes:
    # Without our own frame on top.
    trace = error.__traceback__.tb_next if error.__traceback__ is not None else None
    text = "".join(traceback.format_exception(type(error), error, trace))
    for kind, said in (("raised", lambda: error), ("remade", lambda: _parts(error))):
        try:
            answer = pickle.dumps((kind, said(), text), pickle.HIGHEST_PROTOCOL)
            _, value, _ = pickle.loads(answer)  # Some exceptions can be pickled, but not made again.
            if kind == "remade":
                str(remade(*value))
            return answer
        except Exception:
            continue
    stand_in = RuntimeError(f"{type(error).__name__}: {error}")
    return pickle.dumps(("raised", stand_in, text), pickle.HIGHEST_PROTOCOL)


def _parts(error: BaseException) -> Tuple[Type[BaseException], Tuple[Any, ...], Dict[str, Any]]:
    return type(error), error.args, vars(error)


def remade(kind: Type[BaseException], args: Tuple[Any, ...], attributes: Dict[str, Any]) -> BaseException:
    """An exception as it was, without its `__init__`: that may want other arguments than those it passed on."""
    error = BaseException.__new__(kind, *args)
    vars(error).update(attributes)
    return error
