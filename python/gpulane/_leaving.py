"""The end of a map's worker or loader. Nothing that the model has written is lost, and no lane is held up for ever.

Threads are waited for, exit handlers run, files are flushed, and Python takes its modules apart where an object may
have something to do then: as at the end of a job (`_ending`). A limit runs meanwhile, shorter than the time after which
gpulane sends SIGKILL. A process that takes longer flushes what files it has, says what it was doing, and exits.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import gc
import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import Any, List, NoReturn, Optional

from . import _ending

__all__ = [
    "TERMINATED",
    "Terminated",
    "begin_leaving",
    "code_of",
    "is_leaving",
    "keep_until_exit",
    "leave",
    "leave_on_sigterm",
]

TERMINATED = 143
"""The exit code of a process that SIGTERM has ended."""

GRACE = "GPULANE_GRACE"
"""Names the seconds between SIGTERM and SIGKILL."""

USUAL_GRACE_S = 10.0

SHARE = 0.7
"""The part of them in which a process leaves by itself; the rest is for the last flush and for a slow machine."""

LAST_FLUSH_S = 1.0
"""How long the last flush may take at most, when the limit has passed."""


class Terminated(SystemExit):
    """SIGTERM came: raised in the main thread, so that `with` and `finally` of the model's code are carried out."""


class _State:
    """Whether this process is on its way out, and until when it may take."""

    until: Optional[float] = None
    lock = threading.Lock()
    kept: List[Any] = []
    """What must not be freed any more, because freeing it would abort the process."""


def leave_on_sigterm() -> None:
    """From now on SIGTERM raises `Terminated`, once; whoever catches it is ended when the limit has passed."""

    def on_sigterm(_signal: int, _frame: Optional[FrameType]) -> None:
        if begin_leaving(TERMINATED):
            raise Terminated(TERMINATED)

    signal.signal(signal.SIGTERM, on_sigterm)


def is_leaving() -> bool:
    """Whether this process is on its way out."""
    return _State.until is not None


def begin_leaving(code: int) -> bool:
    """Starts the limit, after which the process exits with `code`; `False` if it runs already. For any thread."""
    # A signal handler may interrupt whoever holds the lock: the process is then on its way out.
    if not _State.lock.acquire(blocking=False):
        return False
    try:
        if _State.until is not None:
            return False
        seconds = _limit()
        _State.until = time.monotonic() + seconds
    finally:
        _State.lock.release()
    # Not by `threading`: the limit is no thread that anybody waits for or counts.
    import _thread

    _thread.start_new_thread(_exit_at_limit, (code, seconds))
    return True


def keep_until_exit(*things: Any) -> None:
    """Keeps objects that must not be freed: torch aborts the process when a tensor of a broken GPU context goes.

    From now on nothing is collected, and the process ends without taking its modules apart."""
    gc.disable()
    _State.kept.extend(things)


def leave(code: int) -> NoReturn:
    """Ends the process with this code, with nothing lost that Python knows of."""
    begin_leaving(code)
    if _State.kept:
        _leave_without_freeing(code)
    with contextlib.suppress(Exception):  # Python then ends by itself.
        if _ending.can_be_short():
            _ending.end(code)
    # Threads of Python do not run any more while it takes its modules apart. These two need none: the first tells what
    # is being done then, the second also ends what hangs after that, in C.
    left = max(0.1, (_State.until or 0.0) - time.monotonic())
    with contextlib.suppress(Exception):
        faulthandler.dump_traceback_later(left, exit=True, file=2)
    with contextlib.suppress(Exception):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, left + LAST_FLUSH_S)
    sys.exit(code)


def _leave_without_freeing(code: int) -> NoReturn:
    """Runs exit handlers and flushes files, then exits. Files come first, too: an exit handler may abort it."""
    _ending.flush_files(LAST_FLUSH_S)
    with contextlib.suppress(BaseException):  # Each was shown already.
        atexit._run_exitfuncs()
    _ending.flush_files(LAST_FLUSH_S)
    os._exit(code)


def code_of(error: SystemExit) -> int:
    """The exit code that Python would make of it; a text is printed, as Python does."""
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    with contextlib.suppress(Exception):
        print(error.code, file=sys.stderr)
    return 1


def _limit() -> float:
    try:
        grace = float(os.environ.get(GRACE, ""))
    except ValueError:
        grace = USUAL_GRACE_S
    return SHARE * grace if grace >= 0 else SHARE * USUAL_GRACE_S


def _exit_at_limit(code: int, seconds: float) -> None:
    time.sleep(seconds)
    doing = _doing()
    _ending.flush_files(LAST_FLUSH_S)
    text = (
        f"gpulane: this process did not end within {seconds:.3g} s{doing}, so it exits without waiting for that; files "
        "were flushed, but what would have been written later is missing. A longer `grace` of the stage gives it more "
        "time\n"
    )
    with contextlib.suppress(OSError):
        os.write(2, text.encode("utf-8", "replace"))
    os._exit(code)


def _doing() -> str:
    """The innermost line that the main thread is at, of the model's own code where there is one."""
    ident: Any = threading.main_thread().ident
    frame = sys._current_frames().get(ident)
    ours, first = os.path.dirname(os.path.abspath(__file__)) + os.sep, frame
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((ours, "<", os.path.dirname(os.__file__) + os.sep)):
            break
        frame = frame.f_back
    frame = frame or first
    if frame is None:
        return ""
    return f" (it is at {frame.f_code.co_filename}:{frame.f_lineno}, in {frame.f_code.co_name})"
