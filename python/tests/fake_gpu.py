"""A GPU in plain Python, and as much of torch as `gpulane.concurrent` uses on it.

Work is put on streams and done later, in an order drawn by lot that keeps only what CUDA promises: the own order of a
stream, and events waited for. Memory that is dropped is overwritten as soon as the stream it came from gets there, as a
caching allocator would reuse it. So whoever forgets a wait or a `record_stream` reads wrong numbers under some seed.
"""

from __future__ import annotations

import math
import random
import threading
import types
import warnings
from collections import deque
from contextlib import contextmanager, nullcontext
from typing import Any, Callable, Deque, Dict, Iterator, List, Optional, Tuple

POISON = math.nan
SIZES = {"float64": 8, "float32": 4, "float16": 2, "int64": 8, "bool": 1}


class Token:
    """One recording of an event."""

    def __init__(self) -> None:
        self.done = False


class Block:
    """Memory. Belongs to the stream it was allocated on."""

    def __init__(self, count: int, owner: Optional[Stream], pooled: bool) -> None:
        self.values: List[float] = [POISON if owner else 0.0] * count
        self.owner = owner
        self.pooled = pooled


class Handle:
    """What tensors hold. When the last one is gone, the allocator may use the block for something else."""

    def __init__(self, machine: Machine, block: Block) -> None:
        self.machine = machine
        self.block = block
        self.used_on: Dict[int, Stream] = {}

    def __del__(self) -> None:
        if self.block.owner is not None and not self.block.pooled:
            self.machine.freed(self.block, list(self.used_on.values()))


class Stream:
    """A queue of work."""

    def __init__(self, machine: Machine, number: int) -> None:
        self.machine = machine
        self.cuda_stream = number
        self.device = Device("cuda", 0)
        self.queue: Deque[Any] = deque()

    def wait_event(self, event: Event) -> None:
        if event.token is not None:
            self.queue.append(event.token)

    def wait_stream(self, other: Stream) -> None:
        self.wait_event(other.record_event())

    def record_event(self) -> Event:
        event = Event(self.machine)
        event.record(self)
        return event

    def synchronize(self) -> None:
        self.machine.no_wait_in_capture()
        self.machine.drain(lambda: not self.queue)


class Event:
    """As torch.cuda.Event."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.token: Optional[Token] = None

    def record(self, stream: Stream) -> None:
        token = self.token = Token()
        stream.queue.append(lambda: setattr(token, "done", True))

    def query(self) -> bool:
        self.machine.some_time_passes()
        return self.token is None or self.token.done

    def synchronize(self) -> None:
        token = self.token
        if token is not None:
            self.machine.drain(lambda: token.done)


class Device:
    """As torch.device."""

    def __init__(self, kind: str, index: Optional[int] = None) -> None:
        self.type, self.index = kind, index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"


class Graph:
    """As torch.cuda.CUDAGraph: what was put on the capturing stream, to be put on others again."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.work: List[Callable[[], None]] = []
        self.blocks: List[Block] = []
        self.broken = False
        self.pool: Any = None
        self.stream: Optional[Stream] = None
        self.under_way = 0
        self.is_reset = False

    def replay(self) -> None:
        assert not self.is_reset, "a graph that was given up is replayed"
        machine = self.machine
        stream = machine.current
        machine.log.append(("replay", self, stream))
        self.under_way += 1
        others = [each for each in machine.graphs if each.pool == self.pool and each.under_way and each is not self]
        assert all(each.on is stream for each in others), "two graphs of one pool on different streams"
        self.on = stream

        def ended() -> None:
            self.under_way -= 1

        stream.queue.extend(self.work)
        stream.queue.append(ended)

    def reset(self) -> None:
        assert not self.under_way, "a graph is given up while it runs"
        self.is_reset = True
        for block in self.blocks:
            block.values[:] = [POISON] * len(block.values)


