"""Calls of `predict_batch`: what comes back is kept, an exception is tried again and narrowed down to the items that
cause it, and out of memory means fewer items at once."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Dict, List, Optional, Set, Tuple

from ._batches import Ready
from ._errors import is_out_of_memory, place_of, reason_of, say, shown
from ._results import ResultError, ReturnedTuple, Table, rows_of
from ._ring import Batch
from ._wire import Forked

__all__ = ["Around", "Broken", "Caller", "Outcome"]

GOOD_CALLS = 20
"""After so many calls without running out of memory a little more is tried."""

GROWTH = 1.25


class Broken(Exception):
    """The process's device can no longer be used: only a fresh process helps."""


class Limit:
    """The most items given to the model at once."""

    def __init__(self) -> None:
        self.most: Optional[int] = None
        """Nothing: as many as a batch has."""
        self._good = 0
        self._too_large: List[int] = []

    def of(self, count: int) -> int:
        """How many of `count` items to give at once."""
        return count if self.most is None else min(count, self.most)

    def went_well(self, count: int, wanted: int) -> None:
        """A call with so many items went well, of a batch of so many."""
        if self.most is None or count < min(self.most, wanted):
            return
        self._good += 1
        if self._good < GOOD_CALLS:
            return
        self._good = 0
        grown = max(self.most + 1, int(self.most * GROWTH))
        # What has failed at one size fails at every larger one too: two such failures are a wall.
        if len(self._too_large) > 1:
            grown = max(self.most, min(grown, self._too_large[1] - 1))
        self.most = None if grown >= wanted and len(self._too_large) < 2 else grown

    def ran_out(self, count: int) -> None:
        """A call with so many items ran out of memory."""
        self._too_large = sorted([*self._too_large, count])[:2]
        self.most = max(1, count // 2)
        self._good = 0


class Outcome:
    """What became of a batch."""

    def __init__(self) -> None:
        self.table: Optional[Table] = None
        self.failed: Dict[int, str] = {}
        self.ready: List[Ready] = []
        """What was made ready for it, kept until its results are here."""
        self.split = 0
        """The most items given to the model at once."""
        self.ooms = 0
        self.certain = False
        """What failed did so by how the model answers, and would not be right if it were tried one by one."""


class Around:
    """Told of every call of the model: how many items of which batch it is given, and that it is over."""

    def begin(self, batch: int, count: int) -> None:
        """A call begins."""

    def end(self) -> None:
        """It is over, well or not."""


class Caller:
    """Calls one model."""

    def __init__(self, model: Any, backend: Any, nan_fails: bool, around: Optional[Around] = None) -> None:
        self._model = model
        self._backend = backend
        self._nan_fails = nan_fails
        self._around = around
        self._limit = Limit()
        self._pid = os.getpid()
        self._seen: Set[Tuple[str, str]] = set()

    def work(self, batch: Batch, ready: Optional[Ready]) -> Outcome:
        """Works on a batch; `ready` is what was made of it ahead of time, if anything could be."""
        outcome = Outcome()
        whole = self._limit.of(batch.count) == batch.count
        if whole and ready is not None:
            try:
                results = self._call(batch, 0, batch.count, ready, outcome)
                outcome.table = Table(results, batch.count, self._nan_fails)
                self._limit.went_well(batch.count, batch.count)
                for at, reason in ready.failed.items():
                    outcome.table.fail(at, reason)
                return outcome
            except Exception as error:
                reason = self._noted(error, batch.count, outcome)
                if isinstance(error, ReturnedTuple):
                    return _refused(batch, reason, outcome)
                again = not is_out_of_memory(error)
        else:
            again = False
        del ready
        self._in_pieces(batch, outcome, again)
        return outcome

    def _in_pieces(self, batch: Batch, outcome: Outcome, again: bool) -> None:
        """Works on a batch piece by piece; `again`: all of it at once has failed, and is due one more try."""
        results: Dict[int, Any] = {}
        miscounted = ""
        todo: List[Tuple[int, int, bool]] = [(0, batch.count, not again)]
        while todo:
            start, end, may_retry = todo.pop()
            size = self._limit.of(end - start)
            if size < end - start:
                todo.append((start + size, end, True))
                end, may_retry = start + size, True
            try:
                ready = self._backend.prepare(batch, start, end)
                answer = self._call(batch, start, end, ready, outcome)
                results.update(zip(range(start, end), rows_of(answer, end - start)))
                outcome.failed.update({start + at: reason for at, reason in ready.failed.items()})
                self._limit.went_well(end - start, batch.count)
            except Exception as error:
                reason = self._noted(error, end - start, outcome)
                if isinstance(error, ReturnedTuple):
                    _refused(batch, reason, outcome)
                    return
                if isinstance(error, ResultError) and end - start > 1 and not may_retry:
                    miscounted = miscounted or reason
                todo.extend(self._next_try(start, end, may_retry, is_out_of_memory(error)))
                if end - start == 1 and (is_out_of_memory(error) or not may_retry):
                    outcome.failed[start] = reason
        if miscounted and not outcome.failed:
            # Right for each alone and wrong for many: these are not one result per item, and must not pass for that.
            outcome.failed = dict.fromkeys(range(batch.count), miscounted)
            outcome.certain = True
        self._put_together(batch, results, outcome)

    def _next_try(self, start: int, end: int, may_retry: bool, out_of_memory: bool) -> List[Tuple[int, int, bool]]:
        """What is left to try of a piece that failed; the last is tried first."""
        if out_of_memory:
            return [(start, end, may_retry)] if end - start > 1 else []
        if may_retry:
            return [(start, end, False)]
        middle = (start + end) // 2
        return [(middle, end, False), (start, middle, False)] if end - start > 1 else []

    def _put_together(self, batch: Batch, results: Dict[int, Any], outcome: Outcome) -> None:
        for at in range(batch.count):
            if at not in results:
                outcome.failed.setdefault(at, "it was not worked on")
        kept = [results.get(at) for at in range(batch.count)]
        good = next((results[at] for at in range(batch.count) if at not in outcome.failed), None)
        # A failed item's place is held by a good one's result, so that the columns keep their types.
        kept = [good if at in outcome.failed else value for at, value in enumerate(kept)]
        try:
            outcome.table = Table(kept, batch.count, self._nan_fails)
        except ResultError as error:
            outcome.table = Table([None] * batch.count, batch.count, False)
            outcome.failed = {at: outcome.failed.get(at, str(error)) for at in range(batch.count)}
        for at, reason in outcome.failed.items():
            outcome.table.fail(at, reason)

    def _call(self, batch: Batch, start: int, end: int, ready: Ready, outcome: Outcome) -> Any:
        outcome.ready.append(ready)
        outcome.split = max(outcome.split, end - start)
        try:
            self._model.items = batch.names(start, end)
        except AttributeError:
            pass  # A model with slots: it has no place for names.
        if batch.ring.has_members:
            self._give_samples(batch, start, end, ready)
        if self._around is not None:
            self._around.begin(batch.id, end - start)
        ready.begin()
        try:
            return self._predicted(ready.given)
        finally:
            if os.getpid() == self._pid:
                ready.end()
                if self._around is not None:
                    self._around.end()

    def _predicted(self, given: Any) -> Any:
        """What the model returns. A process that it has forked does not go on as a worker: it ends."""
        try:
            results = self._model.predict_batch(given)
        except SystemExit:
            raise
        except BaseException as error:
            if os.getpid() == self._pid:
                raise
            say(shown(error))
            raise Forked(1) from None
        if os.getpid() != self._pid:
            say("gpulane: a process forked by predict_batch came back from it; it ends, its results are not used\n")
            raise Forked(1)
        return results

    def _give_samples(self, batch: Batch, start: int, end: int, ready: Ready) -> None:
        """Fresh ones for every call: what the model does to them is gone when the call is repeated."""
        samples = batch.samples(start, end)
        ready.on_host += sum(len(data) for members in samples for data in members.values())
        with contextlib.suppress(AttributeError):  # A model with slots: it has no place for them.
            self._model.samples = samples

    def _noted(self, error: Exception, count: int, outcome: Outcome) -> str:
        """Says what happened, and adjusts to it. The reason for `failed`."""
        reason = reason_of(error)
        if self._backend.is_broken():
            say(shown(error))
            raise Broken(reason) from None
        kind = (type(error).__name__, place_of(error))
        if kind not in self._seen:
            self._seen.add(kind)
            say(f"gpulane: with {count} items predict_batch failed (told once for this place):\n{shown(error)}")
        # Its frames hold the batch, and so the memory that is needed now.
        error.__traceback__ = None
        for ready in outcome.ready:
            ready.given = None
        if is_out_of_memory(error):
            outcome.ooms += 1
            self._limit.ran_out(count)
            self._backend.free()
        return reason


def _refused(batch: Batch, reason: str, outcome: Outcome) -> Outcome:
    """Nothing of the batch is kept: what the model returns for some of it would be as wrong, and could look right."""
    outcome.table = Table([None] * batch.count, batch.count, False)
    outcome.failed, outcome.certain = dict.fromkeys(range(batch.count), reason), True
    for at in outcome.failed:
        outcome.table.fail(at, reason)
    return outcome
