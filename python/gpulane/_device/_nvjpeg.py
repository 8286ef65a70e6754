"""JPEGs decoded on the GPU, by NVIDIA's nvJPEG through ctypes: by its hardware engines where they can be had."""

from __future__ import annotations

import ctypes
import os
from collections import deque
from ctypes import Structure, byref, c_int, c_size_t, c_uint, c_void_p
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Tuple

from ._cuda import Driver, Event
from ._finish import DECODED
from ._libraries import find

__all__ = ["NvJpeg", "Planes"]

GPU_HYBRID, HARDWARE = 2, 3
BACKENDS = {"hardware": HARDWARE, "hybrid": GPU_HYBRID}
OUTPUT_YUV = 1
CHROMA_OF = {0: 0, 1: 1, 2: 2, 3: 4, 6: 3}
"""The ring's numbers for nvJPEG's: 4:4:4, 4:2:2, 4:2:0, 4:4:0 and gray."""

ALIGNED = 256
Sources = List[Tuple[int, int]]
"""JPEGs in host memory: addresses and lengths."""

AT_ONCE = {"hardware": 32, "hybrid": 128}
"""JPEGs decoded by one call: enough to keep all engines busy; for the other, enough to be worth its effort."""


class Image(Structure):
    """`nvjpegImage_t`."""

    _fields_ = [("channel", c_void_p * 4), ("pitch", c_size_t * 4)]


class Planes(NamedTuple):
    """Decoded JPEGs on the GPU."""

    records: bytes
    """One `DECODED` for each."""
    memory: Any
    """What they lie in; kept until they were used."""
    refused: Dict[int, str]
    """Those nvJPEG cannot decode, and why."""


