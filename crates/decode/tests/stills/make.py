"""Makes `cases.jsonl`: small PNG, WebP, GIF, BMP, JPEG and TIFF files with everything these formats allow, and what Pillow makes of each.

    python make.py      # needs Pillow (13.0 made what is stored) and numpy

A line is {name, decode, file, …} with the file in hexadecimal, and `pixels` (zlib, hexadecimal), `shape`, `mean` and `max` (how far
ours may be from them); or `refused`, words of the reason. What Pillow refuses must be refused here by hand, with those words.
"""

from __future__ import annotations

import io
import json
import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from bmps import bmps

HERE = Path(__file__).resolve().parent
EXACT = (0.0, 0)


def picture(width: int, height: int, seed: int = 1) -> Image.Image:
    """Slopes, edges and some noise; no two corners alike."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    pixels = np.stack([255 * x / width, 255 * y / height, 128 + 100 * np.sin(x + 2 * y)], axis=-1)
    pixels[: height // 3, : width // 2] = (240, 200, 30)
    return Image.fromarray(np.clip(pixels + random.normal(0, 6, pixels.shape), 0, 255).astype(np.uint8), "RGB")


def saved(image: Image.Image, kind: str, **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


class Cases:
    def __init__(self) -> None:
        self.lines: list[dict] = []

    def add(self, name: str, encoded: bytes, decode: str = "rgb", allowed: tuple[float, int] = EXACT) -> None:
        """A file that both decode, to the same pixels."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image = ImageOps.exif_transpose(Image.open(io.BytesIO(encoded)))
        if image.mode.startswith("I"):
            # 16 bits are shifted, where Pillow would clip.
            image = Image.fromarray((np.asarray(image).astype(np.uint32) >> 8).astype(np.uint8), "L")
        pixels = np.asarray(image.convert({"rgb": "RGB", "rgba": "RGBA", "gray": "L"}[decode]))
        packed = zlib.compress(pixels.tobytes(), 9).hex()
        line = {"name": name, "decode": decode, "file": encoded.hex(), "pixels": packed, "shape": list(pixels.shape)}
        self.lines.append({**line, "mean": allowed[0], "max": allowed[1]})

    def refuse(self, name: str, encoded: bytes, words: str) -> None:
        """A file that neither decodes."""
        try:
            Image.open(io.BytesIO(encoded)).load()
        except (OSError, SyntaxError, ValueError, struct.error, IndexError):
            self.lines.append({"name": name, "decode": "rgb", "file": encoded.hex(), "refused": words})
        else:
            raise SystemExit(f"{name}: Pillow decodes it")


# Orientation ---------------------------------------------------------------------------------------------------

TYPES = {
    "BYTE": (1, "<B"), "SHORT": (3, "<H"), "LONG": (4, "<L"), "SBYTE": (6, "<b"), "SSHORT": (8, "<h"), "SLONG": (9, "<l"),
    "FLOAT": (11, "<f"), "IFD": (13, "<L"), "RATIONAL": (5, "<LL"), "DOUBLE": (12, "<d"), "UNDEFINED": (7, "<B"),
}  # fmt: skip


def tagged(kind: str, value: int, count: int = 1) -> bytes:
    """A TIFF header and a directory with one tag, of that type."""
    code, form = TYPES[kind]
    data = struct.pack(form, value, 1) if kind == "RATIONAL" else struct.pack(form, value)
    data *= count
    field = data.ljust(4, b"\0") if len(data) <= 4 else struct.pack("<L", 26)
    return b"II*\0\x08\0\0\0\x01\0" + struct.pack("<HHL", 0x112, code, count) + field + bytes(4) + (data if len(data) > 4 else b"")


def xmp(value: int, element: bool = False) -> bytes:
    inner = f"><tiff:Orientation>{value}</tiff:Orientation>" if element else f' tiff:Orientation="{value}">'
    return (
        '<?xpacket begin="" id="W5M0MpCehiHzreSzNTczkc9d"?><x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF '
        'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description xmlns:tiff="http://ns.adobe.com/tiff/1.0/"'
        f"{inner}</rdf:Description></rdf:RDF></x:xmpmeta><?xpacket end='w'?>"
    ).encode()


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def pieces(png: bytes) -> tuple[bytes, bytes, bytes]:
    """What stands before the pixels, the pixels, and the end."""
    first, end = png.index(b"IDAT") - 4, png.index(b"IEND") - 4
    return png[:first], png[first:end], png[end:]


