"""A loader of `gpulane map`, started by gpulane through `_start.py`. Calls the model's own `load(path)` and writes what
it returns into the ring."""

from __future__ import annotations

import os
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ._errors import last_line_of, reason_of, say, shown
from ._leaving import TERMINATED, code_of, is_leaving, leave, leave_on_sigterm
from ._loop import arguments, identity
from ._model import ModelError, load_model
from ._overdue import Watch, limit_of
from ._ring import ARRAY, BYTES, TEXT, Ring
from ._wire import Connection, WireError, connect

__all__ = ["Loaded", "as_loaded", "main"]

NUMBER_OF = {
    ("u", 1): 1,
    ("u", 2): 2,
    ("i", 2): 3,
    ("u", 4): 4,
    ("i", 4): 5,
    ("f", 4): 6,
    ("f", 8): 7,
    ("b", 1): 8,
    ("i", 8): 9,
    ("u", 8): 10,
    ("f", 2): 11,
    ("i", 1): 12,
}
"""Numbers of element types by what they are and their bytes."""

FAMILY_OF = {**dict.fromkeys("BHILQN", "u"), **dict.fromkeys("bhilqn", "i"), **dict.fromkeys("efd", "f"), "?": "b"}


class Loaded(NamedTuple):
    """What `load` returned, ready to be written."""

    kind: int
    element: int
    shape: Tuple[int, ...]
    data: memoryview
    """Bytes, back to back."""


def as_loaded(value: Any) -> Loaded:
    """What `load` returned, or a TypeError that says what to return."""
    if isinstance(value, str):
        return Loaded(TEXT, 1, (), memoryview(value.encode("utf-8")))
    if isinstance(value, (bytes, bytearray)):
        return Loaded(BYTES, 1, (), memoryview(value))
    if hasattr(value, "detach") and hasattr(value, "numpy"):
        value = value.detach().cpu().contiguous().numpy()
    try:
        view = memoryview(value)
        shape, letter, size, data = view.shape or (), view.format, view.itemsize, _flat(view)
    except TypeError:
        shape, letter, size, data = _by_interface(value)
    order, letter = (letter[0], letter[1:]) if letter[:1] in "<>=!@|" else ("=", letter)
    number = NUMBER_OF.get((FAMILY_OF.get(letter, ""), size))
    if number is None or (order in "!>" and size > 1):
        raise TypeError(
            f"load returned an array of {letter!r} in order {order!r}; return little-endian numbers or bools"
        )
    if len(shape) > 4:
        raise TypeError(f"load returned an array of {len(shape)} dimensions; 4 is the most")
    return Loaded(ARRAY, number, tuple(shape), data)


def _flat(view: memoryview) -> memoryview:
    if view.c_contiguous and view.nbytes and view.format[-1:] in "BbHhIiLlQqNnfd?":
        return view.cast("B")
    return memoryview(view.tobytes())


def _by_interface(value: Any) -> Tuple[Tuple[int, ...], str, int, memoryview]:
    """Pictures of Pillow have no buffer, but say what they are in the way NumPy asks."""
    interface = getattr(value, "__array_interface__", None)
    data = (interface or {}).get("data")
    if interface is None or not isinstance(data, (bytes, bytearray)):
        kind = type(value).__name__
        raise TypeError(f"load returned a value of type {kind}; return a NumPy array, bytes or text")
    text = interface["typestr"]
    letter = {"u": "B", "i": "b", "f": "f", "b": "?"}.get(text[1], text[1])
    return tuple(interface["shape"]), text[0] + letter, int(text[2:]), memoryview(data)


class Loader:
    """Answers `load` with `loaded`, one at a time."""

    def __init__(self, connection: Connection, target: str) -> None:
        self._connection = connection
        self._target = target
        self._model: Any = None
        self._limit: Optional[float] = None
        self._watch = Watch(lambda _, stack: connection.send("overdue", batch=0, stack=stack))
        self._kept: Dict[str, Loaded] = {}
        """What did not fit a moment ago and will be asked for again."""

    def serve(self) -> int:
        """Works until the feeder says `bye` or goes away; the exit code."""
        self._connection.send("hello", ready=False, **identity("loader"))
        ring = None
        while not is_leaving():
            frame = self._connection.receive()
            kind = frame.head["frame"]
            if kind == "ring" and frame.fd is not None:
                ring = Ring(frame.fd, frame.head)
                self._limit = limit_of(frame.head)
                if not self._set_up(arguments(frame.head)):
                    return 1
            elif kind == "load" and ring is not None:
                self._load(ring, frame.head)
            elif kind == "wait":
                self._connection.send("here")
            elif kind == "bye":
                return 0
        return TERMINATED  # The model has caught what SIGTERM raised.

    def _set_up(self, given: Dict[str, Any]) -> bool:
        try:
            self._model = load_model(self._target, given)
            if not callable(getattr(self._model, "load", None)):
                raise ModelError(f'{self._target} has no load(self, path), which decode = "load" needs')
        except Exception as error:  # Whatever a user's code may raise.
            text = shown(error)
            say(text)
            self._connection.send("setup_failed", error=last_line_of(error), traceback=text)
            return False
        about: Dict[str, Any] = {"device": "cpu", "framework": "none", "accepts": [], "seconds": 0.0}
        self._connection.send("ready", **about, decode=None, batch=None, load=True)
        return True

    def _loaded(self, path: str) -> Any:
        if self._limit is None:
            return self._model.load(path)
        self._watch.begin(self._limit)
        try:
            return self._model.load(path)
        finally:
            self._watch.end()

    def _load(self, ring: Ring, head: Dict[str, Any]) -> None:
        path, room = str(head["path"]), int(head["room"])
        try:
            loaded = self._kept.pop(path, None) or as_loaded(self._loaded(path))
        except Exception as error:  # Whatever a user's code may raise.
            self._connection.send("load_failed", reason=reason_of(error))
            return
        size = loaded.data.nbytes
        if size > room:
            self._kept = {path: loaded}
            self._connection.send("too_large", bytes=size)
            return
        at = int(head["offset"])
        ring.slot(int(head["slot"]))[at : at + size] = loaded.data
        shape: List[int] = list(loaded.shape)
        self._connection.send("loaded", kind=loaded.kind, type=loaded.element, shape=shape, bytes=size)


def main() -> None:
    """Loads until told to stop."""
    if len(sys.argv) != 2 or "GPULANE_FEED" not in os.environ:
        print("a loader is started by `gpulane map`, with its FILE.py:Class and GPULANE_FEED", file=sys.stderr)
        leave(2)
    leave_on_sigterm()
    try:
        code = Loader(connect(os.environ["GPULANE_FEED"]), sys.argv[1]).serve()
    except SystemExit as error:  # SIGTERM, or the model's own.
        code = code_of(error)
    except (ConnectionError, WireError) as error:
        say(f"gpulane: {error}\n")
        code = 1
    leave(code)


if __name__ == "__main__":
    main()
