"""A JPEG the GPU's decoder refuses, decoded by Pillow if that is installed: a good picture must not fail because of the
road it took."""

from __future__ import annotations

import io
from typing import Any, Tuple, Union

from .._batches import Decode

__all__ = ["pixels_of"]


class Unreadable(str):
    """Why it cannot be decoded."""


def pixels_of(data: bytes, decode: Decode) -> Union[bytes, Unreadable]:
    """The pixels at the size asked for, or why not."""
    try:
        from PIL import Image, ImageOps
    except ImportError:
        return Unreadable("and Pillow, which could, is not installed")
    try:
        with Image.open(io.BytesIO(data)) as opened:
            picture = ImageOps.exif_transpose(opened).convert("RGB" if decode.channels == 3 else "L")
        assert decode.size is not None
        bilinear = getattr(Image, "Resampling", Image).BILINEAR  # Its place since Pillow 9.1, and before.
        if decode.fit == "short":
            picture = _short_side(picture, decode.short, decode.size, bilinear)
        elif decode.fit == "crop":
            picture = ImageOps.fit(picture, decode.size, bilinear)
        elif decode.fit == "pad":
            picture = ImageOps.pad(picture, decode.size, bilinear)
        else:
            picture = picture.resize(decode.size, bilinear)
        pixels: bytes = picture.tobytes()
        return pixels
    except Exception as error:  # Pillow raises what it likes for broken files.
        return Unreadable(f"and so does Pillow ({type(error).__name__}: {error})")


def _short_side(picture: Any, short: int, size: Tuple[int, int], filter: Any) -> Any:
    """As torchvision: the shorter side brought to a length, then the middle, with black bars where there is less."""
    least = min(picture.size)
    resized = picture.resize(tuple(short * side // least for side in picture.size), filter)
    first = tuple(
        round((side - wanted) / 2) if side > wanted else -((wanted - side) // 2)
        for side, wanted in zip(resized.size, size)
    )
    return resized.crop((*first, *(at + wanted for at, wanted in zip(first, size))))
