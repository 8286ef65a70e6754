"""Loads the same photographs from every kind of source: `sources.py FOLDER [ROUNDS]` (photographs by photos.py; needs pyarrow, and `tar`, `gzip` and `zstd`).

Prints, per source, the median of images per CPU-second of reading and decoding to 224×224, the same with listing, and their ratios to plain files.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[2]
THREADS = 2


def prepare(photos: Path, to: Path) -> list[str]:
    """The sources, all with the same photographs."""
    files = sorted(photos.glob("*.jpg"))
    subprocess.run(["tar", "-cf", to / "s.tar", "-C", photos, *[file.name for file in files]], check=True)
    subprocess.run(["gzip", "-k", to / "s.tar"], check=True)
    subprocess.run(["zstd", "-q", "-k", to / "s.tar"], check=True)
    rows = [{"bytes": file.read_bytes(), "path": file.name} for file in files]
    table = pa.table({"image": pa.array(rows, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))})
    for codec in ("snappy", "zstd"):
        pq.write_table(table, to / f"{codec}.parquet", compression=codec, row_group_size=100)
    return ["photos", "s.tar", "s.tar.gz", "s.tar.zst", "snappy.parquet:image", "zstd.parquet:image"]


def main(photos: str, rounds: str = "7") -> None:
    """Prepares, runs, and prints the table."""
    with tempfile.TemporaryDirectory() as folder:
        to = Path(folder)
        inputs = prepare(Path(photos).resolve(), to)
        (to / "photos").symlink_to(Path(photos).resolve())
        inputs[0] = "photos/*.jpg"
        program = ROOT / "target/release/examples/sources"
        done = subprocess.run([program, rounds, str(THREADS), *inputs], cwd=to, check=True, stdout=subprocess.PIPE)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    plain = None
    for source in inputs:
        of = [line for line in lines if line["input"] == source]
        rate = statistics.median(line["images"] / line["cpu"] for line in of)
        whole = statistics.median(line["images"] / (line["cpu"] + line["listing_cpu"]) for line in of)
        plain = plain or (rate, whole)
        print(f"{source:24}{rate:9.0f} ({rate / plain[0]:.2f})  with listing{whole:9.0f} ({whole / plain[1]:.2f})")


main(*sys.argv[1:])
