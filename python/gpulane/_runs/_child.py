"""One `gpulane` process, started, heard and ended. Knows nothing of plans and journals.

It has a session of its own: Ctrl-C and a notebook's interrupt go to whole process groups, and a second SIGINT tells
gpulane to kill at once what the first one lets end in order. So signals reach it only through here.

For the same reason it would outlive a Python that is killed. A leash keeps it from that: a pipe that gpulane inherits
and whose other end closes however this process ends. gpulane sees that and stops.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import signal
import subprocess
import tempfile
import threading
import weakref
from typing import IO, Any, Callable, Iterator, List, Optional, Set, Union

from ._binary import environment, not_startable

__all__ = ["Child", "interrupts_later"]

AT_EXIT_S = 30.0
"""An interpreter that ends waits so long for a run to end in order; the leash sees to the rest."""
MEANWHILE_S = 0.2

_ours: Set[int] = set()
"""Our ends of leashes. A fork must not have them: it would hold them beyond our end."""

_tying = threading.RLock()
"""Held while a leash is made, so that no fork gets an end that is not in the list yet."""

_living: weakref.WeakSet[Child] = weakref.WeakSet()


class Child:
    """A running `gpulane`. It ends with this process, however that ends."""

    def __init__(self, argv: List[str], *, stdin: Optional[IO[bytes]] = None) -> None:
        self.code: Optional[int] = None
        """How it exited, once `ended` is set; negative: by that signal."""
        self.said = ""
        """What it wrote to stderr, once `ended` is set."""
        self.heard = False
        """It has printed an event: the run has begun."""
        self.stirred = threading.Event()
        """It has begun, or ended without."""
        self.ended = threading.Event()
        # A file, not a pipe: nobody has to read it while it is written.
        self._stderr = tempfile.TemporaryFile(prefix="gpulane-")
        self._leash = _Leash()
        started = None
        try:
            self._process = started = subprocess.Popen(
                [argv[0], f"--leash={self._leash.theirs}", *argv[1:]],
                pass_fds=[self._leash.theirs],
                stdin=subprocess.DEVNULL if stdin is None else stdin,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                start_new_session=True,
                env=environment(),
            )
            threading.Thread(target=self._listen, name="gpulane", daemon=True).start()
            _living.add(self)
        except BaseException as error:
            self._leash.let_go()
            self._stderr.close()
            if started is not None:  # No thread could be had for it.
                with started:
                    started.kill()
            if isinstance(error, OSError):
                raise not_startable(argv, error) from None
            raise
        finally:
            self._leash.hand_over()

    def signal(self, number: int) -> None:
        """Sends it a signal, unless it has ended."""
        if not self.ended.is_set():
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    def end(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Has it end all its jobs in order, and waits for that; `meanwhile` is called now and then. Each interrupt
        while waiting is passed on: gpulane takes a second one as "kill now", and a third one needs no patience of
        anybody."""
        self.signal(signal.SIGINT)
        for _ in range(3):
            try:
                while not self.ended.wait(MEANWHILE_S):
                    with contextlib.suppress(Exception):
                        meanwhile()
                return
            except KeyboardInterrupt:
                self.signal(signal.SIGINT)
        self.ended.wait(AT_EXIT_S)

    def _listen(self) -> None:
        """The thread of this child. What it prints says only that it has begun: the journal has the events."""
        stdout = self._process.stdout
        assert stdout is not None
        with stdout:
            while os.read(stdout.fileno(), 1 << 16):
                self.heard = True
                self.stirred.set()
        self.code = self._process.wait()
        with self._stderr as file:
            file.seek(0)
            self.said = file.read().decode(errors="replace").strip()
        self.ended.set()
        self.stirred.set()
        self._leash.let_go()


class _Leash:
    """A pipe: one end for the child, which ends when the other one, which is ours, is closed."""

    def __init__(self) -> None:
        with _tying:
            low, self._ours = os.pipe()
            _ours.add(self._ours)
        # Without stdin, stdout and stderr here, it might stand where the child's own are put.
        self.theirs = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, 3)
        os.close(low)

    def hand_over(self) -> None:
        """The child has its end, or never will."""
        os.close(self.theirs)

    def let_go(self) -> None:
        """Ends the child, if it has not ended."""
        with _tying:
            _ours.discard(self._ours)
            os.close(self._ours)


@contextlib.contextmanager
def interrupts_later() -> Iterator[None]:
    """Holds back KeyboardInterrupt until the end of the block, so that no process is started and then not known."""
    before: Union[Any, int, None] = None
    if threading.current_thread() is threading.main_thread():
        before = signal.getsignal(signal.SIGINT)
    if not callable(before):
        yield
        return
    came: List[int] = []
    signal.signal(signal.SIGINT, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        before(came[0], None)


def _forget_leashes() -> None:
    """In a forked child."""
    for end in list(_ours):
        with contextlib.suppress(OSError):
            os.close(end)
    _ours.clear()
    _living.clear()
    _tying.release()


def _end_all() -> None:
    """The interpreter ends, and with it what it runs."""
    mine = [child for child in _living if not child.ended.is_set()]
    for child in mine:
        child.signal(signal.SIGTERM)
    for child in mine:
        child.ended.wait(AT_EXIT_S)


os.register_at_fork(before=_tying.acquire, after_in_parent=_tying.release, after_in_child=_forget_leashes)
atexit.register(_end_all)
