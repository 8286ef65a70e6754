"""Arrays of NumPy, CuPy, torch and kin as bytes of the host, without importing any of them: who has an array has
imported its library. Device arrays are fetched without waiting."""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Set, Tuple

from ._plain import NARROW_FLOATS

__all__ = ["ArrayError", "Fetched", "Fetching", "fetch", "is_array", "joined", "of_one_type", "rows", "stacked"]

ELEMENT_OF = {
    "float32": "f32",
    "float64": "f64",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "bool": "bool",
}
AS_WIDE = {"float16": "float32", "int4": "int8", "int2": "int8", "uint4": "uint8", "uint2": "uint8"}
"""Types that results do not have, and those that hold all they hold."""


class ArrayError(TypeError):
    """An array that cannot be a result."""


class Fetched(NamedTuple):
    """An array in this process's memory."""

    element: str
    shape: Tuple[int, ...]
    data: Any
    """Its elements in C order, as a buffer of bytes."""
    nulls: Sequence[int] = ()
    """Rows that are None, whatever their elements are."""
    lengths: Optional[Sequence[int]] = None
    """Elements of each row, where they differ: `data` is all of them, one after the other."""


class Fetching:
    """An array on its way."""

    def __init__(self, fetched: Fetched, wait: Optional[Callable[[], None]] = None) -> None:
        self._fetched = fetched
        self._wait = wait

    @property
    def pending(self) -> bool:
        """Whether it may still be on its way."""
        return self._wait is not None

    def beside(self, nulls: Sequence[int]) -> Fetching:
        """The same, but these rows are None."""
        return Fetching(self._fetched._replace(nulls=nulls), self._wait)

    def in_lists(self, lengths: Sequence[int], nulls: Sequence[int]) -> Fetching:
        """The same as lists of these lengths; those of these rows are None."""
        return Fetching(self._fetched._replace(lengths=lengths, nulls=nulls), self._wait)

    def get(self) -> Fetched:
        """The array; waits until it is here."""
        if self._wait is not None:
            self._wait()
            self._wait = None
        return self._fetched


def is_array(value: Any) -> bool:
    """Whether it is an array or tensor (also of no dimensions), rather than a number or a list."""
    return hasattr(value, "shape") and hasattr(value, "dtype") and hasattr(value, "__getitem__")


def fetch(value: Any) -> Fetching:
    """Starts to fetch an array."""
    library = _library(value)
    if library == "torch":
        return _fetch_torch(sys.modules["torch"], value)
    if library == "cupy":
        return _fetch_cupy(sys.modules["cupy"], value)
    numpy = sys.modules.get("numpy")
    if numpy is None:
        raise ArrayError(f"an array of {library} needs NumPy to be read")
    if _is_masked(value):
        raise ArrayError("a masked array has no value in some places")
    if library == "pandas" and not isinstance(value.dtype, numpy.dtype):
        raise ArrayError(f"{value.dtype} is none of NumPy's types, and may have no value in some places")
    return Fetching(_from_numpy(numpy.asarray(value)))


def stacked(values: List[Any]) -> Any:
    """Arrays of one kind, shape and type as one; nothing if they differ."""
    first = values[0]
    library = sys.modules.get(_library(first))
    if library is None or not hasattr(library, "stack"):
        return None
    like = (first.shape, first.dtype)
    if any((value.shape, value.dtype) != like or _is_masked(value) for value in values):
        return None
    return library.stack(values)


def of_one_type(values: List[Any]) -> List[Any]:
    """Arrays of the types of one library as arrays of the type that holds all of them, if that follows from the types
    alone; otherwise as they are. The feeder would come to the same type if they came one by one."""
    if len({str(value.dtype) for value in values}) == 1 or len(set(map(_library, values))) > 1:
        return values
    wide = _common({str(value.dtype).rpartition(".")[2] for value in values})
    if wide is None:
        return values
    if hasattr(values[0], "astype"):
        return [value.astype(wide) for value in values]
    dtype = getattr(sys.modules.get(_library(values[0])), wide, None)
    return values if dtype is None else [value.to(dtype) for value in values]


