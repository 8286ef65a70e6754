"""The real loader, as a process: what `load` returns lies in the ring, or is refused with a reason."""

from __future__ import annotations

import array
import os
import unittest
from typing import Any, Dict

from gpulane._ring import ARRAY, BYTES, TEXT
from gpulane.loader import as_loaded

from .fake_feeder import PATIENCE, FakeFeeder

MODEL = """
    import array, sys
    class Model:
        calls = 0
        def setup(self): raise SystemExit("loaders do not set up")
        def predict_batch(self, batch): ...
        def load(self, path):
            Model.calls += 1
            if path == "text": return "grün"
            if path == "bytes": return bytes(range(5))
            if path == "numbers": return array.array("f", [1.5, -2.0])
            if path == "calls": return str(Model.calls)
            raise ValueError("no such scan")
"""


class WithALoader(unittest.TestCase):
    def setUp(self) -> None:
        self.feeder = FakeFeeder(MODEL, role="loader")
        self.addCleanup(self.feeder.close)
        self.assertEqual(self.feeder.accept()["role"], "loader")
        self.feeder.give_ring("load")
        self.assertTrue(self.feeder.receive("ready").head["load"])

    def load(self, path: str, room: int, expected: str = "loaded") -> Dict[str, Any]:
        self.feeder.send("load", path=path, slot=1, offset=128, room=room)
        return self.feeder.receive(expected).head

    def lies(self, size: int) -> bytes:
        return os.pread(self.feeder.memory, size, self.feeder.slot_bytes + 128)

    def test_what_is_loaded_lies_in_its_place(self) -> None:
        for path, kind, element, shape, data in (
            ("text", TEXT, 1, [], "grün".encode()),
            ("bytes", BYTES, 1, [], bytes(range(5))),
            ("numbers", ARRAY, 6, [2], array.array("f", [1.5, -2.0]).tobytes()),
        ):
            with self.subTest(path):
                told = self.load(path, 64)
                seen = (told["kind"], told["type"], told["shape"], told["bytes"])
                self.assertEqual(seen, (kind, element, shape, len(data)))
                self.assertEqual(self.lies(len(data)), data)

    def test_what_is_too_large_is_asked_for_again_and_loaded_once(self) -> None:
        self.assertEqual(self.load("bytes", 4, "too_large")["bytes"], 5)
        self.assertEqual(self.lies(5), bytes(5), "nothing was written")
        self.assertEqual(self.load("bytes", 5)["bytes"], 5)
        self.load("calls", 64)
        self.assertEqual(self.lies(1), b"2")

    def test_an_exception_is_the_items_reason(self) -> None:
        reason = self.load("other", 64, "load_failed")["reason"]
        self.assertRegex(reason, r"^ValueError: no such scan \(model.py:\d+\)$")
        self.load("text", 64)

    def test_it_leaves_when_told_to(self) -> None:
        self.assertEqual(self.feeder.bye(), 0)


class WithoutLoad(unittest.TestCase):
    def test_a_model_without_load_is_told(self) -> None:
        feeder = FakeFeeder("def Model(batch): ...", role="loader")
        self.addCleanup(feeder.close)
        feeder.accept()
        feeder.give_ring("load")
        self.assertIn("has no load(self, path)", feeder.receive("setup_failed").head["error"])
        self.assertEqual(feeder.process.wait(PATIENCE), 1)


class Kinds(unittest.TestCase):
    def test_pictures_that_only_tell_their_interface(self) -> None:
        picture = type("Picture", (), {})()
        picture.__array_interface__ = {"shape": (1, 2, 3), "typestr": "|u1", "data": bytes(6)}
        self.assertEqual(as_loaded(picture)[:3], (ARRAY, 1, (1, 2, 3)))

    def test_what_is_no_array_is_refused(self) -> None:
        for value, word in ((object(), "type object"), (None, "NoneType"), ([1, 2], "type list")):
            with self.subTest(value), self.assertRaisesRegex(TypeError, word):
                as_loaded(value)

    def test_arrays_of_numpy(self) -> None:
        try:
            import numpy
        except ImportError:
            self.skipTest("NumPy is not installed")
        kinds = {"uint8": 1, "uint16": 2, "int16": 3, "uint32": 4, "int32": 5, "float32": 6, "float64": 7, "bool": 8}
        for kind, number in {**kinds, "int64": 9, "uint64": 10, "float16": 11, "int8": 12}.items():
            values = numpy.arange(6).reshape(2, 3).astype(kind)
            for given in (values, values.T, values[:, ::2], values[:0]):
                loaded = as_loaded(given)
                self.assertEqual(
                    (loaded.element, loaded.shape, bytes(loaded.data)), (number, given.shape, given.tobytes())
                )
        with self.assertRaisesRegex(TypeError, "little-endian"):
            as_loaded(numpy.zeros(2, ">f4"))
        with self.assertRaisesRegex(TypeError, "5 dimensions"):
            as_loaded(numpy.zeros((1,) * 5))


if __name__ == "__main__":
    unittest.main()
