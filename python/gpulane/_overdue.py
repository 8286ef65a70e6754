"""Calls of the model that do not come back in time: a thread looks where they are, and tells the feeder, which has the
process ended. Calls themselves are not interrupted: nothing of the model could be trusted afterwards."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from types import FrameType
from typing import Any, Callable, Dict, Optional

from ._errors import say

__all__ = ["Watch", "limit_of"]

PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
SHOWN = 8
"""Places of a stack that are told in a line; the log has them all."""


def limit_of(head: Dict[str, Any]) -> Optional[float]:
    """Seconds that the model may take for an item, by the frame that brings the ring."""
    limit = head.get("item_timeout")
    return float(limit) if isinstance(limit, (int, float)) and limit > 0 else None


class Watch:
    """Watches over calls, one at a time, each with a limit and the number of its batch. Of a call that takes longer,
    `tell` is given that number and the stack."""

    def __init__(self, tell: Callable[[int, str], None]) -> None:
        self._tell = tell
        self._changed = threading.Condition()
        """Held while a call is told of: it cannot end meanwhile, so nothing is told of one that is over."""
        self._due: Optional[float] = None
        self._batch = 0
        self._caller = 0
        self._thread: Optional[threading.Thread] = None

    def begin(self, seconds: float, batch: int = 0) -> None:
        """This thread begins a call that may take so long, for a batch of this number."""
        with self._changed:
            self._batch = batch
            self._caller = threading.get_ident()
            self._due = time.monotonic() + seconds
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="gpulane-watch", daemon=True)
                self._thread.start()
            self._changed.notify()

    def end(self) -> None:
        """The call has come back. Waits where it is just being told of: nothing is said of another call before."""
        with self._changed:
            self._due = None

    def _run(self) -> None:
        while True:
            with self._changed:
                while self._due is None:
                    self._changed.wait()
                left = self._due - time.monotonic()
                if left > 0:
                    self._changed.wait(left)
                    continue
                self._due = None
                stack = _shown(sys._current_frames().get(self._caller))
                try:
                    self._tell(self._batch, stack)
                except OSError:
                    pass  # The feeder is gone; another gives the batch anew.


def _shown(frame: Optional[FrameType]) -> str:
    """The stack in one line, the innermost place first; all of it goes to the log."""
    if frame is None:
        return "an unknown place"
    frames = [one for one in traceback.extract_stack(frame) if not one.filename.startswith(PACKAGE)]
    stack = "".join(traceback.format_list(frames))
    say(f"gpulane: the model did not come back in time; it is at:\n{stack}")
    places = [f"{os.path.basename(one.filename)}:{one.lineno} in {one.name}" for one in reversed(frames)]
    places = [place for place in places if not place.startswith("_start.py:")]
    return ", called from ".join(places[:SHOWN]) or "an unknown place"
