"""Writes TIFFs of every make, with the pixels they must give: compression × predictor × strips or tiles × bits ×
meaning of the samples × planes × extra samples × bit order × byte order × BigTIFF. Needs numpy, Pillow, tifffile and
imagecodecs.

    from tiffs import made                      # an iterator of Made, the same ones every time
    for tiff in made(per_cell=2, seed=1): ...   # about 2,900 files; per_cell=1: about 1,500
    python tests/pictures/tiffs.py FOLDER [PER_CELL]      # writes the files, and expected.json beside them

`Made.name` says what the file is made of, `Made.encoded` is the file. `Made.expected["rgb"]` and `["gray"]` are the
arrays that `gpulane map --decode rgb` and `gray` must give, or a string: words that the reason for refusing it must
contain. `Made.most` is how far a value may be from them. `Made.pillow` and `Made.tifffile` are what these two make of
the file (`None` where they cannot), so that the expectation is not ours alone: `agrees` lists what differs, and
`python tests/pictures/tiffs.py --agree` prints a table of it.

The container is written by tiff_container.py, byte by byte, since no one writer can write all of it; compressions are
those of imagecodecs, zlib and lzma. Files by Pillow's and tifffile's own writers come last.
"""

from __future__ import annotations

import io
import itertools
import json
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
from PIL import Image, ImageOps
from tiff_container import (
    COMPRESSIONS,
    HEIGHT,
    PREDICTS,
    WIDTH,
    Kind,
    Make,
    bits_of,
    chunks_of,
    colour_map,
    container,
    tags_of,
)

NO_RANGE = "no fixed range"
# The standard does not say how, and libtiff's programs write none.
GROUPED = "differences of pixels that share their chroma"


@dataclass
class Made:
    """A file, and what must come of it."""

    name: str
    encoded: bytes
    expected: dict[str, Any]
    most: int = 0
    pillow: dict[str, Any] = field(default_factory=dict)
    tifffile: np.ndarray | None = None
    samples: np.ndarray | None = None  # as stored, height × width × samples, where they were written here


GRAYS = [Kind(f"gray{bits}", 1, 1, "u1" if bits <= 8 else "u2", bits) for bits in (1, 2, 4, 6, 8, 10, 12, 14, 16)]
WHITES = [Kind(f"white-is-zero{bits}", 0, 1, "u1" if bits <= 8 else "u2", bits) for bits in (1, 2, 4, 8, 12, 16)]
NUMBERS = [Kind(dtype, 1, 1, dtype) for dtype in ("u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8")]
PALETTES = [Kind(f"palette{bits}", 3, 1, "u1", bits) for bits in (1, 2, 4, 8)] + [
    Kind("palette8-x", 3, 2, "u1", extra=(0,)),
    Kind("palette10", 3, 1, "u2", 10),
]
COLOURS = [
    Kind("rgb8", 2, 3, "u1"),
    Kind("rgb4", 2, 3, "u1", 4),
    Kind("rgb12", 2, 3, "u2", 12),
    Kind("rgb16", 2, 3, "u2"),
    Kind("rgb8-x", 2, 4, "u1", extra=(0,)),
    Kind("rgb8-xx", 2, 5, "u1", extra=(0, 0)),
    Kind("rgb8-undeclared", 2, 4, "u1"),
    Kind("rgba8", 2, 4, "u1", extra=(2,)),
    Kind("rgba8-x", 2, 5, "u1", extra=(2, 0)),
    Kind("rgba8-associated", 2, 4, "u1", extra=(1,)),
    Kind("rgba8-associated-x", 2, 5, "u1", extra=(1, 0)),
    Kind("rgb16-x", 2, 4, "u2", extra=(0,)),
    Kind("rgba16", 2, 4, "u2", extra=(2,)),
    Kind("rgba16-associated", 2, 4, "u2", extra=(1,)),
    Kind("gray8-x", 1, 2, "u1", extra=(0,)),
    Kind("gray8-alpha", 1, 2, "u1", extra=(2,)),
    Kind("gray8-associated", 1, 2, "u1", extra=(1,)),
    Kind("gray16-x", 1, 2, "u2", extra=(0,)),
    Kind("gray8-xxx", 1, 4, "u1", extra=(0, 0, 0)),
    Kind("cmyk8", 5, 4, "u1"),
    Kind("cmyk8-x", 5, 5, "u1", extra=(0,)),
    Kind("cmyk16", 5, 4, "u2"),
    Kind("rgb-f4", 2, 3, "f4"),
]
CHROMAS = [
    Kind(f"ycbcr-{across}{down}", 6, 3, "u1", shared=(across, down)) for across in (1, 2, 4) for down in (1, 2, 4)
]
KINDS = [*GRAYS, *WHITES, *NUMBERS, *PALETTES, *COLOURS, *CHROMAS]


