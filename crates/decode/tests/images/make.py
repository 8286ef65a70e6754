"""Makes the images the decoder is tested with, and what Pillow makes of them. Needs Pillow and numpy.

    python make.py                 # writes cases.json and the files it names, beside this script
    python make.py --planes DIR    # writes the JPEGs and the expected pixels of tests/map-protocol/planes;
                                   # then: cargo run -p gpulane-decode --example planes DIR

`cases.json` is a list of {file, decode, expected, shape, type, mean, max}: `expected` holds the raw pixels Pillow gives,
`mean` and `max` how far ours may be from them.
"""

from __future__ import annotations

import io
import json
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, TiffImagePlugin

HERE = Path(__file__).resolve().parent


def picture(width: int, height: int, seed: int = 1) -> Image.Image:
    """A landscape of sorts: gradients, edges, a disc and some noise."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    x, y = x / width, y / height
    red = 255 * x
    green = 255 * (0.5 + 0.5 * np.sin(9 * x + 7 * y))
    blue = np.where(y > 0.6 + 0.1 * np.sin(8 * x), 40, 220)
    pixels = np.stack([red, green, blue], axis=-1)
    disc = (x - 0.3) ** 2 + (y - 0.35) ** 2 < 0.03
    pixels[disc] = (240, 200, 30)
    pixels += random.normal(0, 6, pixels.shape)
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8), "RGB")


def exif(orientation: int) -> bytes:
    tags = Image.Exif()
    tags[0x0112] = orientation
    return tags.tobytes()


def jpeg(image: Image.Image, **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", **{"quality": 88, **options})
    return buffer.getvalue()


def saved(image: Image.Image, kind: str, **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


# What Pillow makes of them ---------------------------------------------------------------------------------------


def shrink16(image: Image.Image) -> Image.Image:
    """16-bit gray is shifted, where Pillow would clip it."""
    if image.mode.startswith("I"):
        return Image.fromarray((np.asarray(image).astype(np.uint32) >> 8).astype(np.uint8), "L")
    return image


def expected(encoded: bytes, decode: str) -> np.ndarray:
    kind, *rest = decode.split(":")
    image = shrink16(ImageOps.exif_transpose(Image.open(io.BytesIO(encoded))))
    image = image.convert({"rgb": "RGB", "gray": "L"}[kind])
    if rest:
        size = tuple(int(side) for side in rest[0].split("x"))
        fit = rest[1] if len(rest) > 1 else "stretch"
        if fit.startswith("short="):
            image = short_side(image, int(fit[6:]), size)
        elif fit == "stretch":
            image = image.resize(size, Image.BILINEAR)
        elif fit == "crop":
            image = ImageOps.fit(image, size, Image.BILINEAR)
        else:
            image = ImageOps.pad(image, size, Image.BILINEAR)
    return np.asarray(image)


def short_side(image: Image.Image, short: int, target: tuple[int, int], resample: int = Image.BILINEAR) -> Image.Image:
    """torchvision's `Compose([Resize(short), CenterCrop(target)])`, by its own arithmetic."""
    width, height = image.size
    long = int(short * max(width, height) / min(width, height))
    resized = image.resize((short, long) if width <= height else (long, short), resample)
    added = [max(wanted - side, 0) for wanted, side in zip(target, resized.size)]
    canvas = Image.new(image.mode, tuple(side + more for side, more in zip(resized.size, added)))
    canvas.paste(resized, (added[0] // 2, added[1] // 2))
    left, top = (int(round((side - wanted) / 2.0)) for side, wanted in zip(canvas.size, target))
    return canvas.crop((left, top, left + target[0], top + target[1]))


class Cases:
    """Files, and what is expected of them."""

    def __init__(self) -> None:
        self.cases: list[dict] = []

    def file(self, name: str, encoded: bytes) -> None:
        (HERE / name).write_bytes(encoded)

    def case(self, name: str, decode: str, mean: float, most: int, pixels: np.ndarray | None = None) -> None:
        encoded = (HERE / name).read_bytes()
        pixels = expected(encoded, decode) if pixels is None else pixels
        stored = f"{name}.{decode.replace(':', '-')}.raw.z"
        (HERE / stored).write_bytes(zlib.compress(np.ascontiguousarray(pixels).tobytes(), 9))
        self.cases.append(
            {"file": name, "decode": decode, "expected": stored, "shape": list(pixels.shape), "type": str(pixels.dtype), "mean": mean, "max": most}
        )

    def add(self, name: str, encoded: bytes, decodes: list[str], mean: float, most: int) -> None:
        self.file(name, encoded)
        for decode in decodes:
            self.case(name, decode, mean, most)


JPEG = (0.4, 2)
EXACT = (0.0, 0)
RESIZED = (0.4, 1)
# Decoded smaller by the inverse DCT.
SHRUNK = (2.0, 30)


def jpegs(cases: Cases) -> None:
    image = picture(41, 31)
    sized = "rgb:24x18"
    for name, sampling in (("444", "4:4:4"), ("422", "4:2:2"), ("420", "4:2:0")):
        cases.add(f"jpeg-{name}.jpg", jpeg(image, subsampling=sampling), ["rgb", sized], *JPEG)
    cases.add("jpeg-440.jpg", as_440(image), ["rgb", sized], *JPEG)
    cases.add("jpeg-411.jpg", as_411(), ["rgb", sized], *JPEG)
    cases.add("jpeg-progressive.jpg", jpeg(image, progressive=True), ["rgb", sized, "gray:20x30"], 0.5, 4)
    cases.add("jpeg-gray.jpg", jpeg(image.convert("L")), ["rgb", "gray", sized, "gray:24x18"], *JPEG)
    cases.add("jpeg-restarts.jpg", jpeg(image, restart_marker_blocks=2), ["rgb", sized], *JPEG)
    cases.add("jpeg-cmyk.jpg", cmyk(image), ["rgb", sized, "gray"], *JPEG)
    cases.add("jpeg-ycck.jpg", ycck(image), ["rgb", sized, "gray:16x16"], *JPEG)
    cases.add("jpeg-rgb.jpg", jpeg(image, keep_rgb=True), ["rgb", sized, "gray"], *JPEG)
    cases.add("jpeg-one-pixel.jpg", jpeg(picture(1, 1)), ["rgb", "rgb:3x2"], *JPEG)
    cases.add("jpeg-large.jpg", jpeg(picture(333, 259), quality=70), ["rgb:40x30", "rgb:100x80"], *SHRUNK)
    cases.add("jpeg-even.jpg", jpeg(picture(192, 128), quality=70), ["rgb:40x30"], *SHRUNK)
    cases.add("jpeg-even-gray.jpg", jpeg(picture(192, 128).convert("L"), quality=70), ["rgb:40x30"], *SHRUNK)
    for orientation in range(1, 9):
        decodes = ["rgb", "rgb:24x18", "rgb:30x20:crop", "rgb:30x26:pad"] if orientation in (1, 6, 7) else ["rgb:24x18"]
        cases.add(f"jpeg-exif-{orientation}.jpg", jpeg(image, exif=exif(orientation)), decodes, *JPEG)
    whole = jpeg(image)
    cases.add("jpeg-trailer.jpg", whole + b"\0" * 300, ["rgb"], *JPEG)
    cases.add("jpeg-junk-in-header.jpg", whole[:20] + b"junk" + whole[20:], ["rgb", sized], *JPEG)
    cases.add("jpeg-junk-before-end.jpg", whole[:-2] + b"\0\0junk" + whole[-2:], ["rgb", sized], *JPEG)
    cases.add("jpeg-named-png.png", whole, ["rgb"], *JPEG)


def as_440(image: Image.Image) -> bytes:
    """4:4:0, which Pillow cannot write: a 4:2:2 file of the image on its side, turned without loss is what cameras do;
    here a 4:2:2 file gets its sampling factors swapped, which is a valid file of another picture."""
    encoded = bytearray(jpeg(image, subsampling="4:2:2"))
    at = encoded.index(b"\xff\xc0")
    assert encoded[at + 11] == 0x21
    encoded[at + 11] = 0x12
    # The blocks of an image of w × h in 4:2:2 (16 × 8 each) are read as blocks of 8 × 16: the sides must fit them.
    across, down = -(-image.width // 16), -(-image.height // 8)
    height, width = across * down // 4 * 16, 4 * 8
    encoded[at + 5 : at + 9] = struct.pack(">HH", height - 3, width - 5)
    return bytes(encoded)


def as_411() -> bytes:
    """4:1:1, made of a 4:2:0 file in the same way: six blocks of 16 × 16 become six of 32 × 8."""
    encoded = bytearray(jpeg(picture(48, 32), subsampling="4:2:0"))
    at = encoded.index(b"\xff\xc0")
    assert encoded[at + 11] == 0x22
    encoded[at + 11] = 0x41
    encoded[at + 5 : at + 9] = struct.pack(">HH", 23, 61)
    return bytes(encoded)


def cmyk(image: Image.Image) -> bytes:
    return jpeg(image.convert("CMYK"))


def ycck(image: Image.Image) -> bytes:
    """A CMYK file whose Adobe mark says YCCK: another picture, as valid."""
    encoded = bytearray(cmyk(image))
    at = encoded.index(b"Adobe")
    assert encoded[at + 11] == 0
    encoded[at + 11] = 2
    return bytes(encoded)


def stills(cases: Cases) -> None:
    image = picture(41, 31)
    sized = ["rgb:24x18", "rgb:30x30:crop", "rgb:30x31:pad"]
    ramp = (np.arange(41 * 31, dtype=np.uint32) * 50 % 65536).astype(np.uint16).reshape(31, 41)
    cases.add("png-rgb.png", saved(image, "PNG"), ["rgb", "gray"], *EXACT)
    alpha = image.copy()
    alpha.putalpha(Image.fromarray((np.indices((31, 41)).sum(0) * 3).astype(np.uint8), "L"))
    cases.add("png-rgba.png", saved(alpha, "PNG"), ["rgb", "gray"], *EXACT)
    cases.add("png-la.png", saved(alpha.convert("LA"), "PNG"), ["rgb", "gray"], *EXACT)
    cases.add("png-gray.png", saved(image.convert("L"), "PNG"), ["rgb", "gray"], *EXACT)
    cases.add("png-bits.png", saved(image.convert("1"), "PNG"), ["rgb", "gray"], *EXACT)
    cases.add("png-palette.png", saved(image.quantize(31), "PNG", transparency=3), ["rgb", "gray"], *EXACT)
    cases.add("png-turned.png", saved(image, "PNG", exif=exif(6)), ["rgb", "gray"], *EXACT)
    cases.add("png-16.png", saved(Image.fromarray(ramp), "PNG"), ["rgb"], *EXACT)
    cases.case("png-16.png", "gray", *EXACT, pixels=ramp)
    cases.file("png-rgb16.png", png16(image))
    cases.case("png-rgb16.png", "rgb", *EXACT, pixels=np.asarray(image))
    for name in ("png-rgb.png", "png-turned.png"):
        for decode in sized:
            cases.case(name, decode, *RESIZED)
    cases.case("png-rgb.png", "rgb:60x50", *RESIZED)
    cases.case("png-rgb.png", "rgb:41x31", *EXACT)
    cases.case("png-16.png", "gray:24x18", *RESIZED)
    cases.add("webp-lossy.webp", saved(image, "WEBP", quality=80), ["rgb", "rgb:24x18"], *JPEG)
    cases.add("webp-lossless.webp", saved(image, "WEBP", lossless=True), ["rgb", "gray"], *EXACT)
    cases.add("webp-alpha.webp", saved(alpha, "WEBP", lossless=True, exact=True), ["rgb"], *EXACT)
    cases.add("webp-turned.webp", saved(image, "WEBP", lossless=True, exif=exif(8)), ["rgb"], *EXACT)
    frames = [picture(31, 23, seed) for seed in (2, 3)]
    cases.add("webp-animated.webp", saved(frames[0], "WEBP", save_all=True, append_images=frames[1:], lossless=True), ["rgb"], *EXACT)
    cases.add("gif-animated.gif", saved(frames[0].quantize(64), "GIF", save_all=True, append_images=frames[1:]), ["rgb"], *EXACT)
    cases.add("gif-offset.gif", gif_offset(), ["rgb", "gray"], *EXACT)
    cases.add("bmp.bmp", saved(frames[0], "BMP"), ["rgb", "gray", "rgb:16x12"], *RESIZED)
    cases.add("bmp-palette.bmp", saved(frames[0].quantize(16), "BMP"), ["rgb"], *EXACT)


def png16(image: Image.Image) -> bytes:
    """16-bit RGB, which Pillow cannot write; the low bytes are noise."""
    high = np.asarray(image).astype(np.uint16)
    low = np.random.default_rng(5).integers(0, 8, high.shape, dtype=np.uint16)
    rows = (high << 8 | low).astype(">u2").tobytes()
    stride = image.width * 6
    raw = b"".join(b"\0" + rows[at : at + stride] for at in range(0, len(rows), stride))
    header = struct.pack(">IIBBBBB", image.width, image.height, 16, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b"")


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def gif_offset() -> bytes:
    """A frame that does not cover its screen, with a transparent colour."""
    small = saved(picture(9, 7).quantize(8), "GIF", transparency=2)
    at = small.index(b"\x2c", 13 + 3 * 8)
    wide = bytearray(small)
    wide[6:10] = struct.pack("<HH", 15, 12)
    wide[at + 1 : at + 5] = struct.pack("<HH", 4, 3)
    return bytes(wide)


def tiffs(cases: Cases) -> None:
    image = picture(41, 31)
    for name, compression in (("none", None), ("lzw", "tiff_lzw"), ("deflate", "tiff_adobe_deflate"), ("packbits", "packbits")):
        cases.add(f"tiff-{name}.tif", saved(image, "TIFF", compression=compression), ["rgb"], *EXACT)
    cases.add("tiff-gray.tif", saved(image.convert("L"), "TIFF"), ["gray", "rgb"], *EXACT)
    cases.case("tiff-lzw.tif", "rgb:24x18", *RESIZED)
    cases.case("tiff-lzw.tif", "gray", *EXACT)
    tags = TiffImagePlugin.ImageFileDirectory_v2()
    tags[274] = 6
    cases.add("tiff-turned.tif", saved(image, "TIFF", tiffinfo=tags), ["rgb"], *EXACT)
    cases.add("tiff-cmyk.tif", saved(image.convert("CMYK"), "TIFF", compression="tiff_lzw"), ["rgb"], *EXACT)
    random = np.random.default_rng(7)
    stack = (np.cumsum(random.integers(0, 40, (3, 19, 23)), axis=2) * 60).astype(np.uint16)
    pages = [Image.fromarray(page) for page in stack]
    for name, compression in (("stack", "tiff_lzw"), ("stack-plain", None)):
        cases.file(f"tiff-{name}.tif", saved(pages[0], "TIFF", save_all=True, append_images=pages[1:], compression=compression))
        cases.case(f"tiff-{name}.tif", "gray", *EXACT, pixels=stack)
    cases.case("tiff-stack.tif", "gray:12x10", *RESIZED)
    cases.case("tiff-stack.tif", "rgb", *EXACT)
    cases.file("tiff-unequal.tif", saved(pages[0], "TIFF", save_all=True, append_images=[Image.fromarray(stack[1][:5])]))
    cases.case("tiff-unequal.tif", "gray", *EXACT, pixels=stack[0])
    floats = (stack[0] / 7.0).astype(np.float32)
    cases.file("tiff-float.tif", saved(Image.fromarray(floats, "F"), "TIFF"))
    cases.case("tiff-float.tif", "gray", *EXACT, pixels=floats)


def bad(cases: Cases) -> None:
    """Files that must be refused; `bad.json` says with which words."""
    image = picture(41, 31)
    whole = jpeg(image)
    reasons: dict[str, str] = {}

    def add(name: str, encoded: bytes, words: str) -> None:
        cases.file(name, encoded)
        reasons[name] = words

    add("bad-empty.jpg", b"", "empty file")
    add("bad-truncated.jpg", whole[: len(whole) * 2 // 3], "truncated")
    add("bad-truncated-with-end.jpg", whole[: len(whole) // 2] + b"\xff\xd9", "truncated")
    progressive = jpeg(image, progressive=True)
    add("bad-truncated-progressive.jpg", progressive[: len(progressive) * 2 // 3], "truncated")
    add("bad-header-only.jpg", whole[:100], "truncated")
    add("bad-html.jpg", b"<html><head><title>404</title>", "starts with `<html>")
    add("bad-zeros.jpg", b"\0" * 4096, "all its bytes are zero")
    huge = bytearray(whole)
    at = huge.index(b"\xff\xc0")
    huge[at + 5 : at + 9] = b"\xff\xff\xff\xff"
    add("bad-huge.jpg", bytes(huge), "65535×65535")
    png = saved(image, "PNG")
    add("bad-truncated.png", png[: len(png) // 2], "truncated")
    claims = struct.pack(">IIBBBBB", 200_000, 200_000, 8, 2, 0, 0, 0)
    body = zlib.compress(b"\0" * 10_000, 9)
    add("bad-huge.png", b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", claims) + chunk(b"IDAT", body) + chunk(b"IEND", b""), "200000×200000")
    # 16,000 × 16,000 black pixels in 100 KB: refused by pixels, not by bytes in the file.
    packer = zlib.compressobj(9)
    rows = b"".join(packer.compress(b"\0" * (1 + 2000)) for _ in range(16_000)) + packer.flush()
    claims = struct.pack(">IIBBBBB", 16_000, 16_000, 1, 0, 0, 0, 0)
    add("bad-bomb.png", b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", claims) + chunk(b"IDAT", rows) + chunk(b"IEND", b""), "16000×16000")
    webp = saved(image, "WEBP", quality=80)
    add("bad-truncated.webp", webp[: len(webp) // 2], "")
    tif = saved(image, "TIFF", compression="tiff_lzw")
    add("bad-truncated.tif", tif[:2000], "")
    gif = saved(image.quantize(64), "GIF")
    add("bad-truncated.gif", gif[: len(gif) // 2], "")
    bmp = saved(image, "BMP")
    add("bad-truncated.bmp", bmp[: len(bmp) // 2], "truncated")
    (HERE / "bad.json").write_text(json.dumps(reasons, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


# Planes ----------------------------------------------------------------------------------------------------------


def planes(folder: Path) -> None:
    """JPEGs and the pixels they must give; the planes themselves are written by the example of that name."""
    folder.mkdir(parents=True, exist_ok=True)
    image = picture(61, 47)
    samplings = {"444": "4:4:4", "422": "4:2:2", "420": "4:2:0"}
    wanted = [(name, orientation, (32, 32), "stretch") for name in (*samplings, "440", "gray") for orientation in (1, 6)]
    wanted += [("420", orientation, (32, 24), "stretch") for orientation in (2, 3, 4, 5, 7, 8)]
    wanted += [("420", orientation, (40, 36), fit) for orientation in (1, 6) for fit in ("crop", "pad")]
    wanted += [("420", 1, (80, 70), "stretch"), ("444", 1, (61, 47), "stretch")]
    # An odd number of pixels is left out; fewer than asked for on one side, on both.
    wanted += [("420", orientation, (32, 35), "short=40") for orientation in (1, 2, 6, 7)]
    wanted += [("444", 1, (55, 40), "short=45"), ("444", 6, (50, 55), "short=36")]
    for name, orientation, target, fit in wanted:
        if name == "gray":
            encoded = jpeg(image.convert("L"), exif=exif(orientation))
        elif name == "440":
            encoded = as_440(image)
            encoded = encoded[:2] + exif_segment(orientation) + encoded[2:]
        else:
            encoded = jpeg(image, subsampling=samplings[name], exif=exif(orientation))
        stem = f"{name}-{orientation}-{target[0]}x{target[1]}-{fit}"
        (folder / f"{stem}.jpg").write_bytes(encoded)
        decode = f"rgb:{target[0]}x{target[1]}:{fit}"
        (folder / f"{stem}.rgb").write_bytes(expected(encoded, decode).tobytes())
        (folder / f"{stem}.json").write_text(json.dumps({"target": list(target), "fit": fit}))


def exif_segment(orientation: int) -> bytes:
    body = exif(orientation)
    return b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body


def main() -> None:
    if sys.argv[1:2] == ["--planes"]:
        planes(Path(sys.argv[2]))
        return
    cases = Cases()
    jpegs(cases)
    stills(cases)
    tiffs(cases)
    bad(cases)
    lines = ",\n".join(json.dumps(case) for case in cases.cases)
    (HERE / "cases.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
