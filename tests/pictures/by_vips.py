"""Pictures written by libvips."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator

from .recipe import Recipe, choices, label

MODES = ["rgb", "rgb", "rgb", "gray", "rgba", "gray+alpha", "rgb16", "gray16"]


def recipes() -> Iterator[Recipe]:
    sizes = list(range(11))
    found = {
        "jpg": choices(
            "vips-jpg", 80, mode=["rgb", "rgb", "gray", "cmyk"], Q=[30, 75, 95], interlace=[False, True],
            optimize_coding=[False, True], trellis_quant=[False, True], overshoot_deringing=[False, True],
            optimize_scans=[False, True], quant_table=[0, 3, 8], subsample_mode=["on", "off"], restart_interval=[0, 0, 2],
            size=sizes, orientation=[0, 0, 0, 3, 6, 8],
        ),
        "png": choices(
            "vips-png", 80, mode=MODES, compression=[0, 6], interlace=[False, True], palette=[False, False, True],
            filter=["none", "sub", "up", "avg", "paeth", "all"], bitdepth=[0, 0, 1, 2, 4, 8, 16], size=sizes,
            orientation=[0, 0, 0, 6],
        ),
        "webp": choices(
            "vips-webp", 80, mode=["rgb", "rgb", "gray", "rgba"], Q=[10, 75, 95], lossless=[False, True],
            near_lossless=[False, True], smart_subsample=[False, True], alpha_q=[30, 100], effort=[0, 4],
            preset=["default", "photo", "drawing", "text"], size=sizes, orientation=[0, 0, 0, 5, 6],
        ),
        "gif": choices(
            "vips-gif", 40, mode=["rgb", "rgba", "gray"], dither=[0.0, 1.0], effort=[1, 7], bitdepth=[1, 3, 8],
            interlace=[False, True], size=sizes,
        ),
        "tif": choices(
            "vips-tif", 190, mode=[*MODES, "cmyk", "lab", "float", "labq", "int16", "uint32"], size=sizes,
            compression=["none", "jpeg", "deflate", "packbits", "ccittfax4", "lzw", "webp", "zstd"],
            predictor=["none", "horizontal", "float"], tile=[False, True], pyramid=[False, False, True],
            bitdepth=[0, 0, 0, 1, 2, 4], miniswhite=[False, False, True], bigtiff=[False, True], premultiply=[False, True],
            orientation=[0, 0, 0, 2, 6],
        ),
    }  # fmt: skip
    for extension, all_options in found.items():
        for number, options in enumerate(all_options):
            name = f"{number:03}-{label(options)}.{extension}"
            yield Recipe("vips", name, lambda path, o=options: _write(path, dict(o)))  # type: ignore[misc]


def _write(path: Path, options: dict[str, Any]) -> None:
    from .scenes import SIZES

    width, height = SIZES[options.pop("size")]
    image = _picture(path.name, options.pop("mode"), width, height)
    orientation = options.pop("orientation", 0)
    if orientation:
        image = image.copy()
        image.set_type(_vips().GValue.gint_type, "orientation", orientation)
    saver = {"jpg": "jpegsave", "png": "pngsave", "webp": "webpsave", "gif": "gifsave", "tif": "tiffsave"}[
        path.suffix[1:]
    ]
    for key in [key for key, value in options.items() if key in ("bitdepth", "restart_interval") and not value]:
        del options[key]
    if path.suffix == ".png":
        options["filter"] = getattr(_vips().enums.ForeignPngFilter, options["filter"].upper())
    if path.suffix == ".tif" and options["tile"]:
        options |= {"tile_width": 32, "tile_height": 32}
    getattr(image, saver)(str(path), **options)


def _vips() -> Any:
    import pyvips

    return pyvips


def _picture(name: str, mode: str, width: int, height: int) -> Any:
    import numpy as np

    from . import scenes

    pyvips = _vips()
    if mode in ("rgb16", "gray16", "int16", "uint32"):
        channels = 3 if mode == "rgb16" else 1
        image = pyvips.Image.new_from_array(scenes.deep(name, width, height, channels))
        if mode in ("int16", "uint32"):
            return (image / 2).cast("short") if mode == "int16" else (image * 65536.0).cast("uint")
        return image.copy(interpretation="rgb16" if mode == "rgb16" else "grey16")
    image = pyvips.Image.new_from_array(scenes.scene(name, width, height)).copy(interpretation="srgb")
    if mode == "gray":
        return image.colourspace("b-w")
    if mode in ("rgba", "gray+alpha"):
        image = image if mode == "rgba" else image.colourspace("b-w")
        return image.bandjoin(pyvips.Image.new_from_array(scenes.alpha(name, width, height)))
    if mode == "cmyk":
        cmyk = np.concatenate(
            [255 - scenes.scene(name, width, height), np.zeros((height, width, 1), np.uint8)], axis=-1
        )
        return pyvips.Image.new_from_array(cmyk).copy(interpretation="cmyk")
    if mode in ("lab", "labq"):
        return image.colourspace("lab" if mode == "lab" else "labq")
    if mode == "float":
        return image.colourspace("scrgb")
    return image