def raw_profile(name: str, block: bytes) -> bytes:
    text = block.hex()
    lines = "\n".join(text[at : at + 72] for at in range(0, len(text), 72))
    return f"\n{name}\n{len(block):8}\n{lines}\n".encode()


def turned_pngs(cases: Cases, image: Image.Image) -> None:
    before, pixels, end = pieces(saved(image, "PNG"))
    exif, marked = tagged("SHORT", 6), b"Exif\0\0" + tagged("SHORT", 6)
    text, packed = b"XML:com.adobe.xmp\0", zlib.compress
    itxt = text + b"\0\0\0\0"
    profile = b"Raw profile type exif\0"
    notes = {
        "eXIf": chunk(b"eXIf", exif),
        "eXIf with its mark": chunk(b"eXIf", marked),
        "eXIf twice": chunk(b"eXIf", tagged("SHORT", 3)) + chunk(b"eXIf", exif),
        "iTXt XMP attribute": chunk(b"iTXt", itxt + xmp(6)),
        "iTXt XMP element": chunk(b"iTXt", itxt + xmp(8, True)),
        "iTXt XMP packed": chunk(b"iTXt", text + b"\1\0\0\0" + packed(xmp(5))),
        "tEXt XMP": chunk(b"tEXt", text + xmp(7)),
        "zTXt XMP": chunk(b"zTXt", text + b"\0" + packed(xmp(2))),
        "zTXt raw profile": chunk(b"zTXt", profile + b"\0" + packed(raw_profile("exif", marked))),
        "tEXt raw profile": chunk(b"tEXt", profile + raw_profile("exif", marked)),
        "tEXt exif": chunk(b"tEXt", b"exif\0" + exif),
        "eXIf and XMP": chunk(b"eXIf", exif) + chunk(b"iTXt", itxt + xmp(3)),
        "eXIf and raw profile": chunk(b"eXIf", exif) + chunk(b"tEXt", profile + raw_profile("exif", b"Exif\0\0" + tagged("SHORT", 3))),
        "eXIf without the tag and XMP": chunk(b"eXIf", b"II*\0\x08\0\0\0\0\0\0\0\0\0") + chunk(b"iTXt", itxt + xmp(3)),
        "eXIf of 0 and XMP": chunk(b"eXIf", tagged("SHORT", 0)) + chunk(b"iTXt", itxt + xmp(3)),
    }
    for name, note in notes.items():
        cases.add(f"turned png {name}", before + note + pixels + end)
        cases.add(f"turned png {name} behind the pixels", before + pixels + note + end)
    cases.add("turned png eXIf on both sides", before + chunk(b"eXIf", tagged("SHORT", 3)) + pixels + chunk(b"eXIf", exif) + end)
    cases.add("turned png eXIf behind the end", before + pixels + end + chunk(b"eXIf", exif))


