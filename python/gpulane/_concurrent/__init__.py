"""Several models on one GPU at the same time: CUDA graphs, each replayed on a stream of its own.

Small models called one after the other leave a GPU idle: the processor cannot start their many kernels quickly enough,
and streams alone do not change that. A graph starts all of them at once. `_form` and `_answer` know what goes in and
out, `_capture` makes one graph, `_check` compares, `_prepare` does both for a model, `_player` runs it, `_ensemble` all
of them together, `_ticket` hands the answers out. Imports torch never: if it matters, it is loaded already.
"""

from __future__ import annotations

import operator
import sys
from typing import Any, Callable, Iterable, Optional, Sequence

from ._ensemble import Concurrent
from ._player import Way
from ._prepare import Demands
from ._ticket import Ticket

__all__ = ["Concurrent", "Ticket", "Way", "concurrent"]


def concurrent(
    models: Sequence[Callable[..., Any]],
    examples: Any,
    *,
    batches: Optional[Sequence[int]] = None,
    depth: int = 2,
    check: bool = True,
    warmup: int = 3,
    tolerance: Optional[float] = None,
) -> Concurrent:
    """Makes several models run at the same time on one GPU.

        fast = gpulane.concurrent([model_a, model_b], torch.rand(8, 3, 224, 224, device="cuda"))
        a, b = fast(images)                        # one answer per model
        ticket = fast.submit(images)               # the same without waiting …
        a, b = ticket.result()                     # … or `await ticket`

    `models` are modules in eval mode, or functions, on one GPU. `examples` is one input for all of them, or a list with
    one each: a tensor, a tuple (arguments) or a dict (keyword arguments) of tensors. Their first side is the batch.

    Each model is captured as a CUDA graph for the example's batch, or for every one of `batches`; an input is filled up
    to the next of these sizes and the answer cut, a larger one is split. Other sides must be those of the example.
    Inputs may be on the processor; answers are on the GPU, without gradients.

    `check`: each graph must answer as the model itself does, twice with different data, within `tolerance` (a part of
    the largest number; by default 2e-2 for half precision, 1e-4 for 32 bits). A model that cannot be captured, or
    answers otherwise, is called on a stream of its own; where there is no GPU, all are called one after the other, and
    once here, to see whether they take their examples. Both are said once, as a warning, and stand in `how`. `depth`:
    how many inputs may be under way, each with memory of its own.

    >>> import gpulane, warnings
    >>> warnings.simplefilter("ignore")            # it says that there is no GPU in this example
    >>> with gpulane.concurrent([abs, float], -3) as fast:
    ...     fast(-4), fast.submit_one(0, -5).result(), fast.how
    ([4, -4.0], 5, ['plain', 'plain'])
    """
    if callable(models) or not isinstance(models, Sequence):
        what = type(models).__name__
        parts = ", or list(…) of it for one each" if isinstance(models, Iterable) else ""
        raise TypeError(f"concurrent takes a list of models, not a {what}: write concurrent([model], example){parts}")
    if not models:
        raise ValueError("no models: give at least one")
    for number, model in enumerate(models):
        if not callable(model):
            raise TypeError(f"model {number} is a {type(model).__name__}, which cannot be called")
    if batches is not None and (not isinstance(batches, Sequence) or not batches or not all(map(_counts, batches))):
        raise ValueError(f"batches = {batches!r}: write sizes of at least 1, such as [1, 8, 64]")
    if not _counts(depth) or not _counts(warmup):
        raise ValueError(f"depth = {depth!r}, warmup = {warmup!r}: both are whole numbers of at least 1")
    demands = Demands(batches, check, warmup, tolerance)
    return Concurrent(models, examples, demands, depth, sys.modules.get("torch"))


def _counts(value: Any) -> bool:
    try:
        return operator.index(value) >= 1
    except TypeError:
        return False
