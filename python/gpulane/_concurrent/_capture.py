"""One model's work on one batch size as a CUDA graph: fixed memory in, fixed memory out, replayed as a whole.

What goes wrong here must stay here: a capture that fails leaves streams, allocator and autocast as they were.
"""

from __future__ import annotations

import os
import threading
import warnings
from contextlib import contextmanager
from typing import Any, Callable, Iterator, List, Optional

from ._answer import UnknownAnswer, take_apart
from ._form import Form

__all__ = ["CannotCapture", "Captured", "like", "steady_casts", "warm_up"]


_one_at_a_time = threading.RLock()
"""torch allows one capture in a process at a time, whatever the thread. One within another is torch's to refuse."""


class CannotCapture(Exception):
    """Why a model cannot be a graph. For a person; it goes on without one."""


class Captured:
    """A graph with the memory it reads and writes. It is filled and replayed on the current stream."""

    def __init__(
        self, torch: Any, form: Form, model: Callable[..., Any], inputs: List[Any], stream: Any, pool: Any
    ) -> None:
        """Captures on `stream`. `inputs` become the graph's own."""
        self._form = form
        self._inputs = inputs
        self.size = next(int(leaf.shape[0]) for number, leaf in enumerate(inputs) if form.batched(number))
        self._graph = torch.cuda.CUDAGraph()
        with _one_at_a_time:
            answer = _record(torch, self._graph, lambda: form.call(model, inputs), stream, pool)
        try:
            self._outputs, self.rebuild = take_apart(answer, torch.Tensor)
        except UnknownAnswer as unknown:
            self._graph.reset()
            raise CannotCapture(str(unknown)) from None
        self.in_rows = all(out.dim() > 0 and out.shape[0] == self.size for out in self._outputs)
        """Whether the first side of every output is the batch, so that what was filled up can be cut off."""

    def fill(self, leaves: List[Any], count: int) -> None:
        """Brings `count` items in; the places left over repeat the last one, which is always a valid item."""
        for number, (own, leaf) in enumerate(zip(self._inputs, leaves)):
            if count == self.size or not self._form.batched(number):
                own.copy_(leaf, non_blocking=True)
            else:
                own[:count].copy_(leaf, non_blocking=True)
                own[count:].copy_(own[count - 1 : count])

    def replay(self, count: int, copy: bool) -> List[Any]:
        """The outputs for the first `count` items: copies, or the graph's own memory, good until its next replay."""
        self._graph.replay()
        outputs = self._outputs
        if count != self.size:
            outputs = [out[:count] for out in outputs]
        return [out.clone() for out in outputs] if copy else outputs

    def reset(self) -> None:
        """Gives the graph up. Its work must have ended."""
        self._inputs, self._outputs = [], []
        self._graph.reset()


def like(torch: Any, leaf: Any, rows: int, device: Any) -> Any:
    """New memory for so many items of that kind, in the same memory format: channels last stays so."""
    shape = (rows, *leaf.shape[1:])
    if not leaf.is_contiguous():
        for layout, sides in ((torch.channels_last, 4), (torch.channels_last_3d, 5)):
            if len(shape) == sides and leaf.is_contiguous(memory_format=layout):
                return torch.empty(shape, dtype=leaf.dtype, device=device, memory_format=layout)
    return torch.empty(shape, dtype=leaf.dtype, device=device)


def warm_up(torch: Any, run: Callable[[], Any], times: int) -> Any:
    """Runs the model on the current stream until it is as it will be: algorithms chosen, kernels loaded, code compiled.
    Returns its last answer; says why if that run waited for the GPU, which no graph can."""
    for _ in range(times - 1):
        run()
    with _watching_for_waits(torch) as places:
        answer = run()
    if places:
        raise CannotCapture(f"it waits for the GPU at {places[0]}, as `.item()`, `.cpu()` and `if tensor:` do")
    return answer


@contextmanager
def _watching_for_waits(torch: Any) -> Iterator[List[str]]:
    """Where this thread waits for the GPU. Found out beforehand, since a capture that is broken off can cost memory."""
    places: List[str] = []
    before = torch.cuda.get_sync_debug_mode()
    if before != 0:  # Somebody debugs; theirs goes first.
        yield places
        return
    thread = threading.get_ident()
    with warnings.catch_warnings():
        shown = warnings.showwarning

        def show(
            message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Optional[str] = None
        ) -> None:
            if "synchronizing CUDA operation" not in str(message):
                shown(message, category, filename, lineno, file, line)
            elif threading.get_ident() == thread:
                places.append(f"{os.path.basename(filename)}:{lineno}")

        warnings.showwarning = show
        warnings.filterwarnings("always", message=".*synchronizing CUDA operation")
        warnings.filterwarnings("ignore", message="Synchronization debug mode is a prototype")
        torch.cuda.set_sync_debug_mode(1)
        try:
            yield places
        finally:
            torch.cuda.set_sync_debug_mode(0)


@contextmanager
def steady_casts(torch: Any) -> Iterator[None]:
    """Autocast's cache of converted weights ends with the caller's `with autocast`; a graph must not read from it."""
    before = torch.is_autocast_cache_enabled()
    torch.clear_autocast_cache()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)


def _record(torch: Any, graph: Any, run: Callable[[], Any], stream: Any, pool: Any) -> Any:
    """The model's answer in the graph's memory."""
    caller = torch.cuda.current_stream(stream.device)
    # cuBLAS' workspaces are kept per stream. Cleared before, they are made in the graph's own memory, where neither
    # another graph nor `gpulane.cleanup` can take them away; cleared after, nobody else finds them there.
    torch._C._cuda_clearCublasWorkspaces()
    reason = ""
    try:
        # Other threads may allocate meanwhile: only what this one does must be capturable.
        with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
            try:
                return run()
            except Exception as error:
                # Taken down here: the end of a broken capture fails too, and says nothing of the reason.
                reason = _first_line(error)
                raise
    except Exception as error:
        reason = reason or _first_line(error)
    finally:
        torch.cuda.set_stream(caller)
        torch._C._cuda_clearCublasWorkspaces()
    # Outside of the handler, so that the error no longer holds what the model had in hand.
    _recover(torch, graph, stream, pool)
    raise CannotCapture(reason)


def _recover(torch: Any, graph: Any, stream: Any, pool: Any) -> None:
    """Brings torch back to where it was before a capture that broke off. Not every version does so by itself."""
    end = getattr(torch._C, "_cuda_endAllocateToPool", None)
    if end is not None:
        try:
            end(stream.device.index, pool)
        except RuntimeError:
            pass  # It has been ended, as it should be.
    try:
        graph.reset()
    except RuntimeError:
        pass  # Never begun.
    try:
        torch.cuda.synchronize(stream.device)
    except RuntimeError:
        # The error of the capture, told once more. If the GPU is really lost, this one says so.
        torch.cuda.synchronize(stream.device)
    _free_random_numbers(torch, stream)


def _free_random_numbers(torch: Any, stream: Any) -> None:
    """A capture holds torch's random numbers until it ends well: after one that broke off `torch.rand` fails, and goes
    on failing. So here is one that ends well."""
    caller = torch.cuda.current_stream(stream.device)
    try:
        anything = torch.empty((2,), device=stream.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            anything[:1].copy_(anything[1:])
        graph.reset()
    except RuntimeError:
        pass  # No memory, say. What `torch.rand` then says is all that can be told.
    finally:
        torch.cuda.set_stream(caller)


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
