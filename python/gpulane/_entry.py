"""Runs `entry = "FILE.py:NAME"` of a plan: `python _entry.py FILE.py:NAME`, started by gpulane.

Started with `GPULANE_STANDBY`, it is a standby: it imports the file, says so, and waits for a job. It then serves that
one job, as if it had been started for it. With `--worker`, the job is that of a map's worker; with `--alone` there are
no standbys, and the file may ask for its job while it is imported.

Nothing here may depend on the file's folder: all that is needed is imported before `sys.path` is touched.
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import importlib.util
import inspect
import json
import os
import select
import sys
import time
import traceback
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Callable, Dict, List, Optional, Tuple

__all__ = ["main"]

HERE = os.path.dirname(os.path.realpath(__file__))

STANDBY = "GPULANE_STANDBY"
"""Names the socket of a standby: a descriptor's number."""

RARELY = (100_000, 50, 100)
"""How often garbage is looked for while importing: there is next to none, and an eighth of the time goes into it."""

AHEAD = {"torch": "torch._dynamo"}
"""What a library imports only when it is used: torch, with the first optimizer, some 900 modules."""

LONGEST = 600
"""Characters of an error, and of its trace, that gpulane is told; the log has all of it. In JSON one may take 12 bytes,
and a word has 16 KiB."""


class EntryError(Exception):
    """`FILE.py:NAME` cannot be run. For a person."""


class Standby:
    """The way to gpulane while there is no job yet."""

    def __init__(self, number: int) -> None:
        import socket

        os.set_inheritable(number, False)
        self._flags = socket.MSG_CMSG_CLOEXEC
        self._room = socket.CMSG_SPACE(3 * array.array("i").itemsize)
        self._rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS)
        self._socket = socket.socket(fileno=number)
        self._printed = [_identity(1), _identity(2)]

    def tell(self, word: Dict[str, Any]) -> None:
        """Says one thing. Without anybody to hear it, there will be no job."""
        try:
            self._socket.send(json.dumps(word).encode())
        except OSError:
            os._exit(0)

    def has_a_job(self) -> bool:
        """Whether one has been sent already, or none can come any more."""
        try:
            poll = select.poll()
            poll.register(self._socket, select.POLLIN)
            return bool(poll.poll(0))
        except (OSError, ValueError):
            return True  # The import has closed it: that is found when something is said.

    def take_over(self) -> None:
        """Waits for a job and becomes its process; ends where none can come any more."""
        data, ancillary, _, _ = self._socket.recvmsg(64, self._room, self._flags)
        if not data:
            os._exit(0)
        numbers = array.array("i")
        for level, kind, rights in ancillary:
            if (level, kind) == self._rights:
                numbers.frombytes(rights[: len(rights) - len(rights) % numbers.itemsize])
        stdout, stderr, orders = numbers
        _flush()
        _redirect(1, stdout, self._printed[0])
        _redirect(2, stderr, self._printed[1])
        for line in _content(orders).split(b"\0"):
            name, equals, value = line.partition(b"=")
            if equals:
                os.environb[name] = value
        os.close(orders)
        self.tell({"begun": {}})
        self._socket.close()


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            pass  # Closed or missing: nothing to write out.


def _identity(file: int) -> Optional[Tuple[int, int]]:
    """What tells a file from all others; `None`: it is closed."""
    try:
        status = os.fstat(file)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _redirect(own: int, log: int, printed: Optional[Tuple[int, int]]) -> None:
    """From now on `own` is the job's log, which begins with what was printed so far. If the import has put another file
    there than the one that was `printed` to, that one is left as it is."""
    ours = printed is not None and _identity(own) == printed
    before = os.dup(own) if ours else None
    os.dup2(log, own)
    os.close(log)
    if before is None:
        return
    text = memoryview(_content(before))
    try:
        while text:
            text = text[os.write(own, text) :]
        # Whatever is still there when we die before the job has begun, gpulane adds to the log. So it is emptied after
        # it was written: between the two the text may be doubled, but never lost. Children that print there begin anew.
        os.ftruncate(before, 0)
        os.lseek(before, 0, os.SEEK_SET)
    except OSError:
        pass  # A full disk is no reason to end a training; gpulane says so by itself.
    os.close(before)


def _content(file: int) -> bytes:
    found = bytearray()
    while True:
        part = os.pread(file, 1 << 16, len(found))
        if not part:
            return bytes(found)
        found += part


def _put_first(folder: str) -> None:
    """Modules are looked for there first. Where this program lies, which is no place to import from, makes way for it;
    with `PYTHONSAFEPATH` that is not on the path, and nothing has to."""
    if sys.path and os.path.realpath(sys.path[0]) == HERE:
        sys.path[0] = folder
    else:
        sys.path.insert(0, folder)


