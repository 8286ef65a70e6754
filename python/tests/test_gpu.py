"""The real worker with torch and CuPy models on a real GPU. Skipped where there is none."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from gpulane._device._probe import JPEG as PROBE
from gpulane._ring import JPEG, PLANES

from .fake_feeder import PATIENCE, FakeFeeder, text, u8

FIXTURES = Path(__file__).resolve().parents[2] / "tests" / "map-protocol" / "planes"


def has(library: str) -> bool:
    """Whether that library finds a GPU; asked in a process of its own."""
    if shutil.which("nvidia-smi") is None:
        return False
    asking = {"torch": "torch.cuda.is_available()", "cupy": "cupy.cuda.runtime.getDeviceCount() > 0"}[library]
    code = f"import sys, {library}; sys.exit(not ({asking}))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


MEANS = """
    import torch
    def Model(batch):
        assert batch.is_cuda and batch.dtype == torch.uint8, batch
        assert batch.is_contiguous(memory_format=torch.channels_last)
        return {"mean": batch.double().mean((1, 2, 3)), "shape": [list(batch.shape[1:])] * len(batch)}
"""


@unittest.skipUnless(has("torch"), "no GPU that torch can use")
class WithTorch(unittest.TestCase):
    def worker(self, model: str) -> FakeFeeder:
        feeder = FakeFeeder(model, gpus="0")
        self.addCleanup(feeder.close)
        return feeder

    def test_packed_pictures_are_one_tensor(self) -> None:
        feeder = self.worker(MEANS)
        ready = feeder.start("rgb:4x2")
        self.assertEqual((ready["framework"], ready["accepts"]), ("torch", ["planes", "jpeg"]), feeder.said())
        for slot in range(3):
            feeder.ask(slot, [u8((2, 4, 3), bytes([n + slot] * 24)) for n in range(5)], slot=slot, packed=True)
        began = [feeder.connection.receive().head for _ in range(6)]  # type: ignore[union-attr]
        self.assertEqual(sorted(h["batch"] for h in began if h["frame"] == "results"), [0, 1, 2], feeder.said())
        self.assertTrue(all(h["bytes"]["copied_to_device"] == 120 for h in began if h["frame"] == "results"))

    def test_planes_jpegs_and_pixels_in_one_batch(self) -> None:
        feeder = self.worker("import torch\ndef Model(batch): return batch.permute(0, 2, 3, 1).contiguous()")
        feeder.start("rgb:32x32")
        path = FIXTURES / "420-6-32x32-stretch"
        about = json.loads(path.with_suffix(".json").read_text())
        dims = tuple(about[key] for key in ("height", "width", "chroma_height", "chroma_width"))
        planes = (PLANES, 1, dims, path.with_suffix(".planes").read_bytes(), about["orientation"], about["chroma"])
        expected = path.with_suffix(".rgb").read_bytes()
        encoded = (JPEG, 1, (47, 61, 0, 0), path.with_suffix(".jpg").read_bytes(), about["orientation"], 0)
        broken = (JPEG, 1, (96, 128, 0, 0), b"\xff\xd8" + bytes(64), 1, 0)
        feeder.ask(1, [planes, encoded, u8((32, 32, 3), expected), broken, (JPEG, 1, (96, 128, 0, 0), PROBE)])
        answer = feeder.answer(1)
        self.assertEqual(set(answer.failed), {3}, feeder.said())
        self.assertIn("refuses this JPEG", answer.failed[3])
        for number, row in enumerate(answer.result[:3]):
            flat = [value for line in row for pixel in line for value in pixel]
            apart = [abs(one - other) for one, other in zip(flat, expected)]
            self.assertLessEqual((max(apart), sum(apart) / len(apart)), (4, 1), number)

    def test_ragged_pictures_are_a_list(self) -> None:
        feeder = self.worker("import torch\ndef Model(batch): return [[*one.shape, int(one.sum())] for one in batch]")
        feeder.start("rgb")
        feeder.ask(1, [u8((1, 2, 3), bytes([1] * 6)), u8((3, 1, 3), bytes([2] * 9))])
        self.assertEqual(feeder.answer(1).result, [[1, 2, 3, 6], [3, 1, 3, 18]])

    def test_half_precision_and_scalars_on_the_gpu(self) -> None:
        feeder = self.worker(
            """
            import torch
            def Model(batch):
                half = torch.full((len(batch), 2), 0.5, dtype=torch.bfloat16, device="cuda")
                return {"half": half, "each": [row.sum() for row in half], "nan": half[:, 0] / 0 * 0}
            """
        )
        feeder.start("text", nan="keep")
        answer = feeder.work("a", "b")
        self.assertEqual(answer.types, {"half": "f32", "each": "f32", "nan": "f32"}, feeder.said())
        self.assertEqual(answer.columns["half"], [[0.5, 0.5]] * 2)
        self.assertEqual(answer.columns["each"], [1.0, 1.0])

    def test_out_of_gpu_memory_means_fewer_at_once(self) -> None:
        feeder = self.worker(
            """
            import torch
            def Model(batch):
                total = torch.cuda.get_device_properties(0).total_memory
                held = torch.empty(len(batch) * total // 3, dtype=torch.uint8, device="cuda")
                return [len(batch)] * len(batch)
            """
        )
        feeder.start("rgb:2x2")
        feeder.ask(1, [u8((2, 2, 3), bytes(12))] * 8, packed=True)
        answer = feeder.answer(1)
        self.assertEqual((answer.failed, answer.result), ({}, [2] * 8), feeder.said())
        self.assertEqual(answer.head["ooms"], 2)

    def test_a_broken_context_ends_the_process_without_an_answer(self) -> None:
        feeder = self.worker(
            """
            import torch
            def Model(batch):
                return torch.zeros(4, device="cuda")[torch.full((len(batch),), 99, device="cuda")]
            """
        )
        feeder.start("text")
        feeder.ask(1, [text("a")])
        feeder.receive("began")
        self.assertEqual(feeder.process.wait(PATIENCE), 13, feeder.said())

    def test_an_exception_on_the_gpu_is_narrowed_down(self) -> None:
        feeder = self.worker(
            """
            import torch
            def Model(batch):
                if (batch == 9).any(): raise ValueError("nine")
                return batch.float().mean((1, 2, 3))
            """
        )
        feeder.start("rgb:2x2")
        feeder.ask(1, [u8((2, 2, 3), bytes([n] * 12)) for n in range(12)], packed=True)
        answer = feeder.answer(1)
        self.assertEqual(set(answer.failed), {9}, feeder.said())
        self.assertEqual(answer.result, [float(n) for n in range(12) if n != 9])


@unittest.skipUnless(has("cupy"), "no GPU that CuPy can use")
class WithCupy(unittest.TestCase):
    def test_pictures_and_results(self) -> None:
        feeder = FakeFeeder(
            """
            import cupy
            class Model:
                framework = "cupy"
                def predict_batch(self, batch):
                    assert isinstance(batch, cupy.ndarray) and batch.shape[1:] == (2, 4, 3), batch
                    return {"sum": batch.sum((1, 2, 3)), "half": batch[:, 0, 0].astype(cupy.float16)}
            """,
            gpus="0",
        )
        self.addCleanup(feeder.close)
        ready = feeder.start("rgb:4x2")
        self.assertEqual(ready["framework"], "cupy", feeder.said())
        for packed in (True, False):
            feeder.ask(1, [u8((2, 4, 3), bytes([n] * 24)) for n in range(5)], packed=packed)
            answer = feeder.answer(1)
            self.assertEqual(answer.columns["half"], [[float(n)] * 3 for n in range(5)], feeder.said())


if __name__ == "__main__":
    unittest.main()
