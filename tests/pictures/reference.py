"""What a file should give, as docs/map.md promises it: Pillow's pixels, strictly loaded, otherwise tifffile's."""

from __future__ import annotations

import contextlib
import io
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FORMATS = ("JPEG", "PNG", "TIFF", "WEBP", "GIF", "BMP", "DIB")
# Pillow's own limit is a warning; ours is a refusal.
MOST_PIXELS = 179_000_000
# What the orientations from 2 on ask for.
TURNS = (
    "FLIP_LEFT_RIGHT",
    "ROTATE_180",
    "FLIP_TOP_BOTTOM",
    "TRANSPOSE",
    "ROTATE_270",
    "TRANSVERSE",
    "ROTATE_90",
)
# Number types that 8 bits cannot be had from without a choice of range.
WIDE_MODES = ("I", "F")


@dataclass
class Reference:
    """What other programs make of one file and one `--decode`."""

    pixels: Any = None  # an array, or nothing where the file is refused
    why: str = ""  # why it is refused
    by: str = "Pillow"
    mode: str = ""  # Pillow's mode
    format: str = ""
    sides: tuple[int, int] = (0, 0)


def content(path: Path) -> str:
    """The format a file's first bytes say, as gpulane tells it."""
    with path.open("rb") as file:
        head = file.read(16)
    if head[:2] == b"\xff\xd8":
        return "JPEG"
    if head[:8] == b"\x89PNG\r\n\x1a\n":
        return "PNG"
    if head[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"):
        return "TIFF"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "WebP"
    if head[:6] in (b"GIF87a", b"GIF89a"):
        return "GIF"
    return "BMP" if head[:2] == b"BM" else "other"


def references(path: Path, forms: list[str]) -> dict[str, Reference]:
    """One for each form. Whatever a library raises is its refusal."""
    found = {}
    for form in forms:
        try:
            found[form] = _by_pillow(path, form)
        except Exception as error:  # noqa: BLE001 -- a refusal, of whatever type
            found[form] = Reference(why=f"{type(error).__name__}: {error}"[:200])
            if content(path) == "TIFF":
                with contextlib.suppress(Exception):
                    found[form] = _by_tifffile(path, form)
    return found


def second_opinion(path: Path, form: str) -> Reference | None:
    """tifffile's, for a TIFF that Pillow sees differently."""
    try:
        return _by_tifffile(path, form)
    except Exception:  # noqa: BLE001 -- no opinion
        return None


def _by_pillow(path: Path, form: str) -> Reference:
    from PIL import Image, ImageFile

    Image.init()
    Image.MAX_IMAGE_PIXELS = MOST_PIXELS
    ImageFile.LOAD_TRUNCATED_IMAGES = False
    kind, _, size = form.partition(":")
    with warnings.catch_warnings(), Image.open(path, formats=FORMATS) as image:
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        known = Reference(mode=image.mode, format=str(image.format), sides=image.size)
        if kind == "gray" and image.format in ("JPEG", "MPO") and image.mode != "CMYK":
            image.draft("L", image.size)  # the luma as it stands in the file
        image.load()
        turned = _upright(image)
        if kind == "gray" and not size and turned.mode.startswith("I;16"):
            known.pixels = _array(turned)
            return known
        eight = _eight_bits(turned)
        picture = eight.convert("RGB" if kind == "rgb" else "L")
        if size:
            picture = _sized(picture, size)
        known.pixels = _array(picture)
    return known


def _upright(image: Any) -> Any:
    """As `exif_transpose` turns it; where that fails over another tag, as the tag of the orientation says."""
    from PIL import Image, ImageOps

    try:
        return ImageOps.exif_transpose(image) or image
    except Exception:  # noqa: BLE001 -- it also writes the notes anew, which is not asked for
        try:
            turn = image.getexif().get(274, 1)
        except Exception:  # noqa: BLE001 -- notes that cannot be read turn nothing
            return image
        ways = [None, *(getattr(Image.Transpose, name) for name in TURNS)]
        way = ways[turn - 1] if turn in range(1, 9) else None
        return image if way is None else image.transpose(way)


def _sized(picture: Any, size: str) -> Any:
    from PIL import Image, ImageOps

    sides, _, fit = size.partition(":")
    width, height = map(int, sides.split("x"))
    if fit == "crop":
        return ImageOps.fit(picture, (width, height), Image.Resampling.BILINEAR)
    if fit == "pad":
        return ImageOps.pad(picture, (width, height), Image.Resampling.BILINEAR)
    return picture.resize((width, height), Image.Resampling.BILINEAR)


def _array(image: Any) -> Any:
    import numpy as np

    array = np.asarray(image)
    return array.astype(array.dtype.newbyteorder("="))


def _eight_bits(image: Any) -> Any:
    """16 bits are shifted, as map.md says; wider numbers have no reference here."""
    from PIL import Image

    if image.mode.startswith("I;16"):
        return Image.fromarray((_array(image) >> 8).astype("uint8"))
    if image.mode in WIDE_MODES:
        raise ValueError(f"mode {image.mode} has no 8 bits that all would agree on")
    return image


def _by_tifffile(path: Path, form: str) -> Reference:
    """The first page, brought to 8 bits by the same rules."""
    import numpy as np
    import tifffile
    from PIL import Image

    kind, _, size = form.partition(":")
    with contextlib.redirect_stderr(io.StringIO()), tifffile.TiffFile(path) as file:
        page = file.pages[0]
        assert isinstance(page, tifffile.TiffPage)
        array = page.asarray()
        photometric = getattr(page.photometric, "name", "")
        known = Reference(
            by="tifffile", mode=f"{page.dtype} {photometric}", format="TIFF", sides=(page.imagewidth, page.imagelength)
        )
        if page.imagedepth > 1 or array.size > MOST_PIXELS * 4:
            raise ValueError("more than a picture")
        if page.planarconfig == 2 and array.ndim == 3:
            array = np.moveaxis(array, 0, -1)
        orientation = page.tags.get(274)
        turn = orientation.value if orientation else 1
        bits = page.bitspersample if isinstance(page.bitspersample, int) else page.bitspersample[0]
        if form == "gray" and photometric in ("MINISBLACK", "MINISWHITE") and array.dtype not in (bool, np.uint8):
            known.pixels = _turned(_first_channel(_divided(page, array, bits), photometric, bits), turn)
            return known
        array = _colours(page, array, photometric, bits)
        array = _turned(array, turn)
    picture = Image.fromarray(array).convert("RGB" if kind == "rgb" else "L")
    known.pixels = _array(_sized(picture, size) if size else picture)
    return known


def _colours(page: Any, array: Any, photometric: str, bits: int) -> Any:
    """Gray or RGB of 8 bits, without extra channels."""
    import numpy as np
    from PIL import Image

    if array.dtype != bool and array.dtype not in (np.uint8, np.uint16):
        raise ValueError(f"{array.dtype} has no 8 bits that all would agree on")
    if photometric == "PALETTE":
        index = (array[..., 0] if array.ndim == 3 else array).astype(np.uint16)
        return (np.moveaxis(page.colormap, 0, -1)[index] >> 8).astype(np.uint8)
    array = _divided(page, _eight(array, bits), 8)
    if photometric in ("MINISBLACK", "MINISWHITE"):
        return _first_channel(array, photometric, 8)
    if photometric == "RGB" or (photometric == "YCBCR" and page.compression in (6, 7)):
        return np.ascontiguousarray(array[..., :3])
    if photometric == "YCBCR" and array.ndim == 3 and tuple(page.subsampling or (1, 1)) == (1, 1):
        return np.asarray(Image.fromarray(np.ascontiguousarray(array[..., :3]), "YCbCr").convert("RGB"))
    if photometric == "SEPARATED" and array.ndim == 3 and array.shape[-1] >= 4:
        return _from_ink(array)
    raise ValueError(f"{photometric} is left to Pillow")


def _eight(array: Any, bits: int) -> Any:
    """Fewer bits fill 8, more leave off the lower ones, as map.md says."""
    import numpy as np

    if array.dtype == bool:
        return array.astype(np.uint8) * 255
    if bits < 8:
        return (array.astype(np.uint32) * 255 // ((1 << bits) - 1)).astype(np.uint8)
    return (array >> (bits - 8)).astype(np.uint8)


def _divided(page: Any, array: Any, bits: int) -> Any:
    """Samples less the alpha that they were multiplied by, where the file says so; rounded as Pillow rounds."""
    import numpy as np

    extra = [int(kind) for kind in page.extrasamples or ()]
    if array.ndim != 3 or array.dtype.kind != "u" or 1 not in extra:
        return array
    at = array.shape[-1] - len(extra) + extra.index(1)
    alpha, most = array[..., at : at + 1].astype(np.int64), (1 << bits) - 1
    divided = np.where(alpha == 0, 0, array.astype(np.int64) * most // np.maximum(alpha, 1))
    return np.minimum(divided, most).astype(array.dtype)


def _from_ink(array: Any) -> Any:
    """CMYK to RGB as Pillow does it."""
    import numpy as np
    from PIL import Image

    return np.asarray(Image.fromarray(np.ascontiguousarray(array[..., :4]), "CMYK").convert("RGB"))


def _first_channel(array: Any, photometric: str, bits: int) -> Any:
    """Gray without its extra channels; white is made the largest value where there is a largest."""
    array = array[..., 0] if array.ndim == 3 else array
    if photometric == "MINISWHITE" and array.dtype.kind == "u":
        return (((1 << bits) - 1) - array).astype(array.dtype)
    return array


def _turned(array: Any, orientation: int) -> Any:
    import numpy as np

    if orientation in (5, 6, 7, 8):
        array = np.swapaxes(array, 0, 1)
    if orientation in (2, 3, 6, 7):
        array = array[:, ::-1]
    if orientation in (3, 4, 7, 8):
        array = array[::-1]
    return np.ascontiguousarray(array)
