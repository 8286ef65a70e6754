"""What a worker makes of the `decode` text that its feeder sends."""

from __future__ import annotations

import importlib.util
import json
import unittest
from pathlib import Path

from gpulane._batches import Decode
from gpulane._device._rescue import pixels_of

FIXTURES = Path(__file__).resolve().parents[2] / "tests" / "map-protocol" / "planes"


class Words(unittest.TestCase):
    def test_every_word_is_understood_wherever_it_stands(self) -> None:
        for text, expected in (
            ("rgb", Decode("rgb", None)),
            ("rgb:224x112", Decode("rgb", (224, 112))),
            ("rgb:224x224:crop", Decode("rgb", (224, 224), "crop")),
            ("rgb:224x224:short=256:bicubic", Decode("rgb", (224, 224), "short", 256, "bicubic")),
            ("rgb:lanczos:pad:9x8", Decode("rgb", (9, 8), "pad", filter="lanczos")),
            ("rgba:9x8", Decode("rgba", (9, 8))),
            ("rgb:9x8:srgb", Decode("rgb", (9, 8), srgb=True)),
            ("text", Decode("text", None)),
        ):
            self.assertEqual(Decode.parse(text), expected)

    def test_pixels_have_as_many_channels_as_asked_for(self) -> None:
        kinds = [(Decode.parse(text).channels, Decode.parse(text).is_image) for text in ("rgb:2x2", "rgba", "gray")]
        self.assertEqual(kinds, [(3, True), (4, True), (1, True)])
        self.assertFalse(Decode.parse("npy").is_image)

    def test_only_bilinear_colours_of_a_size_come_unfinished(self) -> None:
        for text, unfinished in (
            ("rgb:8x8", True),
            ("rgb:8x8:short=9", True),
            ("rgb:8x8:crop", True),
            ("rgb:8x8:srgb", True),
            ("rgb", False),
            ("rgb:8x8:bicubic", False),
            ("rgba:8x8", False),
            ("gray:8x8", False),
            ("bytes", False),
        ):
            self.assertEqual(Decode.parse(text).is_finished_by_workers, unfinished, text)


@unittest.skipIf(importlib.util.find_spec("PIL") is None, "no Pillow")
class Rescue(unittest.TestCase):
    def test_what_pillow_decodes_instead_has_the_fit_asked_for(self) -> None:
        for path in sorted(FIXTURES.glob("*.jpg")):
            about = json.loads(path.with_suffix(".json").read_text())
            width, height = about["target"]
            pixels = pixels_of(path.read_bytes(), Decode.parse(f"rgb:{width}x{height}:{about['fit']}"))
            assert isinstance(pixels, bytes), pixels
            expected = path.with_suffix(".rgb").read_bytes()
            self.assertEqual(len(pixels), len(expected), path.stem)
            self.assertLessEqual(max(abs(one - other) for one, other in zip(pixels, expected)), 2, path.stem)


if __name__ == "__main__":
    unittest.main()