def _common(names: Set[str]) -> Optional[str]:
    """The type that holds all of these; nothing where that depends on the values, or none does."""
    names = {"float32" if name.startswith(NARROW_FLOATS) else AS_WIDE.get(name, name) for name in names}
    if names <= {"float32", "float64"}:
        return "float64" if "float64" in names else "float32"
    if not names <= set(ELEMENT_OF):
        return None
    signed = [int(name[3:]) for name in names if name.startswith("int")]
    unsigned = [int(name[4:]) for name in names if name.startswith("uint")]
    if len(signed) + len(unsigned) < len(names) or (signed and 64 in unsigned):
        return None
    return f"int{max([*signed, *(2 * bits for bits in unsigned)])}" if signed else f"uint{max(unsigned)}"


def joined(values: List[Any]) -> Any:
    """Arrays with one side, of one kind and type, one after the other; nothing if they are not that."""
    first = values[0]
    library = sys.modules.get(_library(first))
    join = getattr(library, "cat", None) or getattr(library, "concatenate", None)
    if join is None or len(first.shape) != 1:
        return None
    if any(len(value.shape) != 1 or value.dtype != first.dtype or _is_masked(value) for value in values):
        return None
    return join(values)


def _is_masked(value: Any) -> bool:
    """Whether it is an array of NumPy's in which some places may have no value."""
    masked = sys.modules.get("numpy.ma")
    return masked is not None and isinstance(value, masked.MaskedArray)


def rows(value: Any) -> List[Any]:
    """An array's rows as arrays of the host."""
    library = _library(value)
    if library == "torch":
        return list(value.detach().cpu())
    if library == "cupy":
        return list(value.get())
    return list(value)


def _library(value: Any) -> str:
    return type(value).__module__.partition(".")[0]


def _fetch_torch(torch: Any, value: Any) -> Fetching:
    value = value.detach()
    if value.layout != torch.strided:
        value = value.to_dense()
    if value.is_floating_point() and value.element_size() < 4:
        value = value.float()
    if getattr(value, "is_neg", bool)():
        # A view whose memory has the other sign.
        value = value.resolve_neg()
    element = _element(str(value.dtype).rpartition(".")[2])
    value = value.contiguous()
    if not value.is_cuda:
        return Fetching(Fetched(element, tuple(value.shape), bytes(_memory(value.cpu()))))
    host = torch.empty(value.shape, dtype=value.dtype, pin_memory=True)
    # On the stream that made it: a replayed graph overwrites its outputs, but not before this copy.
    host.copy_(value, non_blocking=True)
    event = torch.cuda.Event()
    event.record()
    return Fetching(Fetched(element, tuple(value.shape), _memory(host)), event.synchronize)


def _memory(tensor: Any) -> Any:
    """A host tensor's bytes, without a copy; keeps the tensor alive."""
    view = (ctypes.c_char * (tensor.numel() * tensor.element_size())).from_address(tensor.data_ptr() or 1)
    view.owner = tensor
    return view


def _fetch_cupy(cupy: Any, value: Any) -> Fetching:
    if value.dtype.name == "float16":
        value = value.astype("float32")
    element = _element(value.dtype.name)
    value = cupy.ascontiguousarray(value)
    stream = cupy.cuda.get_current_stream()
    memory = cupy.cuda.alloc_pinned_memory(max(value.nbytes, 1))
    host = sys.modules["numpy"].frombuffer(memory, value.dtype, value.size).reshape(value.shape)
    value.get(stream=stream, out=host, blocking=False)
    event = cupy.cuda.Event(block=True, disable_timing=True)
    event.record(stream)

    def wait(_alive: Any = value) -> None:
        event.synchronize()

    return Fetching(Fetched(element, tuple(value.shape), memoryview(host.reshape(-1)).cast("B")), wait)


def _from_numpy(value: Any) -> Fetched:
    name = value.dtype.name
    wide = "float32" if name.startswith(NARROW_FLOATS) else AS_WIDE.get(name)
    if wide is not None:
        value = value.astype(wide)
    element = _element(value.dtype.name)
    if not value.dtype.isnative:
        value = value.astype(value.dtype.newbyteorder("="))
    return Fetched(element, tuple(value.shape), value.tobytes())


def _element(name: str) -> str:
    element = ELEMENT_OF.get(name)
    if element is None:
        raise ArrayError(f"an array of {name} cannot be a result; return real numbers or bools")
    return element