def load(target: str) -> Callable[..., Any]:
    """The function `FILE.py:NAME` names. The file becomes a module under its own name, so that pickles and child
    processes find it; its folder comes first on the path, as if it had been run by hand."""
    path, colon, name = target.rpartition(":")
    if not colon or not path or not name:
        raise EntryError(f"`{target}` names no function; write FILE.py:NAME")
    full = os.path.abspath(path)
    if not os.path.isfile(full):
        raise EntryError(f"there is no file {full}")
    sys.argv = [path]
    _put_first(os.path.dirname(full))
    stem = os.path.splitext(os.path.basename(full))[0]
    if stem in sys.modules or not stem.isidentifier():
        # A file named as a module that is loaded already, such as `json.py`, must not take its place.
        stem = "gpulane_entry_" + "".join(letter if letter.isalnum() else "_" for letter in stem)
    spec = importlib.util.spec_from_file_location(stem, full)
    if spec is None or spec.loader is None:
        raise EntryError(f"{full} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[stem] = module
    spec.loader.exec_module(module)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise EntryError(f"{path} has no `{name}`")
        above, found = found, getattr(found, part)
        if inspect.isclass(above) and inspect.isfunction(inspect.getattr_static(above, part)):
            raise EntryError(
                f"`{name}` of {path} is a method, and there is no object to call it for; write a function, or put "
                "@staticmethod before it"
            )
    if not callable(found):
        raise EntryError(f"`{name}` of {path} cannot be called: it is of type {type(found).__name__}")
    if inspect.isgeneratorfunction(found) or inspect.isasyncgenfunction(found):
        raise EntryError(
            f"`{name}` of {path} has a `yield`: calling it would run nothing; write a function without one"
        )
    return found  # type: ignore[no-any-return]


def arguments(function: Callable[..., Any], config: Any, out: Any) -> Tuple[List[Any], Dict[str, Any]]:
    """What to call it with: `config` and `out`, by these names where it has them; what is left of the two goes in this
    order to what it needs besides, or, if it needs nothing at all, to what is `None` by default."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return [config, out], {}
    name = getattr(function, "__qualname__", "the entry")
    kind = inspect.Parameter
    parameters = list(signature.parameters.values())
    gathers = {one.kind for one in parameters} & {kind.VAR_POSITIONAL, kind.VAR_KEYWORD}
    named = {"config": config, "out": out}
    by_name = {kind.POSITIONAL_OR_KEYWORD, kind.KEYWORD_ONLY}
    filled = {one.name: named[one.name] for one in parameters if one.name in named and one.kind in by_name}
    left = [value for key, value in named.items() if key not in filled]
    others = [one for one in parameters if one.kind not in gathers and one.name not in filled]
    needed = [one for one in others if one.default is kind.empty]
    if not needed and all(one.default is not kind.empty for one in parameters if one.name in filled):
        needed = [one for one in others if one.default is None][: len(left)]
    if len(needed) > len(left) or any(one.kind is kind.KEYWORD_ONLY for one in needed):
        raise EntryError(f"{name}{signature} must take (config, out), (config) or nothing")
    wrong = [one.name for one in needed if isinstance(config, dict) and one.name in config and one.name not in named]
    if wrong or (not filled and not needed and gathers == {kind.VAR_KEYWORD}):
        example = wrong[0] if wrong else next(iter(config), "lr")
        raise EntryError(
            f"{name}{signature} is not called with the config's values one by one; "
            f'write {name}(config, out) and read config["{example}"]'
        )
    if not filled and kind.VAR_POSITIONAL in gathers:
        return left, {}
    filled.update((one.name, value) for one, value in zip(needed, left))
    first = [one.name for one in parameters if one.kind is kind.POSITIONAL_ONLY and one.name in filled]
    return [filled.pop(one) for one in first], filled


def call(function: Callable[..., Any]) -> None:
    """Calls it for the job that the environment tells of."""
    text = os.environ.get("GPULANE_CONFIG")
    if text is None:
        with open(os.environ["GPULANE_CONFIG_FILE"], encoding="utf-8") as file:
            text = file.read()
    values, named = arguments(function, json.loads(text), Path(os.environ["GPULANE_OUT"]))
    result = function(*values, **named)
    if inspect.iscoroutine(result):
        import asyncio

        asyncio.run(result)


def _without_us(trace: Optional[TracebackType]) -> Optional[TracebackType]:
    """A trace from the first line that is the user's."""
    ours = (__file__, "<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")
    rest = trace
    while rest is not None and rest.tb_frame.f_code.co_filename in ours:
        rest = rest.tb_next
    return rest


def _report(error: BaseException, hint: str = "") -> None:
    """As Python would, but for our own frames; a hook that the user has set is honoured."""
    if isinstance(error, EntryError):
        print(f"gpulane: {error}", file=sys.stderr, flush=True)
    else:
        # The hook shows the trace that the error itself has.
        error = error.with_traceback(_without_us(error.__traceback__))
        sys.excepthook(type(error), error, error.__traceback__)
    if hint:
        print(f"gpulane: {hint}", file=sys.stderr, flush=True)


def _hint(error: BaseException, alone: bool) -> str:
    """What may help with an import that has failed."""
    if isinstance(error, KeyError) and not alone and error.args and str(error.args[0]) in Hidden.names():
        return (
            f"{error.args[0]} is not set while the file is imported: read it in the function, or write "
            'standbys = "off" in the plan and run it anew'
        )
    if isinstance(error, ModuleNotFoundError):
        return f"this is the Python of {sys.executable}; `python` in the stage names another"
    return ""


def _failure(error: BaseException) -> Dict[str, Any]:
    lines = traceback.format_exception(type(error), error, _without_us(error.__traceback__))
    last = traceback.format_exception_only(type(error), error)[-1].strip()
    last = str(error) if isinstance(error, EntryError) else last
    return {"failed": _sayable(last[:LONGEST]), "trace": _sayable("".join(lines)[-LONGEST:])}


def _sayable(text: str) -> str:
    """Without halves of characters, as undecodable file names have them: they are no text to others."""
    return text.encode("utf-8", "replace").decode()


def _prepare(words: List[str], standby: Optional[Standby]) -> Callable[[], None]:
    """Everything that can be done before there is a job; what remains to be done."""
    if words[0] != "--worker":
        ahead = None if standby is None else _beside("_ahead").Ahead(AHEAD, standby.has_a_job)
        _beside("_compiled").keep(ahead)
        function = load(words[0])
        return lambda: call(function)
    # As `_start.py worker` does it.
    _put_first(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from gpulane import _model, _start

    work = _start.role("worker")
    sys.argv = [_start.__file__, words[1]]
    _model.preload(words[1])
    return work


class Hidden:
    """What is the job's own while its file is imported. A standby's import does not see it, so nobody's does: otherwise
    the same file would do this or that, depending on how its job was started."""

    @staticmethod
    def names() -> List[str]:
        return ["GPULANE_" + name for name in "CONFIG CONFIG_FILE OUT METRICS DONE LANE INPUT".split()]

    def __enter__(self) -> None:
        self._values = {name: os.environ.pop(name) for name in self.names() if name in os.environ}

    def __exit__(self, *_: object) -> None:
        os.environ.update(self._values)


def _beside(name: str) -> ModuleType:
    """A module that lies beside this one, whatever is on the path."""
    spec = importlib.util.spec_from_file_location(f"gpulane.{name}", os.path.join(HERE, f"{name}.py"))
    if spec is None or spec.loader is None:
        raise ImportError(f"{name}.py is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _look_ahead() -> None:
    """Imports what the job will import sooner or later. Whoever needs it and cannot have it will see why."""
    for library, later in AHEAD.items():
        if library in sys.modules:
            with contextlib.suppress(Exception):
                importlib.import_module(later)


def main() -> int:
    """Runs one job; the exit code."""
    words = sys.argv[1:]
    alone = words[:1] == ["--alone"]
    if alone:
        del words[0]
    if len(words) != 1 and (len(words) != 2 or words[0] != "--worker"):
        print("usage: python _entry.py FILE.py:NAME (started by `gpulane run`)", file=sys.stderr)
        return 2
    begun = time.monotonic()
    ending = _beside("_ending")
    quick = not alone and words[0] != "--worker" and ending.can_be_short()
    often = gc.get_threshold()
    if quick:
        gc.set_threshold(*RARELY)
    rarely = gc.get_threshold()
    number = os.environ.pop(STANDBY, None)
    standby = None if number is None else Standby(int(number))
    try:
        with contextlib.nullcontext() if alone else Hidden():
            rest = _prepare(words, standby)
    except (Exception, SystemExit) as error:
        if standby is not None:
            standby.tell(_failure(error))
        if isinstance(error, SystemExit):
            raise
        _report(error, _hint(error, alone))
        return 1
    if standby is not None:
        if not standby.has_a_job():
            _look_ahead()
        standby.tell({"ready": {"seconds": time.monotonic() - begun}})
        standby.take_over()
    if quick:
        if gc.get_threshold() == rarely:  # Otherwise the file has its own idea of it.
            gc.set_threshold(*often)
        gc.freeze()  # What was imported stays: looking for garbage among it costs time, above all at the end.
    try:
        rest()
    except Exception as error:
        _report(error)
        return 1
    else:
        if quick:
            with contextlib.suppress(Exception):  # Nothing here may fail a job that went well.
                ending.end()
        return 0
    finally:
        if quick:
            gc.unfreeze()


if __name__ == "__main__":
    sys.exit(main())