# Pixels ----------------------------------------------------------------------------------------------------------


def samples_of(kind: Kind, seed: int) -> np.ndarray:
    """Slopes, edges and noise over the whole range of the type: height × width × samples."""
    noise = np.random.default_rng(seed)
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    planes = []
    for sample in range(kind.samples):
        slope = 0.5 + 0.4 * np.sin(x * (0.11 + 0.05 * sample) + y * 0.07) + noise.normal(0, 0.03, x.shape)
        slope = np.where((x // 9 + y // 7 + sample) % 5 == 0, 0.93 - 0.2 * sample % 0.9, slope)
        planes.append(np.clip(slope, 0, 1))
    level = np.stack(planes, axis=-1)
    if kind.dtype.startswith("f"):
        return ((level - 0.4) * 900).astype(kind.dtype)
    if kind.dtype.startswith("i"):
        reach = 2.0 ** (bits_of(kind) - 1) - 1
        return np.clip((level * 2 - 1) * reach, -reach, reach * (1 - 1e-9)).astype(kind.dtype)
    most = 2 ** bits_of(kind) - 1
    if 1 in kind.extra:
        # Colours are never lighter than their alpha; some of it is none at all.
        alpha = kind.samples - len(kind.extra)
        level[..., alpha] = np.where((x + y) % 7 == 0, 0, level[..., alpha])
        level[..., :alpha] *= level[..., alpha : alpha + 1]
    return np.floor(level * most * (1 - 1e-12) + 0.5 * (most < 2**32)).astype(kind.dtype)


def shared_chroma(samples: np.ndarray, kind: Kind) -> np.ndarray:
    """Chroma as it is when pixels share that of the first of their group."""
    across, down = kind.shared
    whole = samples.copy()
    first = samples[::down, ::across, 1:]
    whole[..., 1:] = np.repeat(np.repeat(first, down, 0), across, 1)[:HEIGHT, :WIDTH]
    return whole


# What must come of it -----------------------------------------------------------------------------------------------


def luma(rgb: np.ndarray) -> np.ndarray:
    weights = np.array([19595, 38470, 7471])
    return ((rgb.astype(np.int64) * weights).sum(-1) + 0x8000 >> 16).astype("u1")


def eight(samples: np.ndarray, bits: int) -> np.ndarray:
    """The upper 8 bits; fewer are spread evenly."""
    if bits < 8:
        most = 2**bits - 1
        return ((samples.astype(int) * 255 + most // 2) // most).astype("u1")
    return (samples >> (bits - 8)).astype("u1")


def rgb_of(kind: Kind, samples: np.ndarray) -> np.ndarray:
    bits = bits_of(kind)
    if kind.photometric == 3:
        return (colour_map(bits) >> 8).astype("u1").T[samples[..., 0]]
    if kind.photometric == 6:
        y, cb, cr = (samples[..., at].astype(float) for at in range(3))
        channels = [y + 1.402 * (cr - 128), y - 0.344136 * (cb - 128) - 0.714136 * (cr - 128), y + 1.772 * (cb - 128)]
        return np.clip(np.stack(channels, -1) + 0.5, 0, 255).astype("u1")
    level = eight(samples, bits)
    if kind.photometric == 5:
        light = 255 - level[..., 3:4].astype(int)
        product = level[..., :3].astype(int) * light + 128
        return (light - ((product + (product >> 8)) >> 8)).astype("u1")
    if 1 in kind.extra:
        alpha = level[..., 3:4].astype(int) if kind.photometric == 2 else level[..., 1:2].astype(int)
        divided = np.where(alpha == 0, 0, level.astype(int) * 255 // np.maximum(alpha, 1))
        level = np.minimum(divided, 255).astype("u1")
    if kind.photometric == 2:
        return level[..., :3]
    gray = 255 - level[..., :1] if kind.photometric == 0 else level[..., :1]
    return np.repeat(gray, 3, axis=-1)


def expected_of(kind: Kind, samples: np.ndarray) -> dict[str, Any]:
    bits = bits_of(kind)
    ranged = kind.dtype in ("u1", "u2")
    rgb: Any = rgb_of(kind, samples) if ranged else NO_RANGE
    if kind.photometric in (2, 3, 5, 6):
        return {"rgb": rgb, "gray": luma(rgb) if ranged else NO_RANGE}
    if ranged and bits <= 8:
        return {"rgb": rgb, "gray": rgb[..., 0]}
    gray = samples[..., 0]
    return {"rgb": rgb, "gray": (2**bits - 1 - gray).astype(gray.dtype) if kind.photometric == 0 else gray}


# All of them -----------------------------------------------------------------------------------------------------

CHUNKS = {"strip": (WIDTH, HEIGHT, False), "strips": (WIDTH, 7, False), "tiles": (16, 32, True), "wide": (64, 16, True)}


def name_of(kind: Kind, make: Make, chunk: str) -> str:
    compression = next(name for name, number in COMPRESSIONS.items() if number == make.compression)
    words = [kind.name, compression, chunk, f"p{make.predictor}", "planar" if make.planar else "contig"]
    words += [f"fill{make.fill}", "II" if make.order == "<" else "MM", "big" if make.big else "classic"]
    return "-".join(words)


def makes(per_cell: int, seed: int) -> list[tuple[Kind, Make, str]]:
    """Each kind with each compression in each layout, the rest drawn by lot."""
    lot, drawn = random.Random(seed), {}
    for kind, compression, chunk in itertools.product(KINDS, COMPRESSIONS.values(), CHUNKS):
        for _ in range(per_cell):
            # Groups of pixels that share their chroma do not reach over the end of a strip.
            size = (WIDTH, 8, False) if chunk == "strips" and kind.photometric == 6 else CHUNKS[chunk]
            grouped_kind = kind.shared != (1, 1)
            predictors = [1]
            if compression in PREDICTS and bits_of(kind) in (8, 16, 32, 64):
                predictors += [2] + [3] * (kind.dtype[0] == "f")
                if kind.dtype[0] == "f":
                    predictors.remove(2)
            make = Make(
                compression,
                lot.choice(predictors),
                size,
                kind.samples > 1 and not grouped_kind and lot.random() < 0.4,
                lot.choice([1, 1, 2]),
                lot.choice("<>"),
                lot.random() < 0.25,
            )
            drawn[name_of(kind, make, chunk)] = (kind, make, chunk)
    return list(drawn.values())


def made(per_cell: int = 2, seed: int = 1) -> Iterator[Made]:
    """All files with what must come of them; the same ones for the same arguments."""
    for kind, make, chunk in makes(per_cell, seed):
        samples = samples_of(kind, seed)
        if kind.photometric == 6:
            samples = shared_chroma(samples, kind)
        encoded = container(tags_of(kind, make), chunks_of(samples, kind, make), make)
        expected = expected_of(kind, samples)
        if make.predictor != 1 and kind.shared != (1, 1):
            expected = dict.fromkeys(expected, GROUPED)
        most = 2 if kind.photometric == 6 else 0
        yield read_by_others(Made(name_of(kind, make, chunk), encoded, expected, most, samples=samples))
    yield from (tiff for tiff in by_writers() if tiff is not None)


def by_writers() -> Iterator[Made | None]:
    """Files by Pillow's and tifffile's own writers: fax, JPEG, WebP, and what they write otherwise."""
    rgb = rgb_of(COLOURS[0], samples_of(COLOURS[0], 3))
    gray = luma(rgb)
    bilevel = (gray > 120).astype("u1") * 255
    for compression in ("group3", "group4", "tiff_ccitt", "packbits", "tiff_lzw", "tiff_adobe_deflate"):
        image = Image.fromarray(bilevel).convert("1")
        yield written(f"pillow-1-{compression}", image, {}, compression)
        yield written(f"pillow-1-{compression}-2d", image, {292: 1}, compression)
        yield written(f"pillow-1-{compression}-strips", image, {278: 8}, compression)
    for compression in ("jpeg", "webp", "zstd", "lzma", "tiff_lzw", "packbits"):
        for mode in ("L", "RGB", "RGBA", "CMYK"):
            if (compression, mode) in (("webp", "L"), ("webp", "CMYK"), ("jpeg", "RGBA")):
                continue
            image = Image.fromarray(rgb).convert(mode)
            yield written(f"pillow-{mode}-{compression}", image, {}, compression)
            yield written(f"pillow-{mode}-{compression}-strips", image, {278: 16}, compression)
    wide = np.tile(rgb, (2, 2, 1))
    for photometric, subsampling in itertools.product(("rgb", "ycbcr"), ((1, 1), (2, 1), (2, 2))):
        for tile, big in itertools.product((None, (32, 48)), (False, True)):
            if photometric == "rgb" and subsampling != (1, 1):
                continue
            buffer = io.BytesIO()
            options: dict[str, Any] = {"compression": "jpeg", "photometric": photometric, "tile": tile, "bigtiff": big}
            options |= (
                {"subsampling": subsampling, "rowsperstrip": 16} if tile is None else {"subsampling": subsampling}
            )
            tifffile.imwrite(buffer, wide, **options)
            shape = "tiles" if tile else "strips"
            yield by_reference(
                f"tifffile-jpeg-{photometric}-{subsampling[0]}{subsampling[1]}-{shape}-{big:d}", buffer.getvalue(), 3
            )
    for mode, tile in itertools.product(("RGB", "RGBA"), (None, (32, 48))):
        buffer = io.BytesIO()
        array = np.asarray(Image.fromarray(wide).convert(mode))
        options = {"compression": "webp", "photometric": "rgb", "tile": tile, "rowsperstrip": None if tile else 16}
        tifffile.imwrite(buffer, array, compressionargs={"lossless": True}, **options)
        expected = {"rgb": wide, "gray": luma(wide)}
        yield read_by_others(Made(f"tifffile-webp-{mode}-{'tiles' if tile else 'strips'}", buffer.getvalue(), expected))
    for dtype, compression, tile in itertools.product(
        ("u1", "u2", "f4"), ("zlib", "lzw", "zstd", "lzma"), (None, (32, 48))
    ):
        buffer = io.BytesIO()
        array = (gray.astype(dtype) * 7).astype(dtype)
        tifffile.imwrite(buffer, array, compression=compression, predictor=True, tile=tile, photometric="minisblack")
        expected = {
            "rgb": np.repeat((array >> 8 * (dtype == "u2")).astype("u1")[..., None], 3, -1)
            if dtype != "f4"
            else NO_RANGE,
            "gray": array,
        }
        yield read_by_others(
            Made(f"tifffile-{dtype}-{compression}-{'tiles' if tile else 'strips'}", buffer.getvalue(), expected)
        )


def written(name: str, image: Image.Image, tags: dict[int, int], compression: str) -> Made | None:
    """By Pillow; nothing where it, or its libtiff, cannot write such a file."""
    buffer = io.BytesIO()
    options = {"quality": 90} if compression == "jpeg" else {}
    try:
        image.save(buffer, "TIFF", compression=compression, tiffinfo=tags, **options)
    except (OSError, ValueError):
        return None
    return by_reference(name, buffer.getvalue(), 1 if compression == "webp" else 0)


def by_reference(name: str, encoded: bytes, most: int) -> Made:
    """What Pillow makes of it is what must come of it."""
    tiff = read_by_others(Made(name, encoded, {}, most))
    tiff.expected = dict(tiff.pillow)
    return tiff


def read_by_others(tiff: Made) -> Made:
    """What Pillow and tifffile make of it."""
    try:
        image = Image.open(io.BytesIO(tiff.encoded))
        image.load()
        image = ImageOps.exif_transpose(image)
        if image.mode == "La":
            image = image.convert("LA")
        if image.mode.startswith("I;16"):
            deep = np.asarray(image).astype("u2")
            shift = 4 if "12-" in tiff.name else 8
            tiff.pillow = {"rgb": np.repeat((deep >> shift).astype("u1")[..., None], 3, -1), "gray": deep}
        elif image.mode in ("I", "F"):
            tiff.pillow = {"gray": np.asarray(image)}
        else:
            tiff.pillow = {"rgb": np.asarray(image.convert("RGB")), "gray": np.asarray(image.convert("L"))}
    except Exception:  # noqa: BLE001 - whatever it cannot read
        tiff.pillow = {}
    try:
        with tifffile.TiffFile(io.BytesIO(tiff.encoded)) as file:
            tiff.tifffile = file.pages[0].asarray()
    except Exception:  # noqa: BLE001
        tiff.tifffile = None
    return tiff


def is_pillows_fault(name: str) -> bool:
    """What Pillow 13 reads otherwise than it is written, as tifffile and the samples show: planes apart that it mixes
    up, 16 bits and floats of which it does not know that 0 is white, numbers of the other byte order, 8 bits with a
    sign, chroma that pixels share in files without compression."""
    numbers = ("i1", "i2", "i4", "u4", "f4", "white-is-zero16")
    return "-planar-" in name or name.startswith(numbers) or (name.startswith("ycbcr") and "-none-" in name)


def agrees(tiff: Made) -> list[str]:
    """Where Pillow is not of the opinion of `expected`, or tifffile reads other samples than were written."""
    wrong = []
    if tiff.samples is not None and tiff.tifffile is not None:
        theirs = tiff.tifffile
        theirs = theirs[..., None] if theirs.ndim == 2 else theirs
        theirs = np.moveaxis(theirs, 0, -1) if theirs.shape[1:] == (HEIGHT, WIDTH) else theirs
        if theirs.shape != tiff.samples.shape or not np.array_equal(theirs.astype(tiff.samples.dtype), tiff.samples):
            wrong.append("tifffile reads other samples")
    for decode, theirs in tiff.pillow.items():
        ours = tiff.expected[decode]
        if isinstance(ours, str):
            continue
        if ours.shape != theirs.shape:
            wrong.append(f"{decode}: {theirs.shape} for {ours.shape}")
        elif not (most := np.abs(ours.astype(float) - theirs.astype(float)).max()) <= tiff.most:
            wrong.append(f"{decode}: Pillow is {most:.0f} apart")
    return wrong


def main() -> None:
    if sys.argv[1] == "--agree":
        count = 0
        for tiff in made():
            count += 1
            for line in agrees(tiff):
                known = "Pillow" in line and is_pillows_fault(tiff.name)
                print(f"{tiff.name}: {line}{' (a fault of Pillow)' if known else ''}")
        print(f"{count} files")
        return
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    listed = []
    for tiff in made(int(sys.argv[2]) if len(sys.argv) > 2 else 2):
        (folder / f"{tiff.name}.tif").write_bytes(tiff.encoded)
        for decode, array in tiff.expected.items():
            case = {"file": f"{tiff.name}.tif", "decode": decode, "most": tiff.most}
            if isinstance(array, str):
                case["refused"] = array
            else:
                (folder / f"{tiff.name}.{decode}.raw").write_bytes(np.ascontiguousarray(array).tobytes())
                case |= {"shape": list(array.shape), "type": array.dtype.str}
            case["pillow"] = decode in tiff.pillow
            listed.append(case)
    (folder / "expected.json").write_text(json.dumps(listed, indent=1) + "\n")


if __name__ == "__main__":
    main()
