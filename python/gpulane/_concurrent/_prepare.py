"""From a model and its example to graphs that have been seen to give the right answers, or to the reason why not."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

from ._answer import UnknownAnswer, take_apart
from ._capture import CannotCapture, Captured, like, steady_casts, warm_up
from ._check import says, varied
from ._form import Form
from ._player import OnGpu

__all__ = ["Demands", "prepare", "try_out"]


class Demands(NamedTuple):
    """What the caller asked for."""

    batches: Optional[Sequence[int]]
    check: bool
    warmup: int
    tolerance: Optional[float]


class Proof(NamedTuple):
    """What a graph of one size must answer, by the model itself."""

    asked: List[Tuple[List[Any], List[Any]]]
    """Inputs of that size, and the answers' tensors."""
    partial: Optional[Tuple[List[Any], int, List[Any]]]
    """An input of fewer items, their number, and the answers: what filling up must not change."""


def prepare(torch: Any, player: OnGpu, example: List[Any], demands: Demands, whose: str) -> str:
    """Captures `player` for all sizes on all slots, or has it go without graphs. Returns what else is to be said."""
    device = player.slots[0].stream.device
    caller = torch.cuda.current_stream(device)
    try:
        # Graphs must not depend on the mode the caller happens to be in; nothing here is for training.
        with torch.inference_mode(False), torch.no_grad(), steady_casts(torch):
            return _Preparation(torch, player, example, demands, whose).run(caller)
    except CannotCapture as why:
        torch.cuda.set_stream(caller)
        torch.cuda.synchronize(device)
        player.without_graphs(why)
        return ""
    finally:
        torch.cuda.set_stream(caller)


def try_out(torch: Any, form: Form, model: Callable[..., Any], example: List[Any], whose: str) -> None:
    """Calls a model that needs no preparation: what is wrong with it, or with its example, is found here as it would be
    on a GPU."""
    try:
        copies = [leaf.clone() if hasattr(leaf, "clone") else copy.copy(leaf) for leaf in example]
        with nullcontext() if torch is None else torch.no_grad():
            form.call(model, copies)
    except Exception as error:
        raise _failed(whose, error) from error


def _failed(whose: str, error: Exception) -> RuntimeError:
    return RuntimeError(f"{whose} fails on its example: {type(error).__name__}: {error}")


class _Preparation:
    def __init__(self, torch: Any, player: OnGpu, example: List[Any], demands: Demands, whose: str) -> None:
        self._torch = torch
        self._player = player
        self._form = player.form
        self._example = example
        self._demands = demands
        self._whose = whose

    def run(self, caller: Any) -> str:
        player, torch = self._player, self._torch
        sizes = sorted(set(self._demands.batches or [self._form.rows]))
        proofs = {}
        notes: List[str] = []
        for slot in player.slots:
            torch.cuda.set_stream(slot.stream)
            slot.stream.wait_stream(caller)
            # The largest first: the smaller ones then find room in what it has left in their common pool.
            for size in reversed(sizes):
                first = size not in proofs
                inputs = self._inputs(size, slot.stream.device)
                expected = self._warm_up(inputs, self._demands.warmup if first else 1)
                if first:
                    proofs[size] = self._proof(inputs, expected)
                captured = Captured(torch, self._form, player.model, inputs, slot.stream, slot.pool)
                slot.graphs[size] = captured
                if not captured.in_rows:
                    player.fills_up = False
                    notes.append("not every output has the batch as its first side")
                if self._demands.check:
                    notes += self._verify(captured, proofs[size])
            # Nothing of one slot may still run while another is captured.
            torch.cuda.synchronize(slot.stream.device)
        player.captured(sizes)
        return notes[0] if notes else ""

    def _inputs(self, size: int, device: Any) -> List[Any]:
        """Memory for a graph, filled with the example's items over and over."""
        made = []
        for number, leaf in enumerate(self._example):
            if not self._form.batched(number):
                made.append(leaf.detach().to(device, copy=True))
                continue
            own = like(self._torch, leaf, size, device)
            for first in range(0, size, self._form.rows):
                own[first : first + self._form.rows].copy_(leaf[: min(self._form.rows, size - first)])
            made.append(own)
        return made

    def _call(self, inputs: List[Any]) -> Any:
        """The model's own answer; on copies, since some models write into what they get."""
        return self._form.call(self._player.model, [leaf.clone() for leaf in inputs])

    def _warm_up(self, inputs: List[Any], times: int) -> Any:
        try:
            return warm_up(self._torch, lambda: self._call(inputs), times)
        except CannotCapture:
            raise
        except Exception as error:
            raise _failed(self._whose, error) from error

    def _tensors(self, answer: Any) -> List[Any]:
        try:
            return take_apart(answer, self._torch.Tensor)[0]
        except UnknownAnswer as unknown:
            raise CannotCapture(str(unknown)) from None

    def _proof(self, inputs: List[Any], expected: Any) -> Proof:
        """Asked twice with different data, so that a graph in which something became a constant is noticed."""
        given = [leaf.clone() for leaf in inputs]
        asked = [(given, [tensor.clone() for tensor in self._tensors(expected)])]
        if not self._demands.check:
            return Proof(asked, None)
        again = self._tensors(self._call(given))
        wrong = says(self._torch, again, asked[0][1], self._demands.tolerance)
        if wrong:
            raise CannotCapture(
                f"asked the same twice, its answers differ {wrong}: random numbers, or a state it keeps"
            )
        other = [varied(self._torch, leaf, self._form.batched(number)) for number, leaf in enumerate(given)]
        asked.append((other, [tensor.clone() for tensor in self._tensors(self._call(other))]))
        size = self._form.batch_of(given)
        if size == 1:
            return Proof(asked, None)
        count = (size + 1) // 2
        fewer = self._form.part(other, 0, count)
        return Proof(asked, (fewer, count, [tensor.clone() for tensor in self._tensors(self._call(fewer))]))

    def _verify(self, captured: Captured, proof: Proof) -> List[str]:
        """Raises if the graph answers wrongly; notes if it does so only when it is filled up."""
        torch, tolerance = self._torch, self._demands.tolerance
        for number, (leaves, expected) in enumerate(proof.asked):
            captured.fill(leaves, captured.size)
            wrong = says(torch, captured.replay(captured.size, copy=True), expected, tolerance)
            if wrong:
                which = "" if number == 0 else ", on other data than the example,"
                raise CannotCapture(f"the graph's answers differ from the model's own{which} {wrong}")
        if proof.partial is None or not self._player.fills_up:
            return []
        fewer, count, expected = proof.partial
        captured.fill(fewer, count)
        wrong = says(torch, captured.replay(count, copy=True), expected, tolerance, loose=True)
        if not wrong:
            return []
        self._player.fills_up = False
        return [f"an item's answer depends on the items beside it: filled up, a batch differs {wrong}"]
