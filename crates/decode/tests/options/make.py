"""Makes the images that the options of `decode` are tested with, and what Pillow and torchvision make of them. Needs Pillow, of
version 13 (which resizes columns before rows where the height shrinks much more than the width), and numpy; with torchvision installed, the shorter side and the middle are its own, otherwise they follow its arithmetic.

    python make.py    # writes cases.json and the files it names, beside this script

`cases.json` is a list of {file, decode, expected, shape, max}: `expected` holds the raw pixels, `max` how far ours may be from them.
"""

from __future__ import annotations

import io
import json
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
from PIL import Image, ImageCms, ImageOps

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "images"))
from make import chunk, exif, jpeg, picture, saved  # noqa: E402
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


def as_srgb(image: Image.Image, profile: bytes | None) -> Image.Image:
    """What `ImageCms.profileToProfile` makes of an image by its own profile: perceptual, as is its default."""
    if profile is None:
        return image
    source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
    space = source.profile.xcolor_space.strip()
    if space == "RGB" and image.mode not in ("RGB", "RGBA"):
        image = image.convert("RGBA" if "A" in image.mode or "transparency" in image.info else "RGB")
    mode = "RGBA" if image.mode == "RGBA" else "RGB"
    return ImageCms.profileToProfile(image, source, ImageCms.createProfile("sRGB"), outputMode=mode)


def expected(encoded: bytes, decode: str, profile: bytes | None = None) -> np.ndarray:
    kind, *words = decode.split(":")
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(encoded)))
    if "srgb" in words:
        words.remove("srgb")
        image = as_srgb(image, profile or image.info.get("icc_profile"))
    image = image.convert(MODES[kind])
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
        self.refused: list[dict] = []

    def add(self, name: str, encoded: bytes, decodes: list[str], most: int = 1, profile: bytes | None = None) -> None:
        """`profile`: what the file carries, where Pillow does not read it."""
        (HERE / name).write_bytes(encoded)
        for decode in decodes:
            pixels = expected(encoded, decode, profile)
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
    # Pillow 13 begins with the columns where the height shrinks by more than twice what the width does.
    decodes = ["rgb:56x42:bicubic", "rgb:56x42:lanczos", "rgb:40x40:crop:lanczos", "rgb:36x36:short=40:lanczos"]
    cases.add("filters-tall.png", saved(picture(31, 160, 7), "PNG"), decodes)
    cases.add("filters-lying.png", saved(picture(160, 31, 7), "PNG", exif=exif(6)), decodes)
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
    cases.add("alpha.bmp", with_masks(image), ["rgba", "rgb"])
    cases.add("palette.tif", saved(picture(40, 30).quantize(31), "TIFF"), ["rgb", "gray"])


def noise(cases: Cases) -> None:
    """What is hardest to resize: no pixel is like its neighbours, and the height shrinks more than the width."""
    random = np.random.default_rng(20)
    for name, channels, most in (("noise.png", 3, 2), ("noise-alpha.png", 4, 3)):
        image = Image.fromarray(random.integers(0, 256, (100, 45, channels), dtype=np.uint8))
        for filter in FILTERS:
            fits = ("40x32", "24x24:short=30", "30x30:crop", "60x70:pad")
            decodes = [f"{'rgba' if channels == 4 else 'rgb'}:{fit}:{filter}" for fit in fits]
            cases.add(name, saved(image, "PNG"), decodes, most=0 if filter in ("nearest", "box") else most)


# Colour profiles -------------------------------------------------------------------------------------------------

# What a colour is in the profile's own space, adapted to D50: red, green, blue.
P3 = ((0.51512, 0.2412, -0.00105), (0.29198, 0.69225, 0.04189), (0.1571, 0.06657, 0.78407))
ADOBE = ((0.60974, 0.31111, 0.01947), (0.20528, 0.62567, 0.06087), (0.14919, 0.06322, 0.74457))
PROPHOTO = ((0.79767, 0.28804, 0.0), (0.13519, 0.71188, 0.0), (0.03134, 0.00009, 0.82491))
SRGB = ((0.43607, 0.22249, 0.01392), (0.38515, 0.71687, 0.09708), (0.14307, 0.06061, 0.7141))


def fixed(number: float) -> bytes:
    return struct.pack(">i", round(number * 65536))


def xyz(colour: tuple[float, float, float]) -> bytes:
    return b"XYZ \0\0\0\0" + b"".join(map(fixed, colour))


def gamma(power: float) -> bytes:
    return b"curv\0\0\0\0" + struct.pack(">IH", 1, round(power * 256))


def srgb_curve() -> bytes:
    numbers = (2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045)
    return b"para\0\0\0\0" + struct.pack(">HH", 3, 0) + b"".join(map(fixed, numbers))


