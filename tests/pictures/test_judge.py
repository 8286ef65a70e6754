"""The judge itself: does it see what is wrong, and only that?"""

from __future__ import annotations

import io
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import numpy as np
from PIL import Image

from .damage import judge_damage
from .judge import Rule, explain, judge
from .mutate import mutants
from .recipe import choices
from .reference import Reference, references


class Judge(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.path = self.folder / "a.png"
        self.pixels = np.arange(300, dtype=np.uint8).reshape(10, 10, 3)
        Image.fromarray(self.pixels).save(self.path)

    def word(self, ours: object, reason: str | None = None, form: str = "rgb") -> str:
        return judge("a.png", self.path, form, ours, reason, references(self.path, [form])[form]).word

    def test_the_same_pixels_are_equal(self) -> None:
        self.assertEqual(self.word(self.pixels), "equal")

    def test_one_pixel_four_levels_off_is_wrong(self) -> None:
        ours = self.pixels.copy()
        ours[5, 5, 1] += 3
        self.assertEqual(self.word(ours, form="rgb:10x10"), "three levels")
        ours[5, 5, 1] += 1
        self.assertEqual(self.word(ours, form="rgb:10x10"), "wrong")

    def test_one_level_is_wrong_where_nothing_is_computed(self) -> None:
        ours = self.pixels.copy()
        ours[5, 5, 1] += 1
        self.assertEqual(self.word(ours), "wrong")
        self.assertEqual(self.word(ours, form="rgb:10x10"), "one level")

    def test_floats_are_compared_to_the_bit(self) -> None:
        path = self.folder / "a.tif"
        path.write_bytes(b"II*\0")
        pixels = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)
        for ours, word in [(pixels, "equal"), (pixels + np.float32(1e-6), "wrong")]:
            self.assertEqual(judge("a.tif", path, "gray", ours, None, Reference(pixels)).word, word)

    def test_a_picture_is_turned_also_where_another_note_cannot_be_written(self) -> None:
        path = self.folder / "a.webp"
        exif = Image.Exif()
        exif[274] = 6
        Image.fromarray(self.pixels[:4]).save(path, lossless=True, exif=exif)
        with unittest.mock.patch("PIL.ImageOps.exif_transpose", side_effect=TypeError):
            found = references(path, ["rgb"])["rgb"].pixels
        self.assertEqual(found.shape, (10, 4, 3))
        self.assertTrue((found == np.rot90(self.pixels[:4], -1)).all())

    def test_another_shape_or_type_is_wrong(self) -> None:
        self.assertEqual(self.word(self.pixels[:9]), "wrong")
        self.assertEqual(self.word(self.pixels.astype(np.uint16)), "wrong")

    def test_a_refusal_of_what_pillow_loads_is_told(self) -> None:
        self.assertEqual(self.word(None, "truncated"), "refused alone")
        self.path.write_bytes(self.path.read_bytes()[:60])
        self.assertEqual(self.word(None, "truncated"), "refused by all")
        self.assertEqual(self.word(self.pixels), "accepted alone")

    def test_only_a_large_jpeg_brought_to_a_size_may_be_shrunk(self) -> None:
        path = self.folder / "a.jpg"
        Image.fromarray(np.zeros((96, 96, 3), np.uint8)).save(path)
        ours = np.full((48, 48, 3), 1, np.uint8)
        ours[0, 0] = 9
        for sides, word in [((192, 192), "shrunk"), ((191, 192), "wrong")]:
            theirs = Reference(np.zeros_like(ours), sides=sides)
            self.assertEqual(judge("a.jpg", path, "rgb:48x48", ours, None, theirs).word, word)

    def test_a_rule_explains_what_it_fits_and_nothing_else(self) -> None:
        rule = Rule("refused alone", "a.*", "rgb*", "trunc", "cut on purpose")
        theirs = references(self.path, ["rgb"])["rgb"]
        fitting = judge("a.png", self.path, "rgb", None, "truncated", theirs)
        self.assertEqual(explain(fitting, [rule]).word, "explained: refused alone")
        other = judge("a.png", self.path, "rgb", None, "no such format", theirs)
        self.assertEqual(explain(other, [rule]).word, "refused alone")

    def test_orientation_is_part_of_the_reference(self) -> None:
        exif = Image.Exif()
        exif[0x0112] = 6
        Image.fromarray(self.pixels[:4]).save(self.path, exif=exif)
        self.assertEqual(references(self.path, ["rgb"])["rgb"].pixels.shape, (10, 4, 3))


class Damage(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.base = self.folder / "base.png"
        Image.fromarray(np.arange(1200, dtype=np.uint8).reshape(20, 20, 3)).save(self.base)

    def test_a_refusal_of_an_unchanged_picture_stays_a_fault(self) -> None:
        whole = self.folder / "whole.png"
        whole.write_bytes(self.base.read_bytes() + b"more")
        verdict = judge("whole.png", whole, "rgb", None, "broken", references(whole, ["rgb"])["rgb"])
        self.assertEqual(judge_damage(verdict, whole, self.base, None, "rgb").word, "refused alone")

    def test_what_pillow_refuses_is_accepted_only_with_the_original_pixels(self) -> None:
        cut = self.folder / "cut.png"
        cut.write_bytes(self.base.read_bytes()[:70])
        good = np.asarray(Image.open(self.base).convert("RGB"))
        theirs = references(cut, ["rgb"])["rgb"]
        for ours, word in [(good, "explained: accepted alone"), (np.zeros_like(good), "accepted alone")]:
            verdict = judge("cut.png", cut, "rgb", ours, None, theirs)
            self.assertEqual(judge_damage(verdict, cut, self.base, ours, "rgb").word, word)

    def test_mutants_are_the_same_for_a_seed(self) -> None:
        data = io.BytesIO()
        Image.new("RGB", (30, 30)).save(data, "BMP")
        base = self.folder / "base.bmp"
        base.write_bytes(data.getvalue())
        made = [
            mutants([base, self.base], 60, seed, self.folder / name) for seed, name in [(1, "a"), (1, "b"), (2, "c")]
        ]
        bytes_of = [[path.read_bytes() for path in each] for each in made]
        self.assertEqual(bytes_of[0], bytes_of[1])
        self.assertNotEqual(bytes_of[0], bytes_of[2])

    def test_combinations_are_different_and_always_the_same(self) -> None:
        found = choices("x", 20, a=[1, 2, 3], b=list(range(10)))
        self.assertEqual(found, choices("x", 20, a=[1, 2, 3], b=list(range(10))))
        self.assertEqual(len({str(each) for each in found}), 20)


if __name__ == "__main__":
    unittest.main()
