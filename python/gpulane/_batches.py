"""From entries of a slot to what `predict_batch` gets, whatever library makes the arrays."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ._ring import ARRAY, BYTES, TEXT, Batch

__all__ = ["Decode", "Library", "Ready", "arrange", "listed"]


CHANNELS = {"rgb": 3, "rgba": 4, "gray": 1}
FILTERS = ("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos")


class Decode(NamedTuple):
    """`rgb:224x224:short=256:bicubic` taken apart."""

    kind: str
    size: Optional[Tuple[int, int]]
    """Width and height of every image."""
    fit: str = "stretch"
    """`stretch`, `crop`, `pad` or `short`."""
    short: int = 0
    """What the shorter side is brought to, with `short`."""
    filter: str = "bilinear"
    srgb: bool = False
    """Whether colour profiles are applied; what that changes comes finished."""

    @classmethod
    def parse(cls, text: str) -> Decode:
        """From the words of the `ring` frame, which the feeder has checked, or of a model, which nobody has: what is
        unknown is left to the feeder to complain of."""
        kind, *words = text.split(":")
        decode = cls(kind, None)
        for word in words:
            width, cross, height = word.partition("x")
            if cross and width.isdigit() and height.isdigit():
                decode = decode._replace(size=(int(width), int(height)))
            elif word in ("stretch", "crop", "pad"):
                decode = decode._replace(fit=word)
            elif word.startswith("short=") and word[6:].isdigit():
                decode = decode._replace(fit="short", short=int(word[6:]))
            elif word in FILTERS:
                decode = decode._replace(filter=word)
            elif word == "srgb":
                decode = decode._replace(srgb=True)
        return decode

    @property
    def is_image(self) -> bool:
        """Whether items are pictures."""
        return self.kind in CHANNELS

    @property
    def channels(self) -> int:
        """Of a picture."""
        return CHANNELS.get(self.kind, 1)

    @property
    def is_finished_by_workers(self) -> bool:
        """Whether a worker may be given pictures still to be brought to colour and size. All others come finished."""
        return self.kind == "rgb" and self.size is not None and self.filter == "bilinear"


class Library:
    """Makes arrays over the memory that holds a batch's data."""

    stacks = True
    """Whether many arrays can be one."""

    def view(self, offset: int, element: int, shape: Tuple[int, ...]) -> Any:
        """An array over the bytes at `offset` of the slot."""
        raise NotImplementedError

    def stack(self, arrays: List[Any]) -> Any:
        """Arrays of one shape as one array."""
        raise NotImplementedError

    def images(self, stacked: Any) -> Any:
        """N×H×W×3 or N×H×W as this library's users know pictures."""
        return stacked


class Ready:
    """A batch, or a part of it, that the model can work on."""

    def __init__(self, given: Any, to_device: int = 0, on_host: int = 0) -> None:
        self.given = given
        self.to_device = to_device
        """Bytes copied to the GPU."""
        self.on_host = on_host
        """Bytes copied within this process."""
        self.failed: Dict[int, str] = {}
        """Items that could not be made ready, and why."""

    def begin(self) -> None:
        """The model is about to be called."""

    def end(self) -> None:
        """The model has returned, or failed."""

    def seconds(self) -> Optional[Tuple[float, float]]:
        """What the GPU took for the copy and for the model; nothing where there is none."""
        return None


def listed(batch: Batch, start: int, end: int, decode: Decode) -> Optional[List[Any]]:
    """Bytes and texts as a list; nothing where items are arrays."""
    memory = batch.memory
    if decode.kind in ("text", "value"):
        return [str(memory[at : at + size], "utf-8") for at, size in batch.places(start, end)]
    if decode.kind == "bytes":
        return [bytes(memory[at : at + size]) for at, size in batch.places(start, end)]
    return None


def arrange(batch: Batch, start: int, end: int, decode: Decode, library: Library) -> Tuple[Any, int]:
    """Arrays as the model gets them, and the bytes that were copied for it."""
    entries = batch.entries(start, end)
    as_one = library.stacks and (decode.size is not None or not decode.is_image)
    if as_one and batch.packed and entries:
        first = entries[0]
        together = library.view(first.offset, first.element, (end - start, *first.shape))
        return (library.images(together) if decode.is_image else together), 0
    arrays: List[Any] = []
    for entry in entries:
        if entry.kind == ARRAY:
            arrays.append(library.view(entry.offset, entry.element, entry.shape))
        elif entry.kind in (BYTES, TEXT):
            data = bytes(batch.memory[entry.offset : entry.offset + entry.bytes])
            arrays.append(data if entry.kind == BYTES else data.decode("utf-8"))
        else:
            raise ValueError(f"an item of kind {entry.kind}, which this worker did not say it takes")
    if as_one and decode.size is not None and arrays:
        return library.images(library.stack(arrays)), sum(entry.bytes for entry in entries)
    return arrays, 0
