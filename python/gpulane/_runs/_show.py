"""How a run is shown while somebody waits for it: a card in a notebook, gpulane's own view elsewhere.

All of it happens in the thread that waits. Output of other threads would land in whichever cell is running."""

from __future__ import annotations

import contextlib
import importlib
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Optional

from ._binary import binary, environment
from ._child import interrupts_later

if TYPE_CHECKING:
    from ._run import Run

__all__ = ["Quiet", "View", "cell", "view_of"]

BETWEEN_S = 0.2
"""A card is drawn at most five times a second,"""
SHARE = 0.1
"""and in no more than this share of the time, however many jobs there are."""
LAST_WORDS_S = 5.0
"""So long the program's view may take for its summary."""


class View:
    """Shows a run, or nothing: the base of the others. Making one shows nothing yet: an interrupt may come while it is
    opened, and it must still be there to be closed."""

    def open(self) -> None:
        """Shows the run for the first time."""

    def tick(self) -> None:
        """Time has gone by."""

    def close(self) -> None:
        """The run has ended."""

    def leave(self) -> None:
        """Nobody waits any more; the run goes on."""
        self.close()


class Quiet(View):
    """Shows nothing."""


class Drawn:
    """A card, and what stands for it where no HTML is shown."""

    def __init__(self, html: str, text: str) -> None:
        self.html, self.text = html, text

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.text


class Card(View):
    """One output of the running cell, replaced in place."""

    def __init__(self, run: Run) -> None:
        shown: Any = importlib.import_module("IPython.display")
        self._handle = shown.DisplayHandle()
        self._run = run
        self._drawn = ""
        self._due = 0.0

    def open(self) -> None:
        self._drawn = self._run._card()
        self._due = time.monotonic() + BETWEEN_S
        self._handle.display(Drawn(self._drawn, repr(self._run)))

    def tick(self) -> None:
        if time.monotonic() >= self._due:
            self._draw()

    def close(self) -> None:
        self._draw()

    def _draw(self) -> None:
        begun = time.monotonic()
        html = self._run._card()
        if html != self._drawn:
            self._drawn = html
            self._handle.update(Drawn(html, repr(self._run)))
        now = time.monotonic()
        self._due = now + max(BETWEEN_S, (now - begun) / SHARE)


class Watch(View):
    """`gpulane watch`, on this process's stderr: what a person at a terminal would see of the same run."""

    def __init__(self, run: Run) -> None:
        self._argv = [binary(), "watch", str(run.path)]
        self._process: Optional[subprocess.Popen[bytes]] = None

    def open(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()
        with interrupts_later():
            self._process = subprocess.Popen(
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=sys.stderr,
                start_new_session=True,
                env=environment(),
            )

    def close(self) -> None:
        if self._process is None:
            return
        try:
            self._process.wait(LAST_WORDS_S)  # It ends by itself when the run has.
        except BaseException as error:
            self.leave()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise

    def leave(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()


def view_of(run: Run, quiet: bool) -> View:
    """The view that fits where we are."""
    if quiet:
        return Quiet()
    if _kernel() is not None:
        return Card(run)
    try:
        sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        return Quiet()  # Captured by something that is no file: nobody watches it grow.
    return Watch(run)


def cell() -> Optional[int]:
    """The number of the notebook's cell that is running, if one is."""
    shell = _kernel()
    return None if shell is None else int(shell.execution_count)


def _kernel() -> Any:
    """IPython's shell, where it runs as a notebook's kernel."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None and hasattr(module, "get_ipython") else None
    return shell if getattr(shell, "kernel", None) is not None else None
