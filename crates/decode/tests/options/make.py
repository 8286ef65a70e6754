"""Makes the images that the options of `decode` are tested with, and what Pillow and torchvision make of them. Needs Pillow and
numpy; with torchvision installed, the shorter side and the middle are its own, otherwise they follow its arithmetic.

    python make.py    # writes cases.json and the files it names, beside this script

`cases.json` is a list of {file, decode, expected, shape, max}: `expected` holds the raw pixels, `max` how far ours may be from them.
"""

from __future__ import annotations

import io
import json
import sys
import zlib
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "images"))
from make import exif, jpeg, picture, saved  # noqa: E402
from make import short_side as by_arithmetic  # noqa: E402

try:
    from torchvision.transforms import functional
except ImportError:
    functional = None

FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "box": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "hamming": Image.Resampling.HAMMING,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
MODES = {"rgb": "RGB", "rgba": "RGBA", "gray": "L"}


def short_side(image: Image.Image, short: int, target: tuple[int, int], resample: Image.Resampling) -> Image.Image:
    """`Compose([Resize(short), CenterCrop(target)])`."""
    if functional is not None:
        modes = {filter: functional.InterpolationMode(name) for name, filter in FILTERS.items()}
        resized = functional.resize(image, [short], modes[resample])
        return functional.center_crop(resized, [target[1], target[0]])
    return by_arithmetic(image, short, target, resample)


def expected(encoded: bytes, decode: str) -> np.ndarray:
    kind, *words = decode.split(":")
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(encoded))).convert(MODES[kind])
    if not words:
        return np.asarray(image)
    width, _, height = words[0].partition("x")
    target = (int(width), int(height))
    resample = next((FILTERS[word] for word in words if word in FILTERS), Image.Resampling.BILINEAR)
    short = next((int(word[6:]) for word in words if word.startswith("short=")), None)
    if short is not None:
        image = short_side(image, short, target, resample)
    elif "crop" in words:
        image = ImageOps.fit(image, target, resample)
    elif "pad" in words:
        image = ImageOps.pad(image, target, resample)
    else:
        image = image.resize(target, resample)
    return np.asarray(image)


class Cases:
    """Files, and what is expected of them."""

    def __init__(self) -> None:
        self.cases: list[dict] = []

    def add(self, name: str, encoded: bytes, decodes: list[str], most: int = 1) -> None:
        (HERE / name).write_bytes(encoded)
        for decode in decodes:
            pixels = expected(encoded, decode)
            stored = f"{name}.{decode.replace(':', '-').replace('=', '')}.raw.z"
            (HERE / stored).write_bytes(zlib.compress(np.ascontiguousarray(pixels).tobytes(), 9))
            self.cases.append({"file": name, "decode": decode, "expected": stored, "shape": list(pixels.shape), "max": most})


def short_sides(cases: Cases) -> None:
    wide = saved(picture(125, 94, 3), "PNG")
    turned = saved(picture(94, 125, 4), "PNG", exif=exif(6))
    decodes = ["rgb:32x32:short=37", "rgb:33x28:short=40:bicubic", "rgb:20x20:short=33:nearest", "rgb:21x20:short=32:box"]
    # Less than the middle on one side, on both, and larger than the image.
    decodes += ["rgb:50x40:short=31", "rgb:51x50:short=20", "rgb:40x40:short=130"]
    # The whole image as it is, and its middle as it is.
    decodes += ["rgb:125x94:short=94", "rgb:40x40:short=94", "gray:32x32:short=37"]
    cases.add("wide.png", wide, decodes)
    cases.add("turned.png", turned, decodes[:6])
    cases.add("tall.png", saved(picture(3, 200, 5), "PNG"), ["rgb:24x24:short=25", "rgb:24x24:short=25:nearest"])
    for orientation in (1, 2, 6, 7):
        encoded = jpeg(picture(61, 47), exif=exif(orientation))
        cases.add(f"short-{orientation}.jpg", encoded, ["rgb:31x32:short=35", "rgb:31x32:short=35:nearest"], most=2)


def filters(cases: Cases) -> None:
    image = picture(125, 94, 6)
    decodes = [f"rgb:{rest}:{name}" for name in FILTERS for rest in ("56x42", "30x26:crop", "30x26:pad", "150x100")]
    cases.add("filters.png", saved(image, "PNG"), decodes + ["gray:56x42:lanczos", "gray:56x42:nearest"])
    decodes = [f"rgb:{rest}:{name}" for name in FILTERS for rest in ("56x42", "31x25:crop")]
    for orientation in (3, 6):
        cases.add(f"filters-{orientation}.png", saved(image, "PNG", exif=exif(orientation)), decodes)
    small = jpeg(picture(61, 47), subsampling="4:2:0")
    cases.add("filters.jpg", small, [f"rgb:32x24:{name}" for name in FILTERS], most=2)


def alpha(cases: Cases) -> None:
    image = picture(61, 47, 8)
    slope = (np.indices((47, 61)).sum(0) * 2.4).astype(np.uint8)
    slope[:9] = 0
    slope[-9:] = 255
    image.putalpha(Image.fromarray(slope))
    sized = ["rgba:30x24", "rgba:30x30:pad:bicubic", "rgba:30x20:crop:nearest", "rgba:24x24:short=30:lanczos", "rgba:80x60:box"]
    cases.add("alpha.png", saved(image, "PNG"), ["rgba", *sized])
    cases.add("alpha-turned.png", saved(image, "PNG", exif=exif(8)), ["rgba", *sized])
    cases.add("gray-alpha.png", saved(image.convert("LA"), "PNG"), ["rgba", "rgba:30x24"])
    cases.add("palette.png", saved(picture(40, 30).quantize(31), "PNG", transparency=3), ["rgba", "rgba:20x20"])
    cases.add("opaque.png", saved(image.convert("RGB"), "PNG"), ["rgba", "rgba:30x24", "rgba:30x40:pad"])
    cases.add("alpha.webp", saved(image, "WEBP", lossless=True, exact=True), ["rgba", "rgba:30x24"])
    cases.add("alpha.gif", saved(picture(40, 30).quantize(31), "GIF", transparency=3), ["rgba", "rgba:20x20"])
    cases.add("alpha.tif", saved(image, "TIFF"), ["rgba", "rgba:30x24"])
    cases.add("opaque.jpg", jpeg(image.convert("RGB")), ["rgba", "rgba:30x24", "rgba:40x40:pad"], most=2)
    cases.add("opaque.bmp", saved(image.convert("RGB"), "BMP"), ["rgba"])


def main() -> None:
    cases = Cases()
    short_sides(cases)
    filters(cases)
    alpha(cases)
    lines = ",\n".join(json.dumps(case) for case in cases.cases)
    (HERE / "cases.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
