"""Runs the TIFFs of tiffs.py, and damaged copies of them, through the decoder.

    cargo build -p gpulane-decode --example pixels
    python tests/pictures/tiff_run.py target/debug/examples/pixels
    python tests/pictures/tiff_run.py target/debug/examples/pixels --mutants 5000 [--seed 7]
    python tests/pictures/tiff_run.py --pack crates/decode/tests/images

The first compares all of them with what must come and exits with 1 if one is wrong; the last writes the sample that
`cargo test -p gpulane-decode` reads. Mutants are bit flips, cuts, changed tags and spliced files. None may panic, hang
(20 s), or take memory that was not claimed.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import select
import struct
import subprocess
import sys
import tempfile
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from tiffs import Made, made

TYPES = {
    "U8": "u1",
    "U16": "u2",
    "U32": "u4",
    "U64": "u8",
    "I8": "i1",
    "I16": "i2",
    "I32": "i4",
    "I64": "i8",
    "F16": "f2",
    "F32": "f4",
    "F64": "f8",
}
HANG_S = 20
BESIDE = 4 << 20


class Decoder:
    """The example `pixels`, started again when it has died."""

    def __init__(self, binary: str) -> None:
        self.binary, self.folder = binary, tempfile.TemporaryDirectory()
        self.process: subprocess.Popen[bytes] | None = None

    def decode(self, encoded: bytes, decode: str) -> tuple[dict[str, Any], bytes]:
        """What it says of a file, and its pixels."""
        if self.process is None:
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            self.process = subprocess.Popen([self.binary], **pipes)
        process, stdin, stdout = self.process, self.process.stdin, self.process.stdout
        assert stdin and stdout and process.stderr
        path = Path(self.folder.name) / "file.tif"
        path.write_bytes(encoded)
        stdin.write(f"{decode}\t{path}\n".encode())
        stdin.flush()
        if not select.select([stdout], [], [], HANG_S)[0]:
            process.kill()
            self.process = None
            return {"died": f"no answer in {HANG_S} s"}, b""
        line = stdout.readline()
        if not line:
            said = process.stderr.read().decode()[-400:]
            code = process.wait()
            self.process = None
            return {"died": f"exit {code}: {said}"}, b""
        told = json.loads(line)
        return told, stdout.read(told.get("bytes", 0))


def judged(tiff: Made, decode: str, decoder: Decoder) -> str:
    """What is wrong with what came of it; empty if nothing is."""
    told, pixels = decoder.decode(tiff.encoded, decode)
    wanted = tiff.expected[decode]
    if "refused" in told:
        return "" if isinstance(wanted, str) and wanted in told["refused"] else f"refused: {told['refused']}"
    if "died" in told:
        return str(told["died"])
    if isinstance(wanted, str):
        return f"not refused ({wanted})"
    array = np.frombuffer(pixels, TYPES[told["element"]]).reshape(told["dims"])
    if array.shape != wanted.shape or array.dtype != wanted.dtype:
        return f"{array.shape} {array.dtype} for {wanted.shape} {wanted.dtype}"
    apart = np.abs(array.astype(float) - wanted.astype(float)).max()
    if told["peak"] > BESIDE:
        return f"{told['peak']} bytes of memory were not claimed"
    return "" if apart <= tiff.most else f"{apart:.0f} apart"


def compare(decoder: Decoder, per_cell: int) -> int:
    count: Counter[str] = Counter()
    wrong = []
    for tiff in made(per_cell):
        for decode in tiff.expected:
            what = judged(tiff, decode, decoder)
            refused = isinstance(tiff.expected[decode], str)
            count["wrong" if what else "refused as they must be" if refused else "right"] += 1
            if what:
                wrong.append(f"{tiff.name} {decode}: {what}")
    print("\n".join(wrong[:60]))
    print(", ".join(f"{number} {what}" for what, number in sorted(count.items())))
    return 1 if wrong else 0


def mutant(files: list[bytes], lot: random.Random) -> bytes:
    encoded = bytearray(lot.choice(files))
    way = lot.randrange(5)
    if way == 0:
        for _ in range(lot.randrange(1, 9)):
            encoded[lot.randrange(len(encoded))] ^= 1 << lot.randrange(8)
    elif way == 1:
        del encoded[lot.randrange(len(encoded)) :]
    elif way == 2:
        other = lot.choice(files)
        at = lot.randrange(len(encoded))
        encoded[at:] = other[lot.randrange(len(other)) :]
    else:
        # A tag of its directory, which stands at the end.
        big = encoded[2:4] in (b"+\0", b"\0+")
        order = "<" if encoded[:1] == b"I" else ">"
        at = struct.unpack_from(order + ("Q" if big else "I"), encoded, 8 if big else 4)[0]
        head, entry = (8, 20) if big else (2, 12)
        entries = struct.unpack_from(order + ("Q" if big else "H"), encoded, at)[0]
        place = at + head + entry * lot.randrange(entries) + lot.choice([0, 2, 4, 8])
        values = [0, 1, 2, 3, 7, 8, 16, 255, 65535, lot.randrange(65536), lot.randrange(1 << 32)]
        wide = lot.random() < 0.5
        value = lot.choice(values)
        if place + 4 <= len(encoded):
            struct.pack_into(order + ("I" if wide else "H"), encoded, place, value if wide else value % 65536)
    return bytes(encoded)


def mutants(decoder: Decoder, number: int, seed: int) -> int:
    lot, wrong = random.Random(seed), []
    count: Counter[str] = Counter()
    files = [tiff.encoded for tiff in made(1)]
    for at in range(number):
        encoded = mutant(files, lot)
        told, _ = decoder.decode(encoded, lot.choice(["rgb", "gray", "rgb:16x16", "gray:9x9"]))
        died = told.get("died") or (told.get("refused", "").startswith("the decoder failed") and told["refused"])
        unclaimed = told.get("peak", 0) > BESIDE
        count["refused" if "refused" in told else "decoded"] += 1
        if died or unclaimed:
            wrong.append(f"mutant {at}: {died or told['peak']}")
            Path(f"/tmp/tiff-mutant-{seed}-{at}.tif").write_bytes(encoded)
    print("\n".join(wrong))
    print(", ".join(f"{number} {what}" for what, number in sorted(count.items())), f"{len(wrong)} wrong")
    return 1 if wrong else 0


def pack(folder: Path) -> None:
    """One file of every kind and of every compression at the least, with the sum of what must come of it, or that
    itself where it may differ."""
    lot, chosen = random.Random(5), []
    cells: Counter[str] = Counter()
    files = [tiff for tiff in made(1) if not tiff.name.endswith("-1")]
    lot.shuffle(files)
    for tiff in files:
        # Kind, compression and layout, the rest; by other writers only the whole name.
        words = re.match(
            r"(.+?)-(none|lzw|old-deflate|deflate|packbits|zstd|lzma)-(strips?|tiles|wide)-(p\d)-(.*)", tiff.name
        )
        keys = [words[1], words[2] + words[3] + words[4], words[5]] if words else [tiff.name]
        if cells[keys[0]] < 2 or any(cells[key] < 1 for key in keys):
            cells.update(keys)
            chosen.append(tiff)
    body, cases = bytearray(), []
    for tiff in chosen:
        case = {"name": tiff.name, "at": len(body), "bytes": len(tiff.encoded), "most": tiff.most, "expected": {}}
        body += tiff.encoded
        for decode, array in tiff.expected.items():
            if isinstance(array, str):
                case["expected"][decode] = {"refused": array}
                continue
            pixels = np.ascontiguousarray(array).tobytes()
            told = {"shape": list(array.shape), "type": array.dtype.name, "crc": zlib.crc32(pixels)}
            if tiff.most:
                told |= {"at": len(body), "bytes": len(pixels)}
                body += pixels
            case["expected"][decode] = told
        cases.append(case)
    (folder / "tiffs.pack.z").write_bytes(zlib.compress(bytes(body), 9))
    lines = ",\n".join(json.dumps(case) for case in cases)
    (folder / "tiffs.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(f"{len(cases)} files, {len(body)} bytes, {(folder / 'tiffs.pack.z').stat().st_size} packed")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", nargs="?", default="target/debug/examples/pixels")
    parser.add_argument("--per-cell", type=int, default=2)
    parser.add_argument("--mutants", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pack", type=Path)
    args = parser.parse_args()
    if args.pack:
        pack(args.pack)
        return 0
    decoder = Decoder(args.binary)
    if args.mutants:
        return mutants(decoder, args.mutants, args.seed)
    return compare(decoder, args.per_cell)


if __name__ == "__main__":
    sys.exit(main())
