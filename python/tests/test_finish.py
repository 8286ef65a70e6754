"""The GPU's finishing kernel, run on the CPU: its very source, compiled as C++ with one thread after the other, against
planes whose pixels Pillow has made. What only a GPU can show is in test_gpu.py."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any, Dict, Tuple

from gpulane._device._finish import DECODED, FITS, SOURCE
from gpulane._ring import ARRAY, ENTRY, JPEG, PLANES

FIXTURES = Path(__file__).resolve().parents[2] / "tests" / "map-protocol" / "planes"
COMPILER = shutil.which("g++") or shutil.which("c++") or shutil.which("clang++")

BEFORE = """
#include <algorithm>
#include <cmath>
using std::max;
using std::min;
#define __device__
#define __global__
#define __shared__ static
#define __launch_bounds__(threads)
#define __syncthreads()
struct Place { int x, y, z; };
static Place blockIdx, threadIdx, blockDim;
"""

# As if each thread were alone in its block: it then works out all that others would share with it.
AFTER = """
extern "C" void run(const Entry *table, u64 base, const Decoded *decoded, u8 *out, int count, int w, int h, int c, int fit, int shorter) {
    blockDim = {1, 1, 1};
    for (int z = 0; z < count; z++)
        for (int y = 0; y < (h + TILE_H - 1) / TILE_H; y++)
            for (int x = 0; x < (w + TILE_W - 1) / TILE_W; x++)
                for (int thread = 0; thread < TILE_W; thread++) {
                    blockIdx = {x, y, z};
                    threadIdx = {thread, 0, 0};
                    finish(table, base, decoded, out, w, h, c, fit, shorter);
                }
}
"""


@unittest.skipIf(COMPILER is None, "no C++ compiler")
class Finishing(unittest.TestCase):
    library: Any

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        source = Path(folder.name) / "finish.cpp"
        source.write_text(BEFORE + SOURCE + AFTER)
        assert COMPILER is not None
        command = [COMPILER, "-O1", "-w", "-shared", "-fPIC", "-o", str(source.with_suffix(".so")), str(source)]
        subprocess.run(command, check=True)
        cls.library = ctypes.CDLL(str(source.with_suffix(".so")))

    def finish(
        self,
        table: bytes,
        data: bytes,
        size: Tuple[int, int],
        fit: str = "stretch",
        colours: int = 3,
        decoded: bytes = b"",
    ) -> bytes:
        count = len(table) // ENTRY.size
        length = size[0] * size[1] * colours * count
        out = ctypes.create_string_buffer(b"\x55" * length, length)  # So that what is not written shows.
        held = ctypes.create_string_buffer(data, max(len(data), 1))
        base = ctypes.c_uint64(ctypes.addressof(held))
        name, _, shorter = fit.partition("=")
        self.library.run(table, base, decoded or None, out, count, *size, colours, FITS[name], int(shorter or 0))
        return out.raw

    def fixture(self, path: Path) -> Tuple[Dict[str, Any], bytes, bytes, bytes]:
        about = json.loads(path.with_suffix(".json").read_text())
        data = path.with_suffix(".planes").read_bytes()
        dims = [about[key] for key in ("height", "width", "chroma_height", "chroma_width")]
        entry = ENTRY.pack(0, 0, len(data), PLANES, 1, about["orientation"], about["chroma"], 0, *dims, 0, 0)
        return about, entry, data, path.with_suffix(".rgb").read_bytes()

    def assert_alike(self, got: bytes, expected: bytes) -> None:
        self.assertEqual(len(got), len(expected))
        apart = [abs(one - other) for one, other in zip(got, expected)]
        self.assertLessEqual(max(apart), 2)
        self.assertLessEqual(sum(apart) / len(apart), 0.3)

    def test_planes_become_the_pixels_of_pillow(self) -> None:
        fixtures = sorted(FIXTURES.glob("*.planes"))
        chroma = {path.name.partition("-")[0] for path in fixtures}
        self.assertLessEqual({"420", "422", "440", "444", "gray"}, chroma)
        fits = {path.stem.rpartition("-")[2].partition("=")[0] for path in fixtures}
        self.assertEqual(fits, set(FITS))
        for path in fixtures:
            with self.subTest(path.stem):
                about, entry, data, expected = self.fixture(path)
                self.assert_alike(self.finish(entry, data, tuple(about["target"]), about["fit"]), expected)

    def test_each_of_a_batch_goes_to_its_place(self) -> None:
        _, entry, data, expected = self.fixture(FIXTURES / "420-6-32x32-stretch.planes")
        pixels = bytes(range(256)) * 12
        given = ENTRY.pack(0, len(data), len(pixels), ARRAY, 1, 1, 0, 3, 32, 32, 3, 0, 0, 0)
        got = self.finish(entry + given + entry, data + pixels, (32, 32))
        self.assert_alike(got[: len(expected)], expected)
        self.assertEqual(got[len(expected) : 2 * len(expected)], pixels)
        self.assert_alike(got[2 * len(expected) :], expected)

    def test_a_decoded_jpeg_is_finished_where_it_lies(self) -> None:
        about, _, data, expected = self.fixture(FIXTURES / "444-1-32x32-stretch.planes")
        height, width = about["height"], about["width"]
        held = ctypes.create_string_buffer(data, len(data))
        luma, step = ctypes.addressof(held), height * width
        sides = (width, width, height, width, height, width)
        record = DECODED.pack(luma, luma + step, luma + 2 * step, *sides, 0, 1)
        entry = ENTRY.pack(0, 0, 0, JPEG, 1, 1, 0, 0, height, width, 0, 0, 0, 0)
        got = self.finish(entry + entry, b"", (32, 32), decoded=record + bytes(DECODED.size))
        self.assert_alike(got[: len(expected)], expected)
        self.assertEqual(got[len(expected) :], bytes(len(expected)), "what was not decoded is black")

    def test_a_size_far_smaller_needs_more_rows_than_are_kept(self) -> None:
        height, width = 3000, 40
        luma = bytes((y * 255 // height) for y in range(height) for _ in range(width))
        entry = ENTRY.pack(0, 0, len(luma), PLANES, 1, 1, 3, 0, height, width, 0, 0, 0, 0)
        for colours in (1, 3):
            got = self.finish(entry, luma, (4, 5), colours=colours)
            for row in range(5):
                expected = (row + 0.5) * 255 / 5
                self.assertAlmostEqual(got[row * 4 * colours], expected, delta=9)


if __name__ == "__main__":
    unittest.main()
