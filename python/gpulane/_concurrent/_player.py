"""One model among several: where it runs, and in which of three ways.

`graph`: replayed as a whole on a stream of its own. `stream`: called as it is, on a stream of its own. `plain`: called
as it is, where the caller is.
"""

from __future__ import annotations

import weakref
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

from . import _streams
from ._answer import tensors_of
from ._capture import CannotCapture, Captured
from ._form import Form
from ._pieces import cut

__all__ = ["OnGpu", "Plain", "Played", "Player", "Slot", "Way"]


class Way(str):
    """How a model is run: equal to "graph", "stream" or "plain", and `why` says why it is no graph."""

    why: str

    def __new__(cls, kind: str, why: str = "") -> Way:
        """The way `kind`, and why."""
        way = super().__new__(cls, kind)
        way.why = why
        return way


class Played(NamedTuple):
    """An answer on its way."""

    answer: Any
    tensors: List[Any]
    """Those of the answer that belong to the model's stream; whoever reads them on another must be noted."""
    done: Optional[Any]
    """The event after it; nothing if the answer is there."""


class Player:
    """A model and how it is run."""

    way: Way

    def __init__(self, form: Form, model: Callable[..., Any]) -> None:
        self.form = form
        self.model = model

    def play(self, leaves: List[Any], rows: int, ready: Any, copy: bool) -> Played:
        """Starts the model on this input, after the event `ready`."""
        raise NotImplementedError

    def close(self) -> None:
        """Gives back what it holds. Its work must have ended."""


class Plain(Player):
    """Called in place."""

    def __init__(self, form: Form, model: Callable[..., Any], why: str) -> None:
        super().__init__(form, model)
        self.way = Way("plain", why)

    def play(self, leaves: List[Any], rows: int, ready: Any, copy: bool) -> Played:
        """Calls the model."""
        return Played(self.form.call(self.model, leaves), [], None)


class Slot:
    """A place for one input at a time: a stream, and graphs with memory of their own.

    The graphs of one slot share a pool, which is allowed to those that never run at the same time; those of
    different slots do not.
    """

    def __init__(self, torch: Any, device: Any) -> None:
        self._torch = torch
        self.stream = _streams.take(torch, device)
        self._give_back = weakref.finalize(self, _streams.give_back, self.stream)
        self.pool = torch.cuda.graph_pool_handle()
        self.graphs: Dict[int, Captured] = {}
        self._done: Optional[Any] = None

    def wait(self) -> None:
        """Until its last input is through: so much may be under way and no more."""
        if self._done is not None and not self._done.query():
            self._done.synchronize()

    def finish(self) -> Any:
        """The event after all that this slot has been given. A new one each time: tickets keep theirs."""
        # Whoever waits for it in a thread sleeps instead of spinning.
        self._done = self._torch.cuda.Event(blocking=True)
        self._done.record(self.stream)
        return self._done

    def drop_graphs(self) -> None:
        """Gives the graphs up; the stream stays."""
        graphs, self.graphs = self.graphs, {}
        for captured in graphs.values():
            captured.reset()

    def close(self) -> None:
        """Gives everything up."""
        self.stream.synchronize()
        self.drop_graphs()
        self._give_back()


class OnGpu(Player):
    """On streams of its own, with graphs or without."""

    def __init__(self, torch: Any, form: Form, model: Callable[..., Any], device: Any, depth: int) -> None:
        super().__init__(form, model)
        self._torch = torch
        self._device = device
        self.slots = [Slot(torch, device) for _ in range(depth)]
        self._next = 0
        self.way = Way("stream", "not captured yet")
        self.fills_up = True
        """Whether an item's answer stays the same whatever stands beside it, so that batches may be filled up."""
        self.sizes: Sequence[int] = ()

    def captured(self, sizes: Sequence[int]) -> None:
        """All slots hold graphs of these sizes, ascending."""
        self.sizes = sizes
        self.way = Way("graph")

    def without_graphs(self, why: CannotCapture) -> None:
        """From now on it is called as it is."""
        for slot in self.slots:
            slot.drop_graphs()
        self.sizes = ()
        self.way = Way("stream", str(why))

    def play(self, leaves: List[Any], rows: int, ready: Any, copy: bool) -> Played:
        """Starts the model on its next slot, which becomes the current stream. Waits while that is busy."""
        slot = self.slots[self._next]
        self._next = (self._next + 1) % len(self.slots)
        slot.wait()
        self._torch.cuda.set_stream(slot.stream)
        slot.stream.wait_event(ready)
        for leaf in leaves:
            if leaf.is_cuda:
                if leaf.device != self._device:
                    raise ValueError(f"the input is on {leaf.device}, the model on {self._device}: move it with `.to`")
                leaf.record_stream(slot.stream)  # The caller may drop it before it is read.
        try:
            return self._played(slot, leaves, rows, copy)
        except BaseException:
            slot.finish()  # What was started still runs.
            raise

    def _played(self, slot: Slot, leaves: List[Any], rows: int, copy: bool) -> Played:
        if slot.graphs and self._fits(rows):
            return self._replayed(slot, leaves, rows, copy)
        here = [leaf if leaf.is_cuda else leaf.to(self._device, non_blocking=True) for leaf in leaves]
        answer = self.form.call(self.model, here)
        return Played(answer, tensors_of(answer, self._torch.Tensor), slot.finish())

    def _fits(self, rows: int) -> bool:
        return rows in self.sizes or (self.fills_up and rows > 0)

    def _replayed(self, slot: Slot, leaves: List[Any], rows: int, copy: bool) -> Played:
        captured = slot.graphs.get(rows)
        if captured is not None:
            captured.fill(leaves, rows)
            outputs = captured.replay(rows, copy)
        else:
            parts: List[List[Any]] = []
            pieces = cut(rows, self.sizes)
            copy = copy or len(pieces) > 1  # The next piece overwrites what the one before has left.
            for piece in pieces:
                captured = slot.graphs[piece.size]
                whole = piece.items == rows
                captured.fill(leaves if whole else self.form.part(leaves, piece.first, piece.items), piece.items)
                parts.append(captured.replay(piece.items, copy))
            outputs = parts[0] if len(parts) == 1 else [self._torch.cat(same) for same in zip(*parts)]
            captured = slot.graphs[pieces[0].size]
        return Played(captured.rebuild(outputs), outputs if copy else [], slot.finish())

    def close(self) -> None:
        """Waits for its work, then gives graphs, their memory and the streams back."""
        for slot in self.slots:
            slot.close()
        self.slots = []
