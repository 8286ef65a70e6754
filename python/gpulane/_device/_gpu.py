"""Batches on a GPU, whichever library the model uses: the ring is pinned, copies and finishing run on a stream of
their own while the model works on an earlier batch."""

from __future__ import annotations

import ctypes
import os
import sys
from itertools import chain
from typing import Any, Dict, List, Optional, Tuple

from .._batches import Decode, Library, Ready, arrange, listed
from .._ring import ENTRY, JPEG, Batch, Entry, Ring
from ._cuda import Driver, Event
from ._early import take
from ._finish import DECODED, Finisher
from ._nvjpeg import NvJpeg
from ._probe import JPEG as PROBE
from ._probe import is_right
from ._rescue import pixels_of

__all__ = ["Buffer", "Gpu", "GpuReady"]

LEAST_PINNED = 32 << 20
"""Bytes of a slot that are pinned at least: a few calls of the driver, and little memory where little is used."""

MASK = (1 << 64) - 1


class Buffer:
    """Memory of the GPU."""

    def __init__(self, owner: Any, address: int) -> None:
        self.owner = owner
        """What keeps it: an array of the model's library."""
        self.address = address


class GpuReady(Ready):
    """A batch on the GPU, or on its way there."""

    def __init__(self, gpu: Gpu, begun: Event, given: Any, to_device: int) -> None:
        super().__init__(given, to_device=to_device)
        self._gpu = gpu
        self._copying = begun
        self._copied = Event(gpu.driver)
        self._copied.record(gpu.stream)
        self._begun, self._ended = Event(gpu.driver), Event(gpu.driver)
        self.kept: List[Any] = []
        """What the GPU may still be reading."""

    def begin(self) -> None:
        stream = self._gpu.compute_stream()
        self._gpu.driver.wait_for(self._copied, stream)
        self._gpu.hand_over(self.given)
        self._begun.record(stream)

    def end(self) -> None:
        self._ended.record(self._gpu.compute_stream())

    def seconds(self) -> Optional[Tuple[float, float]]:
        self._gpu.driver.enter()
        self._copied.wait()
        self._ended.wait()
        return self._copied.seconds_since(self._copying), self._ended.seconds_since(self._begun)