class Machine:
    """The GPU, and the state of the one thread that works with it."""

    def __init__(self, seed: int = 0) -> None:
        self.lots = random.Random(seed)
        self.lock = threading.RLock()
        self.default = Stream(self, 0)
        self.streams = [self.default] + [Stream(self, number) for number in range(1, 33)]
        self.handed_out = 0
        self.current = self.default
        self.capturing: Optional[Graph] = None
        self.graphs: List[Graph] = []
        self.pools = 0
        self.random_held = False
        """By a capture that has not ended well: `torch.rand` would fail."""
        self.sync_mode = 0
        self.casts_cached = True
        self.no_grad = 0
        self.workspaces_cleared = 0
        self.caches_emptied = 0
        self.log: List[Tuple[Any, ...]] = []
        self.lame = self.lots.choice([None] + self.streams[:8])
        """A stream that is only worked on when nothing else is left."""

    # Work -----------------------------------------------------------------------------------------------------

    def put(self, work: Callable[[], None]) -> None:
        if self.capturing is not None:
            assert self.current is self.capturing.stream, "work on another stream during a capture"
            self.capturing.work.append(work)
        else:
            self.current.queue.append(work)

    def step(self) -> bool:
        ready = [
            each
            for each in self.streams
            if each.queue and not (isinstance(each.queue[0], Token) and not each.queue[0].done)
        ]
        if not ready:
            return False
        if len(ready) > 1 and self.lame in ready:
            ready.remove(self.lame)
        head = self.lots.choice(ready).queue.popleft()
        if not isinstance(head, Token):
            head()
        return True

    def some_time_passes(self) -> None:
        with self.lock:
            for _ in range(self.lots.randrange(6)):
                self.step()

    def drain(self, until: Callable[[], bool]) -> None:
        with self.lock:
            while not until():
                assert self.step(), "waits for something that never comes"

    def no_wait_in_capture(self) -> None:
        if self.capturing is not None:
            self.capturing.broken = True
            raise RuntimeError("operation not permitted when stream is capturing\nCUDA kernel errors might be …")

    def waited(self) -> None:
        """The host has asked for a number."""
        self.no_wait_in_capture()
        if self.sync_mode == 1:
            warnings.warn("called a synchronizing CUDA operation", UserWarning, stacklevel=3)
        self.current.synchronize()

    # Memory ---------------------------------------------------------------------------------------------------

    def allocate(self, count: int, on_gpu: bool) -> Handle:
        block = Block(count, self.current if on_gpu else None, self.capturing is not None)
        if self.capturing is not None:
            self.capturing.blocks.append(block)
        return Handle(self, block)

    def freed(self, block: Block, used_on: List[Stream]) -> None:
        owner = block.owner
        assert owner is not None
        for stream in used_on:
            if stream is not owner:
                owner.wait_event(stream.record_event())

        def poison() -> None:
            block.values[:] = [POISON] * len(block.values)

        owner.queue.append(poison)


