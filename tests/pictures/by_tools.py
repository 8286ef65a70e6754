"""Pictures written by ImageMagick, GraphicsMagick, cwebp, cjpeg, jpegtran, tiffcp, gifsicle and exiftool."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Iterator

from .recipe import Recipe, choices, label

# The programs, by the Debian package they come from.
PACKAGES = {
    "imagemagick": ["convert"],
    "graphicsmagick": ["gm"],
    "webp": ["cwebp"],
    "libjpeg-turbo-progs": ["cjpeg", "jpegtran", "djpeg"],
    "libtiff-tools": ["tiffcp"],
    "gifsicle": ["gifsicle"],
    "libimage-exiftool-perl": ["exiftool"],
}
LIMIT_S = 60


def recipes() -> Iterator[Recipe]:
    yield from _magick()
    yield from _gm()
    yield from _webp()
    yield from _jpeg()
    yield from _tiff()
    yield from _gif()
    yield from _exif()


def missing(names: list[str]) -> list[str]:
    """Those of the programs that are not here."""
    return [name for name in names if not shutil.which(name)]


def run(*argv: Any, stdout: Path | None = None) -> None:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "0", "TZ": "UTC", "LC_ALL": "C"}
    command = [str(word) for word in argv]
    done = subprocess.run(command, timeout=LIMIT_S, env=environment, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {done.stderr.decode(errors='replace').strip()[:300]}")
    if stdout:
        stdout.write_bytes(done.stdout)


class Source:
    """A scene as a file that other programs read, for as long as they do."""

    def __init__(self, name: str, size: int, mode: str = "RGB") -> None:
        self.name, self.size, self.mode = name, size, mode

    def __enter__(self) -> Path:
        from PIL import Image

        from . import scenes

        width, height = scenes.SIZES[self.size]
        self.folder = tempfile.TemporaryDirectory(prefix="pictures-")
        image = Image.fromarray(scenes.scene(self.name, width, height))
        if self.mode == "RGBA":
            image.putalpha(Image.fromarray(scenes.alpha(self.name, width, height)))
        elif self.mode != "RGB":
            image = image.convert(self.mode)
        path = Path(self.folder.name) / ("source.png" if self.mode == "RGBA" else "source.ppm")
        image.save(path)
        return path

    def __exit__(self, *_: object) -> None:
        self.folder.cleanup()


def _each(maker: str, extension: str, found: list[dict[str, Any]], write: Any) -> Iterator[Recipe]:
    for number, options in enumerate(found):
        yield Recipe(maker, f"{number:03}-{label(options)}.{extension}", lambda path, o=options: write(path, o))  # type: ignore[misc]


def _magick() -> Iterator[Recipe]:
    sizes = list(range(2, 11))
    alpha = ["", "", "rgba"]
    yield from _each("magick", "tif", choices(
        "magick-tif", 190, type=["truecolor", "grayscale", "bilevel", "palette", "colorseparation", "truecoloralpha"],
        depth=[1, 2, 4, 8, 8, 16, 32], compress=["none", "lzw", "zip", "rle", "jpeg", "group4", "fax"],
        endian=["lsb", "msb"], fill=["", "", "lsb"], interlace=["none", "none", "plane"], tile=["", "", "32x32"],
        predictor=["", "2"], alpha=["unassociated", "associated"], orient=["", "", "right-top"], min=["", "", "white"],
        float=["", "", "", "float"], size=sizes,
    ), _magick_tiff)  # fmt: skip
    yield from _each("magick", "png", choices(
        "magick-png", 80, form=["png", "png8", "png24", "png32", "png48", "png64", "png00"], gray=["", "gray"],
        interlace=["none", "line"], alpha=alpha, colours=["", "2", "13"], orient=["", "", "", "bottom-left"], size=sizes,
    ), _magick_png)  # fmt: skip
    yield from _each("magick", "bmp", choices(
        "magick-bmp", 60, form=["bmp", "bmp2", "bmp3"], type=["truecolor", "palette", "grayscale", "bilevel", "truecoloralpha"],
        colours=["", "2", "14", "200"], compress=["none", "rle"], size=sizes, subtype=["", "", "RGB565", "RGB555", "ARGB4444"],
    ), _magick_bmp)  # fmt: skip
    yield from _each("magick", "gif", choices(
        "magick-gif", 40, interlace=["none", "line"], colours=["", "2", "17"], alpha=alpha, gray=["", "gray"], size=sizes,
        page=["", "", "+5+3"],
    ), _magick_gif)  # fmt: skip
    yield from _each("magick", "jpg", choices(
        "magick-jpg", 90, type=["truecolor", "truecolor", "grayscale", "colorseparation"], quality=[15, 80, 96],
        interlace=["none", "jpeg"], sampling=["4:4:4", "4:2:2", "4:2:0", "4:4:0", "4:1:1", "2x1,1x2,1x1", "1x1,2x2,2x2"],
        space=["", "", "RGB"], restart=["", "", "3"], orient=["", "", "left-bottom"], size=sizes,
    ), _magick_jpeg)  # fmt: skip
    yield from _each("magick", "webp", choices(
        "magick-webp", 40, quality=[10, 80], lossless=["false", "true"], alpha=alpha, gray=["", "gray"], size=sizes,
    ), _magick_webp)  # fmt: skip


def _convert(path: Path, options: dict[str, Any], words: list[str], form: str = "", mode: str = "RGB") -> None:
    tool = shutil.which("magick") or "convert"
    with Source(path.name, options["size"], mode) as source:
        run(tool, source, "+set", "date:create", "+set", "date:modify", *words, f"{form}:{path}" if form else path)


def _given(options: dict[str, Any], **words: str) -> list[str]:
    """Options that are not empty, as `-word value`."""
    return [part for key, word in words.items() if options.get(key) for part in (word, str(options[key]))]


def _magick_tiff(path: Path, options: dict[str, Any]) -> None:
    words = _given(options, type="-type", depth="-depth", compress="-compress", endian="-endian", interlace="-interlace",
                   orient="-orient")  # fmt: skip
    words += ["-define", f"tiff:alpha={options['alpha']}"]
    for key, define in [("fill", "tiff:fill-order"), ("tile", "tiff:tile-geometry"), ("predictor", "tiff:predictor"),
                        ("float", "quantum:format"), ("min", "quantum:polarity")]:  # fmt: skip
        if key == "predictor" and options["compress"] not in ("lzw", "zip"):
            continue
        if options[key]:
            words += [
                "-define",
                f"{define}={'min-is-white' if key == 'min' else 'floating-point' if key == 'float' else options[key]}",
            ]
    mode = "RGBA" if options["type"] == "truecoloralpha" else "RGB"
    _convert(path, options, [*(["-colors", "50"] if options["type"] == "palette" else []), *words], "tiff", mode)


def _magick_png(path: Path, options: dict[str, Any]) -> None:
    words = _given(options, gray="-colorspace", colours="-colors", interlace="-interlace", orient="-orient")
    _convert(
        path,
        options,
        [*words, "-define", "png:exclude-chunks=date,tIME"],
        options["form"],
        "RGBA" if options["alpha"] else "RGB",
    )


def _magick_bmp(path: Path, options: dict[str, Any]) -> None:
    words = _given(options, colours="-colors", type="-type", compress="-compress")
    if options["subtype"]:
        words += ["-define", f"bmp:subtype={options['subtype']}"]
    _convert(path, options, words, options["form"], "RGBA" if options["type"] == "truecoloralpha" else "RGB")


def _magick_gif(path: Path, options: dict[str, Any]) -> None:
    words = _given(options, gray="-colorspace", colours="-colors", interlace="-interlace", page="-repage")
    _convert(path, options, words, "gif", "RGBA" if options["alpha"] else "RGB")


def _magick_jpeg(path: Path, options: dict[str, Any]) -> None:
    words = _given(options, type="-type", quality="-quality", interlace="-interlace", sampling="-sampling-factor",
                   orient="-orient")  # fmt: skip
    if options["restart"]:
        words += ["-define", f"jpeg:restart-interval={options['restart']}"]
    if options["space"] and options["type"] == "truecolor":
        words += ["-set", "colorspace", "sRGB", "-define", "jpeg:colorspace=RGB"]
    _convert(path, options, words, "jpeg")


def _magick_webp(path: Path, options: dict[str, Any]) -> None:
    words = ["-quality", str(options["quality"]), "-define", f"webp:lossless={options['lossless']}"]
    _convert(
        path, options, [*_given(options, gray="-colorspace"), *words], "webp", "RGBA" if options["alpha"] else "RGB"
    )


def _gm() -> Iterator[Recipe]:
    found = choices("gm", 60, form=["tiff", "bmp", "gif", "png", "jpeg", "webp"], size=list(range(2, 11)),
                    type=["TrueColor", "Grayscale", "Bilevel", "Palette"], depth=[8, 16])  # fmt: skip
    for number, options in enumerate(found):
        extension = {"tiff": "tif", "jpeg": "jpg"}.get(options["form"], options["form"])
        yield Recipe("gm", f"{number:03}-{label(options)}.{extension}", lambda path, o=options: _gm_write(path, o))  # type: ignore[misc]


def _gm_write(path: Path, options: dict[str, Any]) -> None:
    with Source(path.name, options["size"]) as source:
        run("gm", "convert", source, "-type", options["type"], "-depth", options["depth"], f"{options['form']}:{path}")


def _webp() -> Iterator[Recipe]:
    found = choices("cwebp", 70, lossless=[0, 0, 1], q=[0, 50, 90], m=[0, 4, 6], alpha=[0, 1], segments=[1, 4], sharpness=[0, 7],
                    f=[0, 60, 100], partition=[0, 3], near=[100, 60], size=list(range(11)))  # fmt: skip
    yield from _each("cwebp", "webp", found, _webp_write)


def _webp_write(path: Path, options: dict[str, Any]) -> None:
    with Source(path.name, options["size"], "RGBA" if options["alpha"] else "RGB") as source:
        words = ["-q", options["q"], "-m", options["m"]]
        if options["lossless"]:
            words += ["-lossless", "-near_lossless", options["near"]]
        else:
            words += ["-segments", options["segments"], "-sharpness", options["sharpness"], "-f", options["f"],
                      "-pass", 2, "-partition_limit", options["partition"]]  # fmt: skip
        run("cwebp", "-quiet", *words, source, "-o", path)


def _jpeg() -> Iterator[Recipe]:
    found = choices(
        "cjpeg", 110, gray=[0, 0, 1], quality=[10, 75, 98], smooth=[0, 20], dct=["int", "fast", "float"], size=list(range(11)),
        kind=["", "-optimize", "-progressive", "-arithmetic", "-rgb"], sample=["", "2x1", "1x2", "2x2", "4x1", "1x1", "2x2,2x1,1x2"],
        restart=["", "1", "4B"], after=["", "", "-rotate 90", "-flip horizontal", "-grayscale", "-progressive", "-transverse"],
    )  # fmt: skip
    yield from _each("cjpeg", "jpg", found, _jpeg_write)


def _jpeg_write(path: Path, options: dict[str, Any]) -> None:
    words = ["-quality", options["quality"], "-smooth", options["smooth"], "-dct", options["dct"]]
    words += [options["kind"]] if options["kind"] else []
    words += ["-grayscale"] if options["gray"] else []
    words += ["-sample", options["sample"]] if options["sample"] and not options["gray"] else []
    words += ["-restart", options["restart"]] if options["restart"] else []
    with Source(path.name, options["size"]) as source:
        run("cjpeg", *words, source, stdout=path)
        if options["after"]:
            arithmetic = ["-arithmetic"] if options["kind"] == "-arithmetic" else []
            run("jpegtran", *arithmetic, *options["after"].split(), path, stdout=path)


def _tiff() -> Iterator[Recipe]:
    found = choices(
        "tiffcp", 90, compress=["none", "lzw", "lzw:2", "zip", "zip:2", "packbits", "jpeg", "jpeg:r", "g3", "g3:2d", "g4", "zstd", "lzma"],
        tile=["", "", "32"], planar=["contig", "contig", "separate"], order=["lsb2msb", "msb2lsb"], big=["-B", "-L"],
        mode=["RGB", "L", "1", "RGBA"], rows=[3, 16, 100], size=list(range(2, 11)),
    )  # fmt: skip
    yield from _each("tiffcp", "tif", found, _tiff_write)


def _tiff_write(path: Path, options: dict[str, Any]) -> None:
    from PIL import Image

    words = ["-c", options["compress"], "-p", options["planar"], "-f", options["order"], options["big"]]
    words += ["-t", "-w", options["tile"], "-l", options["tile"]] if options["tile"] else ["-r", options["rows"]]
    with Source(path.name, options["size"], options["mode"]) as source:
        plain = source.with_suffix(".tif")
        Image.open(source).save(plain)
        run("tiffcp", *words, plain, path)


def _gif() -> Iterator[Recipe]:
    found = choices("gifsicle", 40, interlace=["--no-interlace", "--interlace"], optimize=["-O1", "-O3"], colours=[2, 6, 31, 256],
                    frames=[1, 3], screen=["", "400x300"], position=["", "9,4"], lossy=["", "60"], size=list(range(2, 11)))  # fmt: skip
    yield from _each("gifsicle", "gif", found, _gif_write)


def _gif_write(path: Path, options: dict[str, Any]) -> None:
    from PIL import Image

    words = [options["interlace"], options["optimize"], "--colors", options["colours"]]
    words += ["--logical-screen", options["screen"]] if options["screen"] else []
    words += ["--position", options["position"]] if options["position"] else []
    words += [f"--lossy={options['lossy']}"] if options["lossy"] else []
    with Source(path.name, options["size"]) as source:
        frames = []
        for number in range(options["frames"]):
            frames.append(source.with_name(f"{number}.gif"))
            Image.open(source).rotate(90 * number).save(frames[-1])
        run("gifsicle", *words, *frames, "-o", path)


def _exif() -> Iterator[Recipe]:
    """Orientation at the places it may stand, and other notes."""
    found = choices(
        "exiftool", 60, form=["jpg", "png", "webp", "tif"], turn=[1, 3, 6, 8], size=list(range(2, 11)),
        where=["EXIF:Orientation", "XMP-tiff:Orientation", "both", "IFD1:Orientation", "Comment"],
    )  # fmt: skip
    for number, options in enumerate(found):
        name = f"{number:03}-{label(options)}.{options['form']}"
        yield Recipe("exiftool", name, lambda path, o=options: _exif_write(path, o))  # type: ignore[misc]


def _exif_write(path: Path, options: dict[str, Any]) -> None:
    from PIL import Image

    with Source(path.name, options["size"]) as source:
        Image.open(source).save(path)
    turn, where = options["turn"], options["where"]
    if where == "both":
        words = [f"-EXIF:Orientation#={turn}", "-XMP-tiff:Orientation#=1"]
    elif where == "Comment":
        words = ["-Comment=" + "words " * 5000]
    else:
        words = [f"-{where}#={turn}"]
    run("exiftool", "-q", "-overwrite_original", *words, path)