class Gpu:
    """What torch and CuPy have in common; they say how memory is had and what arrays look like."""

    name = "none"
    prefetches = True

    def __init__(self) -> None:
        self.driver = Driver()
        self.device = self.driver.name()
        self.stream = 0
        """The handle of the stream for copies and finishing; set by who derives from this."""
        self._total = self.driver.total_memory()
        self._finisher: Optional[Finisher] = None
        self._decoder: Optional[NvJpeg] = None
        self._registered: Dict[int, int] = {}
        """How much of each slot is pinned, from its beginning on, by the slot's address."""
        self._said = False

    # What a library provides.

    def allocate(self, size: int) -> Buffer:
        """Memory whose reuse is in the order of the copy stream."""
        raise NotImplementedError

    def library(self, memory: Buffer, origin: int) -> Library:
        """Makes arrays over memory that holds a slot's bytes from `origin` on."""
        raise NotImplementedError

    def compute_stream(self) -> int:
        """The handle of the stream the model uses now."""
        raise NotImplementedError

    def hand_over(self, given: Any) -> None:
        """From now on the model's stream uses this too."""

    def read(self, memory: Buffer, size: int) -> bytes:
        """Fetches bytes, waiting for the copy stream."""
        raise NotImplementedError

    def free(self) -> None:
        """Gives back memory kept for later."""

    def peak(self) -> int:
        """The most memory the library had."""
        return 0

    # What is the same for all.

    def accepts(self, decode: Optional[str]) -> Tuple[str, ...]:
        """What this worker can finish itself. Nothing is compiled for models that take no pictures."""
        asked = os.environ.get("GPULANE_FINISH", "auto")
        if asked == "cpu" or (decode is not None and not Decode.parse(decode).is_finished_by_workers):
            return ()
        if self._finisher is None:
            self._make(with_decoder=asked != "planes")
        if self._finisher is None:
            return ()
        return ("planes", "jpeg") if self._decoder is not None and asked != "planes" else ("planes",)

    def _make(self, with_decoder: bool) -> None:
        """Takes what was made meanwhile, if it can be trusted."""
        early = take(with_decoder)
        if not early.code:
            return
        self._finisher = Finisher(self.driver, early.code[0])
        others = NvJpeg.candidates(self.driver) if with_decoder else iter(())
        for one in chain([early.decoder] if early.decoder is not None else [], others):
            if self._is_trusted(one):
                self._decoder = one
                return

    @property
    def decoder(self) -> str:
        """How JPEGs are decoded here, for a person."""
        return self._decoder.backend if self._decoder is not None else "none"

    def _is_trusted(self, decoder: NvJpeg) -> bool:
        """Whether a decoder gets a small JPEG right."""
        held = ctypes.create_string_buffer(PROBE, len(PROBE))
        entry = ENTRY.pack(0, 0, len(PROBE), JPEG, 1, 1, 0, 0, 96, 128, 0, 0, 0, 0)
        try:
            decode = Decode("rgb", (64, 48), "stretch")
            planes = decoder.decode([(ctypes.addressof(held), len(PROBE))], self.allocate, self.stream)
            out = self.allocate(64 * 48 * 3)
            self._launch((_address(entry), len(entry)), 0, planes.records, out, 1, decode)
            return not planes.refused and is_right(self.read(out, 64 * 48 * 3), 64, 48)
        except RuntimeError:
            return False

    def open(self, ring: Ring) -> None:
        """Begins with a ring. Its slots are pinned when they are first used, and as far as they are: pinning
        gets all of the memory, which takes a second for some GiB."""
        self.driver.enter()
        self.decode = Decode.parse(ring.decode)

    def _pin(self, batch: Batch) -> None:
        """Pins a batch's slot up to the end of its data, in one piece, so that no copy crosses from one to the next.
        Whatever was copied from this slot before is done: it was given back in between."""
        address, pinned = batch.address, self._registered.get(batch.address, 0)
        if batch.data_end <= pinned:
            return
        most = batch.ring.slot_bytes
        wanted = min(most, max(LEAST_PINNED, 1 << (batch.data_end - 1).bit_length()))
        if pinned:
            self.driver.unregister(address)
        why = self.driver.register(address, wanted)
        # Where it cannot be pinned it is not tried again with every batch.
        self._registered[address] = wanted if why is None else most
        if why is not None and not self._said:
            self._said = True
            print(f"gpulane: the ring cannot be pinned ({why}); copies to the GPU are slower", file=sys.stderr)

    def close(self) -> None:
        """Done with the ring."""
        self.driver.enter()
        try:
            self.driver.call("cuCtxSynchronize")
        except RuntimeError:
            pass  # The context is broken, and the process about to end.
        for address in self._registered:
            self.driver.unregister(address)
        self._registered = {}

    def is_broken(self) -> bool:
        """Whether the GPU can no longer be used by this process."""
        return self.driver.is_broken()

    def memory(self) -> Optional[Dict[str, int]]:
        """GPU memory: what this process had at most, and what there is."""
        return {"peak": self.peak(), "total": self._total}

    def prepare(self, batch: Batch, start: int, end: int) -> Ready:
        """Has the items from `start` to `end` copied to the GPU, and finished there if they need it."""
        given = listed(batch, start, end, self.decode)
        if given is not None:
            return Ready(given, on_host=sum(map(len, given)) if self.decode.kind == "bytes" else 0)
        self.driver.enter()
        self._pin(batch)
        begun = Event(self.driver)
        begun.record(self.stream)
        if self.decode.is_finished_by_workers and not batch.packed:
            return self._finished(batch, start, end, begun)
        origin, size = self._range(batch, start, end)
        memory = self.allocate(max(size, 1))
        self.driver.to_device(memory.address, batch.address + origin, size, self.stream)
        arrays, _ = arrange(batch, start, end, self.decode, self.library(memory, origin))
        return GpuReady(self, begun, arrays, size)

    def _range(self, batch: Batch, start: int, end: int) -> Tuple[int, int]:
        """Where the items' data lie in the slot: offset and bytes."""
        if (start, end) == (0, batch.count):
            return batch.data, batch.data_end - batch.data
        places = list(batch.places(start, end))
        first = min(offset for offset, _ in places)
        return first, max(offset + size for offset, size in places) - first

    def _finished(self, batch: Batch, start: int, end: int, begun: Event) -> Ready:
        assert self.decode.size is not None
        count, (width, height) = end - start, self.decode.size
        size = width * height * self.decode.channels
        out = self.allocate(count * size)
        entries = batch.entries(start, end)
        jpegs = [at for at, entry in enumerate(entries) if entry.kind == JPEG]
        records, planes = b"", None
        rescued: Dict[int, Any] = {}
        if jpegs:
            records, rescued, planes = self._decoded(batch, entries, jpegs)
        # What nvJPEG takes it reads from the ring by itself: nothing else may be left to copy.
        origin, length = (0, 0) if len(jpegs) == count else self._range(batch, start, end)
        memory = self.allocate(max(length, 1))
        self.driver.to_device(memory.address, batch.address + origin, length, self.stream)
        table = batch.address + (batch.first + start) * ENTRY.size
        kept = self._launch((table, count * ENTRY.size), memory.address - origin, records, out, count, self.decode)
        channels = self.decode.channels
        shape = (count, height, width) if channels == 1 else (count, height, width, channels)
        library = self.library(out, 0)
        given = library.images(library.view(0, 1, shape))
        failed, more = self._rescue(rescued, out, size)
        copied = length + sum(entries[at].bytes for at in jpegs) if len(jpegs) == count else length
        ready = GpuReady(self, begun, given, copied)
        ready.failed = failed
        ready.kept = [kept, more, planes]
        return ready

    def _decoded(self, batch: Batch, entries: List[Entry], jpegs: List[int]) -> Tuple[bytes, Dict[int, Any], Any]:
        """The records of all entries, those that must be decoded otherwise, and what keeps the pixels."""
        if self._decoder is None:
            raise ValueError("an encoded JPEG, which this worker did not say it takes")
        sources = [(batch.address + entries[at].offset, entries[at].bytes) for at in jpegs]
        planes = self._decoder.decode(sources, self.allocate, self.stream)
        step, empty = DECODED.size, bytes(DECODED.size)
        by_place = {at: planes.records[n * step : (n + 1) * step] for n, at in enumerate(jpegs)}
        records = b"".join(by_place.get(at, empty) for at in range(len(entries)))
        rescued: Dict[int, Any] = {}
        for number, why in planes.refused.items():
            entry = entries[jpegs[number]]
            rescued[jpegs[number]] = (bytes(batch.memory[entry.offset : entry.offset + entry.bytes]), why)
        return records, rescued, planes

    def _rescue(self, rescued: Dict[int, Any], out: Buffer, size: int) -> Tuple[Dict[int, str], List[Any]]:
        """Decodes on the CPU what the GPU would not: those nobody can, and why; and what the copies are made from."""
        failed: Dict[int, str] = {}
        kept: List[Any] = []
        for at, (data, why) in rescued.items():
            pixels = pixels_of(data, self.decode)
            if isinstance(pixels, bytes):
                kept.append(pixels)
                self.driver.to_device(out.address + at * size, _address(pixels), len(pixels), self.stream)
            else:
                failed[at] = f"the GPU decoder refuses this JPEG ({why}), {pixels}"
        return failed, kept

    def _launch(
        self, table: Tuple[int, int], base: int, records: bytes, out: Buffer, count: int, decode: Decode
    ) -> List[Any]:
        """Has pictures finished; `table`: where the entries lie and their bytes. What must be kept until it is done."""
        assert self._finisher is not None
        both = self.allocate(table[1] + len(records))
        self.driver.to_device(both.address, table[0], table[1], self.stream)
        self.driver.to_device(both.address + table[1], _address(records), len(records), self.stream)
        decoded = both.address + table[1] if records else 0
        self._finisher.launch(both.address, base & MASK, decoded, out.address, count, decode, self.stream)
        return [both, records]


def _address(data: bytes) -> int:
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0
