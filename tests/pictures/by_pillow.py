"""Pictures written by Pillow, in every format and mode it has of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator

from .recipe import Recipe, choices, label

MODES = {
    "jpg": ["L", "RGB", "RGB", "RGB", "CMYK"],
    "png": ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"],
    "gif": ["1", "L", "P", "RGB", "RGBA"],
    "bmp": ["1", "L", "P", "RGB", "RGBA"],
    "webp": ["RGB", "RGBA", "L"],
    "tif": ["1", "L", "LA", "P", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "LAB", "I;16", "I", "F"],
}


def recipes() -> Iterator[Recipe]:
    plain = {"size": list(range(11)), "orientation": [0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]}
    jpeg = choices(
        "jpg", 230, mode=MODES["jpg"], quality=[20, 60, 75, 90, 97], sampling=[0, 1, 2], progressive=[0, 0, 1],
        optimize=[0, 1], restart=[0, 0, 1, 3], **plain,
    )  # fmt: skip
    png = choices("png", 130, mode=MODES["png"], level=[0, 1, 6, 9], colours=[2, 4, 16, 256], clear=[0, 0, 1], **plain)
    gif = choices("gif", 70, mode=MODES["gif"], colours=[2, 5, 16, 256], interlace=[0, 1], frames=[1, 1, 3], **plain)
    bmp = choices("bmp", 50, mode=MODES["bmp"], colours=[2, 16, 256], size=plain["size"])
    webp = choices(
        "webp", 130, mode=MODES["webp"], quality=[5, 50, 80, 100], method=[0, 3, 6], lossless=[0, 0, 1], exact=[0, 1],
        frames=[1, 1, 1, 3], **plain,
    )  # fmt: skip
    tiff = choices(
        "tif", 290, mode=MODES["tif"], rows=[0, 1, 7], frames=[1, 1, 1, 3], bits=[8, 8, 64],
        compression=["raw", "tiff_lzw", "tiff_adobe_deflate", "tiff_deflate", "packbits", "jpeg", "group3", "group4",
                     "tiff_lzma", "zstd"], predictor=[1, 1, 2], **plain,
    )  # fmt: skip
    for extension, all_options in zip(MODES, (jpeg, png, gif, bmp, webp, tiff), strict=True):
        for number, options in enumerate(all_options):
            name = f"{number:03}-{label(options)}.{extension}"
            yield Recipe("pillow", name, lambda path, e=extension, o=options: _write(path, e, o))  # type: ignore[misc]
    for width, height, progressive in [
        (1600, 1200, 0),
        (4000, 3000, 0),
        (4000, 3000, 1),
        (1000, 3000, 0),
        (900, 650, 1),
    ]:
        for mode in ("RGB", "L"):
            options = {"width": width, "height": height, "mode": mode, "progressive": progressive}
            yield Recipe("pillow", f"large-{label(options)}.jpg", lambda path, o=options: _large(path, o))  # type: ignore[misc]


def _picture(name: str, mode: str, width: int, height: int, colours: int = 256) -> Any:
    from PIL import Image

    from . import scenes

    if mode == "I;16":
        return Image.fromarray(scenes.deep(name, width, height, 1)[..., 0])
    image = Image.fromarray(scenes.scene(name, width, height))
    if mode in ("RGBA", "LA"):
        image = image.convert(mode)
        image.putalpha(Image.fromarray(scenes.alpha(name, width, height)))
        return image
    if mode == "P":
        return image.quantize(colours)
    if mode == "F":
        return image.convert("F").point(lambda value: value * 1.5 + 0)
    if mode == "LAB":
        from PIL import ImageCms

        to_lab = ImageCms.buildTransform(ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"), "RGB", "LAB")
        return ImageCms.applyTransform(image, to_lab)
    return image.convert(mode)


def _write(path: Path, extension: str, options: dict[str, Any]) -> None:
    from PIL import Image

    from .scenes import SIZES

    width, height = SIZES[options["size"]]
    image = _picture(path.name, options["mode"], width, height, options.get("colours", 256))
    save: dict[str, Any] = {}
    if options.get("orientation"):
        exif = Image.Exif()
        exif[0x0112] = options["orientation"]
        save["exif"] = exif
    if options.get("frames", 1) > 1:
        more = [_picture(f"{path.name}{n}", options["mode"], width, height) for n in range(1, options["frames"])]
        save |= {"save_all": True, "append_images": more}
    save |= _FORMAT[extension](options)
    image.save(path, **save)


def _jpeg(options: dict[str, Any]) -> dict[str, Any]:
    save = {key: options[key] for key in ("quality", "progressive", "optimize")}
    if options["mode"] == "RGB":
        save["subsampling"] = options["sampling"]
    if options["restart"]:
        save["restart_marker_rows"] = options["restart"]
    return save


def _png(options: dict[str, Any]) -> dict[str, Any]:
    save: dict[str, Any] = {"compress_level": options["level"]}
    if options["mode"] == "P":
        save["bits"] = {2: 1, 4: 2, 16: 4, 256: 8}[options["colours"]]
    if options["clear"] and options["mode"] in ("1", "L", "P", "RGB", "I;16"):
        save["transparency"] = (255, 255, 255) if options["mode"] == "RGB" else 0
    return save


def _gif(options: dict[str, Any]) -> dict[str, Any]:
    save: dict[str, Any] = {"interlace": options["interlace"]}
    if options["mode"] == "P" and options["colours"] == 16:
        save["transparency"] = 1
    return save


def _bmp(_options: dict[str, Any]) -> dict[str, Any]:
    return {}


def _webp(options: dict[str, Any]) -> dict[str, Any]:
    return {key: options[key] for key in ("quality", "method", "lossless", "exact")}


def _tiff(options: dict[str, Any]) -> dict[str, Any]:
    from PIL import TiffImagePlugin

    tags = TiffImagePlugin.ImageFileDirectory_v2()
    if options["orientation"]:
        tags[0x0112] = options["orientation"]
    if options["rows"]:
        tags[278] = options["rows"]
    if options["predictor"] == 2 and options["compression"] in ("tiff_lzw", "tiff_adobe_deflate"):
        tags[317] = 2
    return {
        "tiffinfo": tags,
        "compression": options["compression"],
        "big_tiff": options["bits"] == 64,
        "exif": None,
    }


_FORMAT = {"jpg": _jpeg, "png": _png, "gif": _gif, "bmp": _bmp, "webp": _webp, "tif": _tiff}


def _large(path: Path, options: dict[str, Any]) -> None:
    image = _picture(path.name, options["mode"], options["width"], options["height"])
    image.save(path, quality=88, progressive=options["progressive"])
