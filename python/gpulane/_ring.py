"""The ring: shared memory with slots, each a table of entries, their data and their names. Read here, never written,
but by a loader into the room it is given."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence, Tuple, Union, overload

__all__ = ["ARRAY", "BYTES", "Batch", "ELEMENTS", "Entry", "JPEG", "Names", "PLANES", "Ring", "TEXT"]

ARRAY, PLANES, JPEG, BYTES, TEXT = 1, 2, 3, 4, 5

ENTRY = struct.Struct("<QQQBBBBI4III8x")
PLACE = struct.Struct("<8xQQ40x")
NAME = struct.Struct("<II")
NAME_AT = 48
MEMBERS_AT = 56
LENGTHS = struct.Struct("<II")

ELEMENTS: Dict[int, Tuple[str, int, str]] = {
    1: ("u8", 1, "B"),
    2: ("u16", 2, "H"),
    3: ("i16", 2, "h"),
    4: ("u32", 4, "I"),
    5: ("i32", 4, "i"),
    6: ("f32", 4, "f"),
    7: ("f64", 8, "d"),
    8: ("bool", 1, "?"),
    9: ("i64", 8, "q"),
    10: ("u64", 8, "Q"),
    11: ("f16", 2, "e"),
    12: ("i8", 1, "b"),
}
"""Element types by their number: name, bytes, and the letter `struct` and `memoryview` know them by."""


class Entry(NamedTuple):
    """One row of a slot's table."""

    item: int
    offset: int
    bytes: int
    kind: int
    element: int
    orientation: int
    chroma: int
    ndim: int
    dims: Tuple[int, int, int, int]

    @property
    def shape(self) -> Tuple[int, ...]:
        """The shape of an array."""
        return self.dims[: min(self.ndim, 4)]


class Ring:
    """This process's view of the shared memory."""

    def __init__(self, fd: int, head: Dict[str, Any]) -> None:
        self.slots = int(head["slots"])
        self.slot_bytes = int(head["slot_bytes"])
        self.capacity = int(head["capacity"])
        self.decode = str(head["decode"])
        self.nan_fails = head.get("nan") == "fail"
        self.has_members = bool(head.get("members"))
        """Members of samples come with items."""
        try:
            self.bytes = self.slots * self.slot_bytes
            if os.fstat(fd).st_size < self.bytes:
                raise ValueError(f"the ring has {os.fstat(fd).st_size} bytes, not {self.bytes}")
            self._map = mmap.mmap(fd, self.bytes, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        finally:
            os.close(fd)
        self.memory = memoryview(self._map)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))

    def slot(self, number: int) -> memoryview:
        """The bytes of one slot."""
        if not 0 <= number < self.slots:
            raise ValueError(f"slot {number} of {self.slots}")
        return self.memory[number * self.slot_bytes : (number + 1) * self.slot_bytes]

    def close(self) -> None:
        """Gives the mapping back; where a model kept a view of it, that stays valid and so does the mapping."""
        try:
            self.memory.release()
            self._map.close()
        except BufferError:
            pass


class Batch:
    """Entries of a slot to work on."""

    def __init__(self, ring: Ring, head: Dict[str, Any]) -> None:
        self.ring = ring
        self.id = int(head["batch"])
        self.slot = int(head["slot"])
        self.first = int(head["first"])
        self.count = int(head["count"])
        self.packed = bool(head["packed"])
        self.data = int(head["data"])
        self.data_end = int(head["data_end"])
        self.careful = bool(head.get("careful", False))
        if not 0 <= self.first <= self.first + self.count <= ring.capacity:
            raise ValueError(f"entries {self.first} and {self.count} more of a table of {ring.capacity}")
        if not 0 <= self.data <= self.data_end <= ring.slot_bytes:
            raise ValueError(f"data from {self.data} to {self.data_end} of a slot of {ring.slot_bytes} bytes")
        self.memory = ring.slot(self.slot)
        self.address = ring.address + self.slot * ring.slot_bytes

    def table(self, start: int, end: int) -> memoryview:
        """The table's rows of the items from `start` to `end`."""
        return self.memory[(self.first + start) * ENTRY.size : (self.first + end) * ENTRY.size]

    def entries(self, start: int, end: int) -> List[Entry]:
        """The same, taken apart."""
        return [Entry._make((*row[:8], row[8:12])) for row in ENTRY.iter_unpack(self.table(start, end))]

    def places(self, start: int, end: int) -> Iterator[Tuple[int, int]]:
        """Offset and length of the items' data: all that bytes and texts need, and quicker to get."""
        return PLACE.iter_unpack(self.table(start, end))

    def names(self, start: int, end: int) -> Names:
        """The items' names."""
        return Names(self.memory, self.first + start, end - start)

    def samples(self, start: int, end: int) -> List[Dict[str, bytes]]:
        """Copies of the members that came with the items, by extension."""
        samples = []
        for row in range(self.first + start, self.first + end):
            offset, length = NAME.unpack_from(self.memory, row * ENTRY.size + MEMBERS_AT)
            samples.append(_taken_apart(self.memory[offset : offset + length]))
        return samples


def _taken_apart(block: memoryview) -> Dict[str, bytes]:
    """The members in their block of a slot."""
    members, at = {}, 0
    while at < len(block):
        extension, data = LENGTHS.unpack_from(block, at)
        begin = at + LENGTHS.size + extension
        at = begin + data
        if at > len(block):
            raise ValueError(f"members of {at} bytes in a block of {len(block)}")
        members[str(block[begin - extension : begin], "utf-8")] = bytes(block[begin:at])
    return members


class Names(Sequence[str]):
    """Names of items, read when asked for. Valid during the call of `predict_batch` they were given for."""

    def __init__(self, memory: memoryview, first: int, count: int) -> None:
        self._memory = memory
        self._first = first
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> str: ...

    @overload
    def __getitem__(self, at: slice) -> List[str]: ...

    def __getitem__(self, at: Union[int, slice]) -> Union[str, List[str]]:
        if isinstance(at, slice):
            return [self[index] for index in range(*at.indices(self._count))]
        if not -self._count <= at < self._count:
            raise IndexError(at)
        row = (self._first + at % self._count) * ENTRY.size
        offset, length = NAME.unpack_from(self._memory, row + NAME_AT)
        return str(self._memory[offset : offset + length], "utf-8", "replace")

    def __repr__(self) -> str:
        return repr(list(self))