def icc(version: int, kind: bytes, space: bytes, pcs: bytes, tags: dict[bytes, bytes]) -> bytes:
    """A profile of these tags."""
    tags = {b"desc": b"desc\0\0\0\0\0\0\0\x05test\0" + bytes(78), b"wtpt": xyz((0.9642, 1.0, 0.8249)), **tags}
    at = 128 + 4 + 12 * len(tags)
    table, bodies = struct.pack(">I", len(tags)), b""
    for name, body in tags.items():
        body += bytes(-len(body) % 4)
        table += name + struct.pack(">II", at + len(bodies), len(body))
        bodies += body
    d50 = b"".join(map(fixed, (0.9642, 1.0, 0.8249)))
    head = struct.pack(">I4sI", at + len(bodies), b"lcms", version << 24) + kind + space + pcs
    head += bytes(12) + b"acsp" + bytes(24) + struct.pack(">I", 0) + d50
    return head + bytes(128 - len(head)) + table + bodies


def matrix(colours: tuple, curve: bytes, version: int = 2) -> bytes:
    tags = dict(zip((b"rXYZ", b"gXYZ", b"bXYZ"), map(xyz, colours)))
    return icc(version, b"mntr", b"RGB ", b"XYZ ", {**tags, **dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), curve)})


def gray(curve: bytes) -> bytes:
    return icc(2, b"mntr", b"GRAY", b"XYZ ", {b"kTRC": curve})


def table(inputs: int, outputs: int, grid: int, values: np.ndarray) -> bytes:
    """A `lut16Type` without curves. `values`: 0 to 1."""
    head = b"mft2\0\0\0\0" + bytes([inputs, outputs, grid, 0])
    head += b"".join(map(fixed, (1, 0, 0, 0, 1, 0, 0, 0, 1))) + struct.pack(">HH", 2, 2)
    ramp = struct.pack(">HH", 0, 65535)
    return head + ramp * inputs + (values * 65535).round().astype(">u2").tobytes() + ramp * outputs


def press(version: int) -> bytes:
    """Ink on paper that is not white, with a black that is not black."""
    grid = np.linspace(0, 1, 5)
    ink = np.stack(np.meshgrid(grid, grid, grid, grid, indexing="ij"), axis=-1).reshape(-1, 4)
    light = (1 - ink[:, :3] * [0.85, 0.8, 0.9]) * (1 - 0.88 * ink[:, 3:])
    lightness = 12 + 82 * (light @ [0.25, 0.6, 0.15]) ** 0.8
    red_green = 70 * (light[:, 0] - light[:, 1])
    yellow_blue = 60 * (light @ [0.5, 0.5, -1.0])
    lab = np.stack([lightness / 100, (red_green + 128) / 255, (yellow_blue + 128) / 255], axis=-1) * (65280 / 65535)
    side = np.linspace(0, 1, 5)
    back = np.stack(np.meshgrid(side, side, side, indexing="ij"), axis=-1).reshape(-1, 3)
    inks = np.concatenate([np.clip(1.2 - back, 0, 1), np.clip(1 - back[:, :1] * 1.4, 0, 1)], axis=-1)
    tags = {b"A2B0": table(4, 3, 5, lab.clip(0, 1)), b"B2A0": table(3, 4, 5, inks)}
    return icc(version, b"prtr", b"CMYK", b"Lab ", tags)


def profiles(cases: Cases) -> None:
    image = picture(48, 36, 9)
    kinds = {
        "p3-v4": matrix(P3, srgb_curve(), 4),
        "p3-v2": matrix(P3, gamma(2.2)),
        "adobe": matrix(ADOBE, gamma(2.19921875)),
        "prophoto": matrix(PROPHOTO, gamma(1.8)),
        "srgb": matrix(SRGB, srgb_curve(), 4),
    }
    for name, profile in kinds.items():
        cases.add(f"icc-{name}.png", saved(image, "PNG", icc_profile=profile), ["rgb:srgb", "rgb"], most=2)
    wide = kinds["p3-v4"]
    cases.add("icc-resized.png", saved(image, "PNG", icc_profile=wide, exif=exif(6)), ["rgb:20x24:bicubic:srgb", "gray:srgb", "rgba:srgb"], most=2)
    clear = image.copy()
    clear.putalpha(Image.fromarray((np.indices((36, 48)).sum(0) * 3).astype(np.uint8)))
    cases.add("icc-alpha.png", saved(clear, "PNG", icc_profile=wide), ["rgba:srgb", "rgb:srgb", "rgba:20x20:srgb"], most=2)
    cases.add("icc-palette.png", saved(image.quantize(31), "PNG", icc_profile=wide), ["rgb:srgb"], most=2)
    cases.add("icc-gray.png", saved(image.convert("L"), "PNG", icc_profile=gray(gamma(1.8))), ["rgb:srgb", "gray:srgb", "gray:20x20:srgb"], most=2)
    cases.add("icc-gray-rgb.png", saved(image.convert("L"), "PNG", icc_profile=kinds["prophoto"]), ["rgb:srgb"], most=2)
    cases.add("icc.jpg", jpeg(image, icc_profile=wide), ["rgb:srgb", "rgb:40x30:srgb", "gray:srgb"], most=3)
    # In two parts: 65,519 bytes fit into one.
    large = icc(2, b"mntr", b"RGB ", b"XYZ ", {**dict(zip((b"rXYZ", b"gXYZ", b"bXYZ"), map(xyz, ADOBE))), **dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), gamma(2.2)), b"priv": b"data" + bytes(70_000)})
    cases.add("icc-parts.jpg", jpeg(image, icc_profile=large), ["rgb:srgb"], most=3)
    cases.add("icc-gray.jpg", jpeg(image.convert("L"), icc_profile=gray(gamma(2.6))), ["rgb:srgb", "gray:srgb"], most=3)
    for version in (2, 4):
        cases.add(f"icc-press-v{version}.jpg", jpeg(image.convert("CMYK"), icc_profile=press(version)), ["rgb:srgb", "rgb:40x30:srgb"], most=3)
        cases.add(f"icc-press-v{version}.tif", saved(image.convert("CMYK"), "TIFF", icc_profile=press(version), compression="tiff_lzw"), ["rgb:srgb", "rgb"], most=2)
    cases.add("icc.tif", saved(image, "TIFF", icc_profile=wide, compression="tiff_lzw"), ["rgb:srgb"], most=2)
    cases.add("icc.webp", saved(image, "WEBP", icc_profile=wide, lossless=True), ["rgb:srgb", "rgb:20x20:srgb"], most=2)
    cases.add("icc.bmp", with_profile(saved(image, "BMP"), wide), ["rgb:srgb", "rgb"], most=2, profile=wide)
    plain = saved(image.quantize(31), "GIF")
    at = 13 + 3 * 2 ** ((plain[10] & 7) + 1)
    blocks = b"".join(bytes([len(part)]) + part for part in (wide[n : n + 255] for n in range(0, len(wide), 255)))
    cases.add("icc.gif", plain[:at] + b"\x21\xff\x0bICCRGBG1012" + blocks + b"\0" + plain[at:], ["rgb:srgb"], most=2, profile=wide)


