"""TIFF files written by tifffile: number types, planes, tiles, predictors, extra channels, many compressions."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator

from .recipe import Recipe, choices, label

DTYPES = [
    "uint8",
    "uint8",
    "uint8",
    "uint16",
    "uint16",
    "uint32",
    "int8",
    "int16",
    "int32",
    "float16",
    "float32",
    "float64",
]


def recipes() -> Iterator[Recipe]:
    found = choices(
        "tifffile", 620, dtype=DTYPES,
        kind=["gray", "gray", "white", "rgb", "rgb", "rgba", "rgb+2", "gray+1", "palette", "bilevel", "ycbcr", "cmyk"],
        planar=["contig", "contig", "separate"], tile=[0, 0, 16, 64], rows=[0, 1, 5],
        compression=["none", "lzw", "zlib", "adobe_deflate", "packbits", "zstd", "lzma", "jpeg", "webp", "png"],
        predictor=[0, 0, 1], order=["<", ">"], big=[0, 0, 1], pages=[1, 1, 1, 3], size=list(range(2, 11)),
        premultiplied=[0, 0, 1], orientation=[0, 0, 0, 0, 3, 6],
    )  # fmt: skip
    for number, options in enumerate(found):
        name = f"{number:03}-{label(options)}.tif"
        yield Recipe("tifffile", name, lambda path, o=options: _write(path, o))  # type: ignore[misc]


def _write(path: Path, options: dict[str, Any]) -> None:
    import tifffile

    from .scenes import SIZES

    width, height = SIZES[options["size"]]
    pages = [_pixels(f"{path.name}{n}", options, width, height) for n in range(options["pages"])]
    save = _how(options)
    with tifffile.TiffWriter(path, byteorder=options["order"], bigtiff=bool(options["big"])) as file:
        for pixels in pages:
            file.write(pixels, **save)


def _pixels(name: str, options: dict[str, Any], width: int, height: int) -> Any:
    import numpy as np

    from . import scenes

    kind, dtype = options["kind"], np.dtype(options["dtype"])
    if kind == "bilevel":
        return scenes.gray(name, width, height) > 127
    if kind == "palette":
        return scenes.gray(name, width, height)
    channels = {"gray": 1, "white": 1, "gray+1": 2, "rgb": 3, "ycbcr": 3, "rgba": 4, "cmyk": 4, "rgb+2": 5}[kind]
    pixels = _typed(scenes.deep(name, width, height, channels), dtype)
    if channels == 1:
        return pixels[..., 0]
    return np.moveaxis(pixels, -1, 0).copy() if options["planar"] == "separate" else pixels


def _typed(deep: Any, dtype: Any) -> Any:
    """The scene in another number type: all of its range for whole numbers, 0 to 1 for others."""
    if dtype.kind == "f":
        return (deep / 65535.0).astype(dtype)
    bits = dtype.itemsize * 8
    wide = deep.astype("int64")
    wide = wide >> (16 - bits) if bits <= 16 else wide << (bits - 16)
    return (wide - (1 << (bits - 1)) if dtype.kind == "i" else wide).astype(dtype)


def _how(options: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    kind = options["kind"]
    photometric = {
        "gray": "minisblack", "white": "miniswhite", "gray+1": "minisblack", "rgb": "rgb", "rgba": "rgb", "rgb+2": "rgb",
        "palette": "palette", "bilevel": "minisblack", "ycbcr": "ycbcr", "cmyk": "separated",
    }[kind]  # fmt: skip
    save: dict[str, Any] = {"photometric": photometric, "metadata": None, "software": False}
    if kind == "palette":
        save["colormap"] = np.random.default_rng(5).integers(0, 65536, (3, 256), dtype=np.uint16)
    if kind in ("rgb", "rgba", "rgb+2", "cmyk", "ycbcr", "gray+1"):
        save["planarconfig"] = options["planar"]
    alpha = "assocalpha" if options["premultiplied"] else "unassalpha"
    extra = {"rgba": [alpha], "gray+1": [alpha], "rgb+2": [alpha, "unspecified"]}.get(kind)
    if extra:
        save["extrasamples"] = extra
    if options["compression"] != "none":
        save["compression"] = options["compression"]
        if options["predictor"] and options["compression"] not in ("jpeg", "webp", "png", "packbits"):
            save["predictor"] = True
    if options["tile"]:
        save["tile"] = (options["tile"], options["tile"])
    elif options["rows"]:
        save["rowsperstrip"] = options["rows"]
    if options["orientation"]:
        save["extratags"] = [(274, 3, 1, options["orientation"], True)]
    return save
