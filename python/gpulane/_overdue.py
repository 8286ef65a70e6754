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

__all__ = ["Watch", "limit_of"]

PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
SHOWN = 8
"""Places of a stack that are told in a line; the log has them all."""


def limit_of(head: Dict[str, Any]) -> Optional[float]:
    """Seconds that the model may take for an item, by the frame that brings the ring."""
    limit = head.get("item_timeout")
    return float(limit) if isinstance(limit, (int, float)) and limit > 0 else None


class Watch:
    """Watches over calls, one at a time, each with a limit."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._changed = threading.Condition()
        self._due: Optional[float] = None
        self._caller = 0
        self._thread: Optional[threading.Thread] = None

    def begin(self, seconds: float) -> None:
        """This thread begins a call that may take so long."""
        with self._changed:
            self._caller = threading.get_ident()
            self._due = time.monotonic() + seconds
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="gpulane-watch", daemon=True)
                self._thread.start()
            self._changed.notify()

    def end(self) -> None:
        """The call has come back."""
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
                frame = sys._current_frames().get(self._caller)
            stack = _shown(frame)
            try:
                self._tell(stack)
            except OSError:
                pass  # The feeder is gone; another gives the batch anew.


def _shown(frame: Optional[FrameType]) -> str:
    """The stack in one line, the innermost place first; all of it goes to the log."""
    if frame is None:
        return "an unknown place"
    frames = [one for one in traceback.extract_stack(frame) if not one.filename.startswith(PACKAGE)]
    print("gpulane: the model did not come back in time; it is at:", file=sys.stderr)
    sys.stderr.write("".join(traceback.format_list(frames)))
    sys.stderr.flush()
    places = [f"{os.path.basename(one.filename)}:{one.lineno} in {one.name}" for one in reversed(frames)]
    places = [place for place in places if not place.startswith("_start.py:")]
    return ", called from ".join(places[:SHOWN]) or "an unknown place"