def refused(cases: Cases) -> None:
    """What cannot be converted as asked; with the words of the reason, or nothing where it is taken without a profile."""
    image = picture(48, 36, 9)

    def add(name: str, encoded: bytes, words: str | None) -> None:
        (HERE / name).write_bytes(encoded)
        cases.refused.append({"file": name, "words": words})

    whole = matrix(P3, srgb_curve(), 4)
    add("bad-icc.png", saved(image, "PNG", icc_profile=b"no profile" * 30), "damaged colour profile")
    add("bad-icc-cut.png", saved(image, "PNG", icc_profile=whole[:200]), "damaged colour profile")
    add("bad-icc-empty.png", saved(image, "PNG", icc_profile=icc(2, b"mntr", b"RGB ", b"XYZ ", {})), "damaged colour profile")
    add("bad-icc-press.jpg", jpeg(image, icc_profile=press(2)), "is for Cmyk, its pixels are RGB")
    add("bad-icc-gray.png", saved(image, "PNG", icc_profile=gray(gamma(1.8))), "is for Gray, its pixels are RGB")
    add("bad-icc-rgb.tif", saved(image.convert("CMYK"), "TIFF", icc_profile=whole), "is for Rgb, its pixels are CMYK")
    bomb = bytearray(press(2))
    bomb[bomb.index(b"mft2") + 10] = 200
    add("bad-icc-bomb.png", saved(image, "PNG", icc_profile=bytes(bomb)), "larger than the profile")
    packed = saved(image, "PNG", icc_profile=whole)
    at = packed.index(b"iCCP")
    length = struct.unpack(">I", packed[at - 4 : at])[0]
    body = packed[at + 4 : at + 4 + length // 2] + bytes(length - length // 2)
    add("icc-unpacked.png", packed[: at - 4] + chunk(b"iCCP", body) + packed[at + 8 + length :], None)


def with_masks(image: Image.Image) -> bytes:
    """A BMP of four bytes a pixel whose header has a mask for alpha."""
    pixels = np.asarray(image)[::-1, :, [2, 1, 0, 3]].tobytes()
    header = struct.pack("<IiiHHIIiiII", 108, *image.size, 1, 32, 3, len(pixels), 0, 0, 0, 0)
    header += struct.pack("<IIII", 0xFF0000, 0xFF00, 0xFF, 0xFF000000) + bytes(108 - 56)
    return b"BM" + struct.pack("<IHHI", 14 + 108 + len(pixels), 0, 0, 14 + 108) + header + pixels


def with_profile(bmp: bytes, profile: bytes) -> bytes:
    """The same with the fifth version of the header, which can have a profile."""
    header, pixels = bytearray(124), bmp[54:]
    header[:40] = bmp[14:54]
    header[0:4] = struct.pack("<I", 124)
    header[56:60] = b"DEBM"
    header[112:120] = struct.pack("<II", 124 + len(pixels), len(profile))
    return b"BM" + struct.pack("<IHHI", 138 + len(pixels) + len(profile), 0, 0, 138) + bytes(header) + pixels + profile


def main() -> None:
    cases = Cases()
    short_sides(cases)
    filters(cases)
    alpha(cases)
    noise(cases)
    profiles(cases)
    refused(cases)
    (HERE / "refused.json").write_text(json.dumps(cases.refused, indent=1) + "\n", encoding="utf-8")
    lines = ",\n".join(json.dumps(case) for case in cases.cases)
    (HERE / "cases.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