def turned(cases: Cases) -> None:
    image = picture(7, 4)
    turned_pngs(cases, image)
    for kind in TYPES:
        for count in (1, 2):
            before, pixels, end = pieces(saved(image, "PNG"))
            cases.add(f"turned png eXIf {count} {kind}", before + chunk(b"eXIf", tagged(kind, 6, count)) + pixels + end)
    plain = saved(image, "JPEG", quality=95, subsampling=0)
    app1 = lambda body: b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body
    packet = lambda value, element=False: app1(b"http://ns.adobe.com/xap/1.0/\0" + xmp(value, element))
    exif = b"Exif\0\0" + tagged("SLONG", 6)
    for name, segments in {
        "SLONG": app1(exif),
        "XMP attribute": packet(8),
        "XMP element": packet(5, True),
        "XMP twice": packet(8) + packet(3),
        "XMP before EXIF": packet(8) + app1(exif),
        "EXIF of 0 and XMP": app1(b"Exif\0\0" + tagged("SHORT", 0)) + packet(8),
        "EXIF without the tag and XMP": app1(b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0\0\0") + packet(8),
        "EXIF in two segments": app1(exif[:20]) + app1(b"Exif\0\0" + exif[20:]),
    }.items():
        cases.add(f"turned jpeg {name}", plain[:2] + segments + plain[2:], allowed=(0.4, 2))
    for name, options in {
        "EXIF SLONG": {"exif": tagged("SLONG", 6)},
        "EXIF with its mark": {"exif": b"Exif\0\0" + tagged("SHORT", 6)},
        "XMP attribute": {"xmp": xmp(8)},
        "XMP element": {"xmp": xmp(7, True)},
        "EXIF and XMP": {"exif": tagged("SHORT", 6), "xmp": xmp(8)},
    }.items():
        whole = saved(image, "WEBP", lossless=True, **options)
        cases.add(f"turned webp {name}", whole)
        unsaid = bytearray(whole)
        unsaid[20] &= ~0x0C
        cases.add(f"turned webp {name}, not announced", bytes(unsaid))
    cases.add("turned tiff XMP", saved(image, "TIFF", tiffinfo={700: xmp(6)}))
    cases.add("turned tiff XMP and the tag", saved(image, "TIFF", tiffinfo={700: xmp(6), 274: 8}))


# WebP ----------------------------------------------------------------------------------------------------------


def riff(body: bytes, length: int | None = None) -> bytes:
    return b"RIFF" + struct.pack("<L", len(body) + 4 if length is None else length) + b"WEBP" + body


def part(name: bytes, body: bytes) -> bytes:
    return name + struct.pack("<L", len(body)) + body + b"\0" * (len(body) % 2)


def webps(cases: Cases) -> None:
    for width, height in ((1, 1), (2, 1), (17, 13), (16, 16), (33, 48)):
        image = picture(width, height)
        alpha = image.copy()
        alpha.putalpha(image.convert("L"))
        for name, kind, options in (
            ("lossy", image, {"quality": 70}),
            ("lossy of quality 100", image, {"quality": 100}),
            ("lossless", image, {"lossless": True}),
            ("lossy with alpha", alpha, {"quality": 70}),
            ("lossless with alpha", alpha, {"lossless": True, "exact": True}),
            ("lossy with packed alpha", alpha, {"quality": 70, "alpha_quality": 40, "method": 6}),
        ):
            cases.add(f"webp {name} {width}x{height}", saved(kind, "WEBP", **options))
            cases.add(f"webp {name} {width}x{height} rgba", saved(kind, "WEBP", **options), "rgba")
    image, frames = picture(23, 15), [picture(23, 15, seed) for seed in (2, 3)]
    for name, options in (("lossy", {"quality": 80}), ("lossless", {"lossless": True})):
        cases.add(f"webp animated {name}", saved(image, "WEBP", save_all=True, append_images=frames, **options))
    clear = [Image.new("RGBA", (23, 15), (9, 99, 200, 0)) for _ in range(2)]
    clear[0].paste(picture(7, 5), (6, 4))
    cases.add("webp animated, first frame smaller", saved(clear[0], "WEBP", save_all=True, append_images=clear[1:], lossless=True))
    small = saved(picture(6, 4), "WEBP", lossless=True)[12:]
    frame = struct.pack("<L", 3)[:3] + struct.pack("<L", 2)[:3] + struct.pack("<L", 5)[:3] + struct.pack("<L", 3)[:3] + bytes(4)
    canvas = part(b"VP8X", bytes([2, 0, 0, 0]) + struct.pack("<L", 22)[:3] + struct.pack("<L", 14)[:3])
    moving = canvas + part(b"ANIM", b"\x10\x20\x30\xff\0\0") + part(b"ANMF", frame + small)
    cases.add("webp animated, first frame within", riff(moving))
    for name, whole in (
        ("lossy", saved(image, "WEBP", quality=80)),
        ("lossless", saved(image, "WEBP", lossless=True)),
        ("with notes", saved(image, "WEBP", quality=80, exif=tagged("SHORT", 6))),
    ):
        cases.add(f"webp {name}, bytes behind", whole + b"and more of it")
        cases.add(f"webp {name}, a file behind", whole + whole)
        cases.refuse(f"webp {name}, cut by half", whole[: len(whole) // 2], "truncated")
        cases.refuse(f"webp {name}, a RIFF too short", riff(whole[12:], len(whole) // 2), "truncated")
    notes = saved(image, "WEBP", quality=80, exif=tagged("SHORT", 6))
    cases.refuse("webp without the notes it announces", notes[:-8], "truncated")
    lossy = saved(image, "WEBP", quality=80)
    for more in (1, 2, 7, 8, 100):
        longer = riff(lossy[12:], len(lossy) - 8 + more)
        try:
            Image.open(io.BytesIO(longer)).load()
        except OSError:
            continue
        cases.add(f"webp RIFF {more} longer than the file", longer)
    cases.refuse("webp of no image", riff(part(b"XXXX", b"nothing")), "does not begin with an image")
    other = part(b"VP8X", bytes(4) + struct.pack("<L", 22)[:3] + struct.pack("<L", 13)[:3])
    cases.refuse("webp with other sides than its picture", riff(other + lossy[12:]), "other sides")


# PNG -----------------------------------------------------------------------------------------------------------

SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
PASSES = ((0, 8, 0, 8), (4, 8, 0, 8), (0, 4, 4, 8), (2, 4, 0, 4), (0, 2, 2, 4), (1, 2, 0, 2), (0, 1, 1, 2))


def filtered(samples: np.ndarray, depth: int, which: int | None, random: np.random.Generator) -> bytes:
    """Rows of samples, each behind the number of its filter: the one given, or any."""
    height, width, channels = samples.shape
    pixel, above, rows = max(1, channels * depth // 8), b"", []
    for row in samples.reshape(height, width * channels):
        if depth == 16:
            raw = row.astype(">u2").tobytes()
        else:
            text = "".join(f"{int(value):0{depth}b}" for value in row)
            raw = int(text.ljust(-(-len(text) // 8) * 8, "0"), 2).to_bytes(-(-len(text) // 8), "big")
        above = above or bytes(len(raw))
        kind = int(random.integers(0, 5)) if which is None else which
        made = bytearray([kind])
        for at, value in enumerate(raw):
            left = raw[at - pixel] if at >= pixel else 0
            corner = above[at - pixel] if at >= pixel else 0
            guess = left + above[at] - corner
            near = min((left, above[at], corner), key=lambda one: abs(guess - one))
            made.append((value - (0, left, above[at], (left + above[at]) // 2, near)[kind]) % 256)
        above = raw
        rows.append(bytes(made))
    return b"".join(rows)


def png(samples: np.ndarray, kind: int, depth: int, *, notes: bytes = b"", interlaced: bool = False, which: int | None = None, split: int = 1 << 20) -> bytes:
    height, width, _ = samples.shape
    random = np.random.default_rng(8)
    if interlaced:
        parts = [samples[y::down, x::across] for x, across, y, down in PASSES]
        raw = b"".join(filtered(part, depth, which, random) for part in parts if part.size)
    else:
        raw = filtered(samples, depth, which, random)
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, interlaced))
    data = zlib.compress(raw, 9)
    body = b"".join(chunk(b"IDAT", data[at : at + split]) for at in range(0, len(data), split))
    return b"\x89PNG\r\n\x1a\n" + head + notes + body + chunk(b"IEND", b"")


def pngs(cases: Cases) -> None:
    random = np.random.default_rng(6)
    kinds = [(kind, depth) for kind, depths in {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}.items() for depth in depths]
    for kind, depth in kinds:
        colours = random.integers(0, 256, 3 << depth if kind == 3 else 3).astype(np.uint8).tobytes()
        table = chunk(b"PLTE", colours) if kind == 3 else b""
        clear = {0: b"\0\1", 2: b"\0\1\0\2\0\3", 3: b"\0\x80"}.get(kind)
        for width, height in ((13, 9), (1, 1), (3, 10)):
            samples = random.integers(0, 1 << depth, (height, width, SAMPLES[kind]))
            name = f"png kind {kind} of {depth} bits {width}x{height}"
            for interlaced in (False, True):
                turned = " interlaced" if interlaced else ""
                cases.add(name + turned, png(samples, kind, depth, notes=table, interlaced=interlaced))
            if clear:
                cases.add(f"{name} tRNS", png(samples, kind, depth, notes=table + chunk(b"tRNS", clear)))
            if depth < 16:
                cases.add(f"{name} gray", png(samples, kind, depth, notes=table), "gray")
    rgb = random.integers(0, 256, (9, 13, 3))
    for which in range(5):
        cases.add(f"png filter {which}", png(rgb, 2, 8, which=which))
    cases.add("png in many pieces", png(rgb, 2, 8, split=7))
    few = random.integers(0, 8, (9, 13, 1))
    cases.add("png palette shorter than its indices", png(few, 3, 4, notes=chunk(b"PLTE", bytes(range(9, 24)))))
    cases.add("png tRNS longer than its palette", png(few % 4, 3, 8, notes=chunk(b"PLTE", bytes(range(12))) + chunk(b"tRNS", bytes(range(9)))))
    cases.add("png palette for colours", png(rgb, 2, 8, notes=chunk(b"PLTE", bytes(range(12)))))
    cases.add("png gamma and profile", png(rgb, 2, 8, notes=chunk(b"gAMA", struct.pack(">I", 100000)) + chunk(b"iCCP", b"x\0\0" + zlib.compress(b"nonsense"))))
    damaged_pngs(cases, rgb)
    moving_pngs(cases)


def damaged_pngs(cases: Cases, rgb: np.ndarray) -> None:
    whole = png(rgb, 2, 8)
    before, data, end = pieces(whole)
    deflated = data[8:-4]
    sum_off = lambda body: body[:-4] + bytes(byte ^ 255 for byte in body[-4:])
    cases.add("png without its end", before + data)
    cases.add("png without the sum of its data", before + data[:-4])
    cases.add("png cut in its end", whole[:-6])
    cases.add("png bytes behind", whole + b"more of it")
    cases.add("png nonsense instead of the end", before + data + b"\0\0\0\4nonsense")
    cases.add("png sum of the data wrong", before + sum_off(data) + end)
    cases.add("png sum of a note behind wrong", before + data + sum_off(chunk(b"tEXt", b"Comment\0text")) + end)
    cases.add("png sum of the end wrong", before + data + sum_off(end))
    cases.add("png more data than rows", before + chunk(b"IDAT", zlib.compress(zlib.decompress(deflated) + bytes(100))) + end)
    cases.add("png empty pieces of data", before + chunk(b"IDAT", b"") + data + chunk(b"IDAT", b"") + end)
    cases.add("png more data behind", before + data + chunk(b"IDAT", b"more") + end)
    for name, cut in (("the sum of its rows", deflated[:-4]), ("half the sum of its rows", deflated[:-2])):
        try:
            cases.add(f"png without {name}", before + chunk(b"IDAT", cut) + end)
        except OSError:
            cases.refuse(f"png without {name}", before + chunk(b"IDAT", cut) + end, "truncated")
    wrong = deflated[:-4] + bytes(byte ^ 255 for byte in deflated[-4:])
    try:
        cases.add("png sum of the rows wrong", before + chunk(b"IDAT", wrong) + end)
    except OSError:
        cases.refuse("png sum of the rows wrong", before + chunk(b"IDAT", wrong) + end, "broken PNG")
    cases.refuse("png cut in its data", whole[: len(before) + len(data) // 2], "truncated")
    cases.refuse("png with half its data", before + chunk(b"IDAT", deflated[: len(deflated) // 2]) + end, "truncated")
    short = zlib.compress(zlib.decompress(deflated)[:-50])
    cases.refuse("png with fewer rows", before + chunk(b"IDAT", short) + end, "truncated")
    cases.refuse("png sum of its header wrong", whole[:29] + b"\0\0\0\0" + whole[33:], "broken PNG")
    cases.refuse("png without data", before + end, "")
    cases.refuse("png header alone", before[:33], "truncated")
    cases.refuse("png filter that does not exist", before + chunk(b"IDAT", zlib.compress(b"\x09" + zlib.decompress(deflated)[1:])) + end, "broken PNG")


def moving_pngs(cases: Cases) -> None:
    frames = [picture(13, 9, seed) for seed in (1, 2, 3)]
    cases.add("png animated", saved(frames[0], "PNG", save_all=True, append_images=frames[1:]))
    cases.add("png animated with another picture first", saved(frames[0], "PNG", save_all=True, append_images=frames[1:], default_image=True))
    cases.add("png animated of one frame", saved(frames[0], "PNG", save_all=True))


# GIF -----------------------------------------------------------------------------------------------------------


def lzw(indices: bytes, size: int) -> bytes:
    """Codes that are never joined: a clear code before the table would grow."""
    bits, codes = "", []
    for at, index in enumerate(indices):
        if at % ((1 << size) - 2) == 0:
            codes.append(1 << size)
        codes.append(index)
    codes.append((1 << size) + 1)
    for code in codes:
        bits = f"{code:0{size + 1}b}" + bits
    data = int(bits, 2).to_bytes(-(-len(bits) // 8), "little")
    return bytes([size]) + b"".join(bytes([len(data[at : at + 255])]) + data[at : at + 255] for at in range(0, len(data), 255)) + b"\0"


def gif(
    screen: tuple[int, int],
    sides: tuple[int, int],
    indices: bytes,
    *,
    at: tuple[int, int] = (0, 0),
    palette: bytes = b"",
    local: bytes = b"",
    before: bytes = b"",
    flags: int = 0,
    size: int = 3,
    end: bytes = b";",
) -> bytes:
    bits = lambda table: 0x80 | (len(table) // 3 - 1).bit_length() - 1 if table else 0
    head = b"GIF89a" + struct.pack("<HHBBB", *screen, bits(palette), 1, 0) + palette
    frame = b"," + struct.pack("<HHHHB", *at, *sides, bits(local) | flags) + local
    return head + before + frame + lzw(indices, size) + end


def gifs(cases: Cases) -> None:
    random = np.random.default_rng(12)
    colours = lambda count: random.integers(0, 256, count * 3).astype(np.uint8).tobytes()
    indices = random.integers(0, 8, 9 * 7).astype(np.uint8).tobytes()
    own, other = colours(8), colours(8)
    clear = lambda index: b"!\xf9\4\1\0\0" + bytes([index]) + b"\0"
    same = {"screen": (9, 7), "sides": (9, 7), "indices": indices}
    cases.add("gif", gif(**same, palette=own))
    cases.add("gif gray", gif(**same, palette=own), "gray")
    cases.add("gif local palette", gif(**same, palette=own, local=other))
    cases.add("gif local palette alone", gif(**same, local=other))
    cases.add("gif no palette", gif(**same))
    cases.add("gif palette shorter than its indices", gif(**same, palette=own[:12]))
    cases.add("gif transparent", gif(**same, palette=own, before=clear(2)))
    cases.add("gif transparent rgba", gif(**same, palette=own, before=clear(2)), "rgba")
    cases.add("gif interlaced", gif(**same, palette=own, flags=0x40))
    cases.add("gif without its end", gif(**same, palette=own, end=b""))
    cases.add("gif bytes behind", gif(**same, palette=own, end=b";and more"))
    cases.add("gif bytes between blocks", gif(**same, palette=own, before=b"\0\0"))
    cases.add("gif comment and application", gif(**same, palette=own, before=b"!\xfe\4text\0!\xff\x0bNETSCAPE2.0\3\1\0\0\0"))
    for transparent in (b"", clear(3)):
        name = ", transparent" if transparent else ""
        within = {"sides": (9, 7), "indices": indices, "palette": own, "before": transparent}
        cases.add(f"gif within its screen{name}", gif((15, 12), at=(4, 3), **within))
        cases.add(f"gif beyond its screen{name}", gif((5, 5), at=(1, 2), **within))
        cases.add(f"gif interlaced within its screen{name}", gif((15, 12), at=(4, 3), flags=0x40, **within))
    for count in (2, 4, 16, 64, 256):
        some = random.integers(0, count, 9 * 7).astype(np.uint8).tobytes()
        cases.add(f"gif of {count} colours", gif((9, 7), (9, 7), some, palette=colours(count), size=max(2, (count - 1).bit_length())))
    frames = [picture(13, 9, seed).quantize(16) for seed in (1, 2)]
    cases.add("gif animated", saved(frames[0], "GIF", save_all=True, append_images=frames[1:]))
    cases.add("gif animated, back to the background", saved(frames[0], "GIF", save_all=True, append_images=frames[1:], disposal=2))
    whole = saved(picture(40, 30).quantize(64), "GIF")
    cases.add("gif by Pillow", whole)
    cases.refuse("gif cut", whole[: len(whole) // 2], "truncated")
    cases.refuse("gif with fewer pixels", gif((9, 7), (9, 7), indices[:40], palette=own), "")
    cases.refuse("gif of no frame", gif(**same, palette=own)[:37] + b";", "")
    cases.add("gif with more pixels", gif((9, 7), (9, 7), indices + indices, palette=own))


def main() -> None:
    warnings.simplefilter("ignore")
    cases = Cases()
    turned(cases)
    webps(cases)
    bmps(cases)
    pngs(cases)
    gifs(cases)
    with (HERE / "cases.jsonl").open("w", encoding="utf-8") as file:
        for line in cases.lines:
            file.write(json.dumps(line) + "\n")
    print(f"{len(cases.lines)} cases")


if __name__ == "__main__":
    main()