class NvJpeg:
    """One decoder, used by one thread at a time."""

    def __init__(self, driver: Driver, library: ctypes.CDLL, backend: str) -> None:
        self.backend = backend
        self._at_once = AT_ONCE[backend]
        self._library = library
        # For calls of a few microseconds that are made for every picture: to let go of the interpreter and wait for it
        # again would take longer than they do.
        self._quick = ctypes.PyDLL(library._name)
        self._handle = c_void_p()
        self._call("nvjpegCreateEx", c_int(BACKENDS[backend]), None, None, c_uint(0), byref(self._handle))
        self._states = deque(self._state(driver) for _ in range(2))
        self._components, self._chroma = c_int(), c_int()
        self._widths, self._heights = (c_int * 4)(), (c_int * 4)()

    def _state(self, driver: Driver) -> Tuple[c_void_p, Event]:
        """What a call works with, and when the GPU is done with it: until then it must not be used again."""
        state = c_void_p()
        self._call("nvjpegJpegStateCreate", self._handle, byref(state))
        numbers = (c_int(self._at_once), c_int(1), c_int(OUTPUT_YUV))
        self._call("nvjpegDecodeBatchedInitialize", self._handle, state, *numbers)
        return state, Event(driver)

    @classmethod
    def candidates(cls, driver: Driver) -> Iterator[NvJpeg]:
        """Decoders that can be made, the best first; made when asked for, since that takes time and memory."""
        library = find("nvjpeg")
        asked = os.environ.get("GPULANE_NVJPEG")
        for backend in BACKENDS if library is not None else ():
            if asked in (None, "", "auto", backend):
                try:
                    yield cls(driver, library, backend)  # type: ignore[arg-type]
                except RuntimeError:
                    continue  # No such engine on this GPU.

    def decode(self, sources: Sources, allocate: Callable[[int], Any], stream: int) -> Planes:
        """Decodes JPEGs, each an address in host memory and a length, on the stream."""
        count = len(sources)
        images = (Image * count)()
        refused: Dict[int, str] = {}
        layouts, total = [], 0
        for at, (address, length) in enumerate(sources):
            layout = self._layout(address, length, total)
            if isinstance(layout, str):
                refused[at] = layout
                layout = None
            else:
                total = layout[-1]
            layouts.append(layout)
        memory = allocate(max(total, 1))
        records = []
        for at, layout in enumerate(layouts):
            if layout is None:
                records.append(bytes(DECODED.size))
                continue
            records.append(self._place(images[at], layout, memory.address))
        usable = [at for at in range(count) if at not in refused]
        self._run([sources[at] for at in usable], [images[at] for at in usable], usable, refused, stream)
        for at in refused:
            records[at] = bytes(DECODED.size)
        return Planes(b"".join(records), memory, refused)

    def _layout(self, address: int, length: int, start: int) -> Any:
        """Sizes and offsets of the planes, or why not."""
        code = self._quick.nvjpegGetImageInfo(
            self._handle, c_void_p(address), c_size_t(length),
            byref(self._components), byref(self._chroma), self._widths, self._heights,
        )  # fmt: skip
        chroma = CHROMA_OF.get(self._chroma.value)
        if code or chroma is None:
            return f"nvJPEG says {code}" if code else f"chroma subsampling {self._chroma.value}"
        width, height = self._widths[0], self._heights[0]
        c_width, c_height = (self._widths[1], self._heights[1]) if chroma != 3 else (0, 0)
        y_pitch, c_pitch = _aligned(width, 64), _aligned(c_width, 64)
        cb = _aligned(start + y_pitch * _aligned(height, 16), ALIGNED)
        cr = _aligned(cb + c_pitch * _aligned(c_height, 16), ALIGNED)
        end = _aligned(cr + c_pitch * _aligned(c_height, 16), ALIGNED)
        return start, cb, cr, y_pitch, c_pitch, height, width, c_height, c_width, chroma, end

    def _place(self, image: Image, layout: Tuple[int, ...], base: int) -> bytes:
        y, cb, cr, y_pitch, c_pitch, height, width, c_height, c_width, chroma, _ = layout
        image.channel[0], image.pitch[0] = base + y, y_pitch
        if chroma != 3:
            image.channel[1], image.channel[2] = base + cb, base + cr
            image.pitch[1] = image.pitch[2] = c_pitch
        return DECODED.pack(
            base + y, base + cb, base + cr, y_pitch, c_pitch, height, width, c_height, c_width, chroma, 1
        )

    def _run(
        self, sources: Sources, images: List[Image], numbers: List[int], refused: Dict[int, str], stream: int
    ) -> None:
        """Some at once; if that fails, each of them alone, to find out which it is."""
        for start in range(0, len(sources), self._at_once):
            part = slice(start, start + self._at_once)
            try:
                self._batch(sources[part], images[part], stream)
            except RuntimeError:
                for number, source, image in zip(numbers[part], sources[part], images[part]):
                    try:
                        self._batch([source], [image], stream)
                    except RuntimeError as why:
                        refused[number] = str(why)

    def _batch(self, sources: Sources, images: List[Image], stream: int) -> None:
        """Always the same number, so that no state is ever made ready anew: a worker that did so while the GPU was busy
        once stood still. Where there are fewer, the last is decoded again, to the same place."""
        missing = self._at_once - len(sources)
        data = (c_void_p * self._at_once)(*[source[0] for source in sources], *[sources[-1][0]] * missing)
        lengths = (c_size_t * self._at_once)(*[source[1] for source in sources], *[sources[-1][1]] * missing)
        targets = (Image * self._at_once)(*images, *[images[-1]] * missing)
        state, used = self._states[0]
        self._states.rotate()
        used.wait()
        self._call("nvjpegDecodeBatched", self._handle, state, data, lengths, targets, c_void_p(stream))
        used.record(stream)

    def _call(self, name: str, *args: Any) -> None:
        code = getattr(self._library, name)(*args)
        if code:
            raise RuntimeError(f"{name} says {code}")


def _aligned(value: int, to: int) -> int:
    return -(-value // to) * to
