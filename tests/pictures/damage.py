"""What damage did to a file, judged by others: are the pixels the original's, does libjpeg complain?"""

from __future__ import annotations

import functools
import io
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from .judge import LEVELS, Verdict
from .reference import references

# What djpeg says where units of a picture had to be made up. "Extraneous bytes" say nothing of what was read before.
CONCEALED = re.compile(
    r"premature end of data segment|bad Huffman code|bad arithmetic code|instead of RST|Inconsistent progression"
)


@functools.cache
def has_djpeg() -> bool:
    """Whether libjpeg's own program is here; says once if it is not."""
    if shutil.which("djpeg"):
        return True
    print("mutants: libjpeg was not asked for damage: there is no djpeg. Try: apt-get install libjpeg-turbo-progs")
    return False


def concealed(path: Path) -> str:
    """What djpeg says of a JPEG whose data is damaged, or nothing; also nothing where there is no djpeg."""
    if not has_djpeg():
        return ""
    done = subprocess.run(["djpeg", "-outfile", "/dev/null", str(path)], capture_output=True, timeout=120, check=False)
    lines = done.stderr.decode(errors="replace").splitlines()
    return next((line for line in lines if CONCEALED.search(line)), "")


def judge_damage(verdict: Verdict, path: Path, base: Path, ours: Any, form: str) -> Verdict:
    """A mutant's verdict, with what is known of the file it was made of."""
    if verdict.word == "refused alone":
        own, original = references(path, [form])[form].pixels, references(base, [form])[form].pixels
        if original is None or not same(own, original):
            verdict.word, verdict.why = "explained: refused alone", "damage that changes the picture"
        elif verdict.format == "JPEG" and (said := concealed(path)):
            verdict.word, verdict.why = "explained: refused alone", f"libjpeg warns of damage: {said}"
    elif verdict.word == "accepted alone":
        original = references(base, [form])[form].pixels
        if original is not None and same(ours, original):
            verdict.word, verdict.why = "explained: accepted alone", "the picture is the original's"
        elif verdict.format == "WebP" and is_first_picture(ours, path):
            verdict.word = "explained: accepted alone"
            verdict.why = "the colours of the first picture are whole; its alpha or a later frame is not"
    elif verdict.format == "JPEG" and ours is not None and (said := concealed(path)):
        verdict.word, verdict.why = "accepted although damaged", said
    return verdict


def is_first_picture(ours: Any, path: Path) -> bool:
    """Whether these are the colours that Pillow sees in a WebP's first picture by itself: no alpha, no later frames."""
    import numpy as np
    from PIL import Image

    data = path.read_bytes()
    begin = next((at for at in range(12, len(data) - 8, 2) if data[at : at + 4] in (b"VP8 ", b"VP8L")), None)
    if begin is None:
        return False
    length = int.from_bytes(data[begin + 4 : begin + 8], "little")
    chunk = data[begin : begin + 8 + length + length % 2]
    try:
        with Image.open(io.BytesIO(b"RIFF" + (4 + len(chunk)).to_bytes(4, "little") + b"WEBP" + chunk)) as image:
            alone = np.asarray(image.convert("RGB"))
    except Exception:  # noqa: BLE001 -- no picture by itself either
        return False
    turned = [np.rot90(way, quarter) for way in (alone, alone[:, ::-1]) for quarter in range(4)]
    return any(same(ours, each) for each in turned)


def same(one: Any, other: Any) -> bool:
    """No more than a few levels apart, all over."""
    import numpy as np

    if one is None or other is None or one.shape != other.shape:
        return False
    return bool(np.abs(one.astype(np.int64) - other.astype(np.int64)).max(initial=0) <= LEVELS)
