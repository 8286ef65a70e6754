"""One call of a function in a process of its own; the other side is in `_isolated.py`.

What travels is pickled, through pipes of its own; stdout and stderr stay the function's. The process is a session of
its own, so that nothing of its group outlives the call, and it dies with us.
"""

from __future__ import annotations

import io
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import warnings
from typing import Any, Callable, Dict, List, Optional, Tuple

from ._isolated import LENGTH, remade

__all__ = ["StageDied", "call_in_a_process", "request_for"]

GRACE_S = 3.0
"""How long an interrupted process may take to leave by itself."""

EXIT_S = 10.0
"""How long one that has answered may take: it writes what it has not written yet."""


class StageDied(RuntimeError):
    """The process of an isolated stage ended without an answer: killed, out of memory, or by `os._exit`. The message
    says how."""

    __module__ = "gpulane"  # Where it is imported from, and what a traceback shows.


class RemoteTraceback(Exception):
    """The traceback in the other process, shown as the cause of its exception."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


def request_for(name: str, function: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> bytes:
    """The call as another process can make it; what no process could do is refused, before there is one."""
    module, path = _address_of(function)
    try:
        given = pickle.dumps((args, kwargs), pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise TypeError(
            f"stage {name}: arguments of an isolated stage are pickled, and these cannot be: {error}"
        ) from error
    # Apart from what is given, so that the other side can make it importable first.
    return pickle.dumps((_import_path(), sys.argv, module, path, given), pickle.HIGHEST_PROTOCOL)


def call_in_a_process(name: str, request: bytes) -> Any:
    """What the function returns, or raises, in a fresh process."""
    answer = _exchange(name, request)
    try:
        kind, value, trace = pickle.loads(answer)
    except Exception as error:
        raise TypeError(
            f"stage {name}: its result cannot be unpickled here: {type(error).__name__}: {error}"
        ) from error
    if kind == "returned":
        return value
    if kind == "remade":
        value = remade(*value)
    value.__cause__ = RemoteTraceback(trace)
    raise value


def _address_of(function: Callable[..., Any]) -> Tuple[str, str]:
    """The module and the name under which another process finds it."""
    module = getattr(function, "__module__", None) or ""
    path = getattr(function, "__qualname__", "") or ""
    if module == "__main__" or not module:
        raise ValueError(
            f"`{path}` lives in a notebook cell or in the script itself, where a fresh process cannot find it. Put it "
            "into a file beside it (in a notebook: a cell that begins with `%%writefile stages.py`) and import it: "
            f"`from stages import {path.partition('.')[0]}`"
        )
    if "<" in path:
        raise ValueError(
            f"`{path}` of {module} is made inside another function, where a fresh process cannot find it. Move it "
            "to the top of the module"
        )
    return module, path


def _import_path() -> List[str]:
    return [os.path.abspath(folder) for folder in sys.path]


def _exchange(name: str, request: bytes) -> bytes:
    """Starts the process, hands it the request, and returns its answer; whatever happens, it is gone afterwards."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    ended, tell_ended = os.pipe()
    answer: Optional[bytes] = None
    process: Optional[subprocess.Popen[bytes]] = None
    waiter: Optional[threading.Thread] = None
    grace, left = 0.0, True
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", _program(theirs_in, theirs_out)],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        waiter = threading.Thread(target=_wait_for, args=(process.pid, tell_ended), name="gpulane-stage", daemon=True)
        waiter.start()
        os.close(theirs_in)
        os.close(theirs_out)
        theirs_in = theirs_out = -1
        _send(ours_out, request)
        answer = _receive(ours_in, ended)
        grace = EXIT_S
    except BaseException:
        if process is not None:
            _interrupt(process.pid, ended)
        raise
    finally:
        if process is not None:
            left = _end(process, ended, grace)
        # The waiter closes its own.
        for descriptor in (ours_out, ours_in, theirs_in, theirs_out, ended, -1 if waiter else tell_ended):
            if descriptor >= 0:
                os.close(descriptor)
    if answer is None:
        raise StageDied(f"stage {name}: its process ended without a result ({_how(process.returncode)})")
    if not left:
        warnings.warn(
            f"stage {name}: its process has answered but did not exit within {grace:.3g} s, and was killed; what it "
            "would have written at its exit is missing",
            RuntimeWarning,
            stacklevel=4,
        )
    return answer


def _program(request: int, answer: int) -> str:
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return (
        f"import sys; sys.path.insert(0, {package!r}); from gpulane._isolated import serve; "
        f"serve({request}, {answer}, {os.getpid()})"
    )


def _wait_for(pid: int, tell: int) -> None:
    """Closes a pipe when the process has ended, and leaves it to be reaped: its number stays taken until then."""
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        pass  # Somebody reaps all children here; then it has ended.
    finally:
        os.close(tell)


def _send(descriptor: int, request: bytes) -> None:
    try:
        with io.FileIO(descriptor, "w", closefd=False) as pipe:
            _write_all(pipe, LENGTH.pack(len(request)))
            _write_all(pipe, request)
    except BrokenPipeError:
        pass  # It died at once; how is told when its answer does not come.


def _write_all(pipe: io.FileIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[pipe.write(view) or 0 :]


def _receive(descriptor: int, ended: int) -> Optional[bytes]:
    """The answer; nothing if the process has ended without one. Its children may still hold the pipe open."""
    received = bytearray()
    length: Optional[int] = None
    while length is None or len(received) < length:
        ready = _ready([descriptor, ended], None)
        # It may have answered and ended between the two looks of one poll.
        if descriptor not in ready and not _ready([descriptor], 0):
            return None
        part = os.read(descriptor, 1 << 20)
        if not part:
            return None
        received += part
        if length is None and len(received) >= LENGTH.size:
            (length,) = LENGTH.unpack_from(received)
            del received[: LENGTH.size]
    return bytes(received)


def _ready(descriptors: List[int], seconds: Optional[float]) -> List[int]:
    """Those that can be read, or are at their end. Not by `select`, which knows no numbers beyond 1023."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(None if seconds is None else seconds * 1000)]


def _interrupt(pid: int, ended: int) -> None:
    """Lets it end by itself, as Ctrl-C does, for a while."""
    try:
        os.killpg(pid, signal.SIGINT)
        _ready([ended], GRACE_S)
    except OSError:
        pass
    except KeyboardInterrupt:
        pass  # Pressed again: no more grace.


def _end(process: subprocess.Popen[bytes], ended: int, grace: float) -> bool:
    """After an answer it may leave by itself for a while; then it ends, with all of its group. Whether it has left."""
    left = False
    try:
        left = bool(_ready([ended], grace))
    except KeyboardInterrupt:
        pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except OSError:
        pass  # Nothing is left of it.
    process.wait()
    return left


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"ended by signal {-code}"