class Tensor:
    """Rows of numbers. Arithmetic goes to the current stream if it is on the GPU."""

    machine: Machine

    def __init__(self, handle: Handle, offset: int, shape: Tuple[int, ...], dtype: str, device: Device) -> None:
        self.handle, self.offset, self.shape, self.dtype, self.device = handle, offset, shape, dtype, device

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    def _where(self) -> Tuple[Block, int, int]:
        return self.handle.block, self.offset, self.offset + math.prod(self.shape)

    def _make(self, shape: Tuple[int, ...], work: Callable[[List[float]], List[float]], *more: Any) -> Any:
        """A new tensor, worked out of this one and others on the current stream."""
        out = self._empty(shape)
        sources = [each._where() for each in (self, *more)]
        target = out.handle.block

        def run() -> None:
            target.values[:] = work(*[block.values[first:last] for block, first, last in sources])

        self.machine.put(run) if self.is_cuda else run()
        return out

    def _empty(self, shape: Tuple[int, ...]) -> Tensor:
        handle = self.machine.allocate(math.prod(shape), self.is_cuda)
        return type(self)(handle, 0, shape, self.dtype, self.device)

    def _each(self, work: Callable[..., float], other: Any = None) -> Any:
        if not isinstance(other, Tensor):
            return self._make(self.shape, lambda mine: [work(value, other) for value in mine])
        if math.prod(other.shape) == math.prod(self.shape):
            return self._make(self.shape, lambda mine, theirs: [work(a, b) for a, b in zip(mine, theirs)], other)
        width = math.prod(self.shape) // math.prod(other.shape)  # One number for each row.
        return self._make(
            self.shape, lambda mine, theirs: [work(a, theirs[i // width]) for i, a in enumerate(mine)], other
        )

    def __mul__(self, other: Any) -> Any:
        return self._each(lambda a, b: a * b, other)

    def __add__(self, other: Any) -> Any:
        return self._each(lambda a, b: a + b, other)

    def __sub__(self, other: Any) -> Any:
        return self._each(lambda a, b: a - b, other)

    def abs(self) -> Any:
        return self._each(lambda a, _: abs(a))

    def isnan(self) -> Any:
        return self._each(lambda a, _: float(math.isnan(a)))

    def nan_to_num(self) -> Any:
        return self._each(lambda a, _: 0.0 if math.isnan(a) else a)

    def double(self) -> Any:
        return self.clone()

    def clone(self) -> Any:
        return self._make(self.shape, lambda mine: mine)

    def detach(self) -> Any:
        return self

    def flip(self, _: Tuple[int, ...]) -> Any:
        return self._make(self.shape, lambda mine: mine[::-1])

    def max(self) -> Any:
        return self._make((), lambda mine: [max(mine)])

    def total(self) -> Any:
        """The sum of everything: an output without a batch."""
        return self._make((), lambda mine: [sum(mine)])

    def less_mean(self) -> Any:
        """Each number less the mean over the batch: items that see each other."""
        return self._make(self.shape, lambda mine: [a - sum(mine) / len(mine) for a in mine])

    def reshape(self, shape: Tuple[int, ...]) -> Any:
        return type(self)(self.handle, self.offset, shape, self.dtype, self.device)

    def __getitem__(self, rows: slice) -> Any:
        first, last, _ = rows.indices(self.shape[0])
        width = math.prod(self.shape[1:])
        shape = (max(0, last - first), *self.shape[1:])
        return type(self)(self.handle, self.offset + first * width, shape, self.dtype, self.device)

    def copy_(self, source: Any, non_blocking: bool = False) -> Any:
        assert self.shape[1:] == source.shape[1:] and source.shape[:1] in ((1,), self.shape[:1]), (
            self.shape,
            source.shape,
        )
        (target, start, end), (block, first, last) = self._where(), source._where()
        times = (end - start) // max(1, last - first)
        # What comes from pageable memory of the host is read at once.
        early = None if source.is_cuda else block.values[first:last]

        def run() -> None:
            target.values[start:end] = (block.values[first:last] if early is None else early) * times

        self.machine.log.append(("copy", self, self.machine.current))
        self.machine.put(run) if self.is_cuda else run()
        return self

    def to(self, device: Device, non_blocking: bool = False, copy: bool = False) -> Any:
        if device == self.device and not copy:
            return self
        handle = self.machine.allocate(math.prod(self.shape), device.type == "cuda")
        return type(self)(handle, 0, self.shape, self.dtype, device).copy_(self)

    def record_stream(self, stream: Stream) -> None:
        self.handle.used_on[stream.cuda_stream] = stream

    def item(self) -> float:
        if self.is_cuda:
            self.machine.waited()
        block, first, _ = self._where()
        return block.values[first]

    def tolist(self) -> List[float]:
        """Flat."""
        if self.is_cuda:
            self.machine.waited()
        block, first, last = self._where()
        return block.values[first:last]

    def fill(self, values: List[float]) -> Any:
        """Writes on the current stream."""
        block, first, last = self._where()

        def run() -> None:
            block.values[first:last] = values

        self.machine.put(run) if self.is_cuda else run()
        return self

    def data_ptr(self) -> int:
        return id(self.handle.block)

    def dim(self) -> int:
        return len(self.shape)

    def element_size(self) -> int:
        return SIZES[self.dtype]

    def is_floating_point(self) -> bool:
        return self.dtype.startswith("float")

    def is_complex(self) -> bool:
        return False

    def is_contiguous(self, memory_format: Any = None) -> bool:
        return True


def make_torch(seed: int = 0, available: bool = True) -> Any:
    """A `torch` on a machine of its own."""
    machine = Machine(seed)
    torch: Any = types.ModuleType("torch")
    torch.machine = machine
    torch.Tensor = type("Tensor", (Tensor,), {"machine": machine})
    torch.device = Device
    torch.channels_last, torch.channels_last_3d = "channels last", "channels last 3d"
    torch._C = types.SimpleNamespace(_cuda_clearCublasWorkspaces=lambda: _count(machine, "workspaces_cleared"))
    torch.is_autocast_cache_enabled = lambda: machine.casts_cached
    torch.set_autocast_cache_enabled = lambda on: setattr(machine, "casts_cached", on)
    torch.clear_autocast_cache = lambda: None

    def empty(shape: Tuple[int, ...], dtype: str = "float32", device: Any = None) -> Any:
        device = device or Device("cpu")
        return torch.Tensor(machine.allocate(math.prod(shape), device.type == "cuda"), 0, tuple(shape), dtype, device)

    def tensor(values: List[float], shape: Tuple[int, ...], dtype: str = "float32", gpu: bool = True) -> Any:
        return empty(shape, dtype, Device("cuda", 0) if gpu else Device("cpu")).fill(list(values))

    def equal(one: Any, other: Any) -> bool:
        return one.shape == other.shape and one.tolist() == other.tolist()

    def cat(parts: Any) -> Any:
        shape = (sum(part.shape[0] for part in parts), *parts[0].shape[1:])
        return parts[0]._make(shape, lambda *all_of: [value for each in all_of for value in each], *parts[1:])

    torch.empty, torch.tensor, torch.equal, torch.cat = empty, tensor, equal, cat
    torch.arange = lambda count, dtype, device: empty((count,), dtype, device).fill([float(n) for n in range(count)])

    @contextmanager
    def no_grad() -> Iterator[None]:
        machine.no_grad += 1
        try:
            yield
        finally:
            machine.no_grad -= 1

    torch.no_grad, torch.inference_mode = no_grad, lambda on: no_grad() if on else nullcontext()
    torch.cuda = _cuda(machine, available)
    return torch


def _count(machine: Machine, name: str) -> None:
    setattr(machine, name, getattr(machine, name) + 1)


def _cuda(machine: Machine, available: bool) -> Any:
    def stream(_: Any = None) -> Stream:
        machine.handed_out += 1
        return machine.streams[1 + (machine.handed_out - 1) % 32]

    def handle() -> Tuple[int, int]:
        machine.pools += 1
        return (0, machine.pools)

    def synchronize(_: Any = None) -> None:
        machine.no_wait_in_capture()
        machine.drain(lambda: not any(each.queue for each in machine.streams))

    def watch(mode: int) -> None:
        warnings.warn("Synchronization debug mode is a prototype feature and does not yet detect all …", stacklevel=2)
        machine.sync_mode = mode

    class capture:  # noqa: N801 - as torch calls it
        def __init__(self, graph: Graph, stream: Stream, capture_error_mode: str, pool: Any = None) -> None:
            self.graph, self.stream = graph, stream
            graph.pool, graph.stream = pool, stream

        def __enter__(self) -> None:
            synchronize()
            self.before, machine.current = machine.current, self.stream
            machine.capturing, machine.random_held = self.graph, True
            machine.graphs.append(self.graph)
            machine.log.append(("capture", self.graph, self.stream))

        def __exit__(self, *_: object) -> None:
            machine.capturing = None
            if self.graph.broken:  # As some versions do, the current stream is left behind.
                raise RuntimeError("operation failed due to a previous error during capture")
            machine.current, machine.random_held = self.before, False

    return types.SimpleNamespace(
        is_available=lambda: available,
        current_device=lambda: 0,
        device_count=lambda: 1,
        current_stream=lambda _=None: machine.current,
        set_stream=lambda wanted: setattr(machine, "current", wanted),
        Stream=stream,
        Event=lambda blocking=False: Event(machine),
        CUDAGraph=lambda: Graph(machine),
        graph=capture,
        graph_pool_handle=handle,
        synchronize=synchronize,
        empty_cache=lambda: _count(machine, "caches_emptied"),
        get_sync_debug_mode=lambda: machine.sync_mode,
        set_sync_debug_mode=watch,
    )
