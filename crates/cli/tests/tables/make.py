"""Makes the tables in this folder with pyarrow: `python make.py FOLDER` (pyarrow 26, Pillow 12). Tests read what is kept here."""

import io
import sys

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

COUNT = 24


def picture(number: int) -> bytes:
    """A picture of one colour, as JPEG or PNG."""
    image = Image.new("RGB", (40 + number, 30), (number * 5 % 256, number * 11 % 256, 200))
    to = io.BytesIO()
    image.save(to, "JPEG" if number % 2 else "PNG")
    return to.getvalue()


def table() -> pa.Table:
    """Rows as Hugging Face datasets have them, with nulls among them."""
    rows: list = [{"bytes": picture(n), "path": f"p{n:03}.jpg" if n % 3 else None} for n in range(COUNT)]
    rows[5] = {"bytes": None, "path": "beside.png"}
    rows[7] = {"bytes": None, "path": None}
    rows[9] = None
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    return pa.table(
        {
            "image": pa.array(rows, image),
            "label": pa.array([n % 4 for n in range(COUNT)], pa.int64()),
            "text": [f"caption {n}" if n % 5 else None for n in range(COUNT)],
            "raw": pa.array([row["bytes"] if row and row["bytes"] else b"" for row in rows], pa.large_binary()),
            "score": [n / 4 for n in range(COUNT)],
            "ok": [n % 2 == 0 for n in range(COUNT)],
            "tags": [["a"] * (n % 3) for n in range(COUNT)],
        }
    )


def main(folder: str) -> None:
    """Writes all of them."""
    rows = table()
    pq.write_table(rows, f"{folder}/hf.parquet", row_group_size=10)
    pages = {"data_page_version": "2.0", "write_page_index": True, "write_page_checksum": True}
    pq.write_table(rows, f"{folder}/v2.parquet", row_group_size=7, compression="zstd", use_dictionary=False, **pages)
    pq.write_table(rows, f"{folder}/gz.parquet", compression="gzip", use_dictionary=False, data_page_size=500)
    for codec in ("lz4", "brotli"):
        pq.write_table(rows, f"{folder}/{codec}.parquet", compression=codec, row_group_size=9)


main(sys.argv[1])
