"""`gpulane.concurrent` with the real torch, as far as it goes without a GPU. Skipped where torch is not installed."""

from __future__ import annotations

import asyncio
import importlib.util
import math
import os
import re
import subprocess
import sys
import unittest
import warnings
from pathlib import Path
from typing import Any, Dict, List

import gpulane
from gpulane._concurrent._capture import like, steady_casts
from gpulane._concurrent._check import difference, says, varied
from gpulane._concurrent._form import Form
from gpulane._concurrent._weights import Weights

HERE = importlib.util.find_spec("torch") is not None
ROOT = Path(__file__).resolve().parents[2]


@unittest.skipUnless(HERE, "torch is not installed")
class WithTorch(unittest.TestCase):
    torch: Any

    @classmethod
    def setUpClass(cls) -> None:
        import torch

        cls.torch = torch

    def plain(self, models: List[Any], examples: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return gpulane.concurrent(models, examples)

    def test_plain_calls_answer_as_the_models_do(self) -> None:
        torch = self.torch
        models = [torch.nn.Linear(4, 3).eval(), torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Dropout()).eval()]
        x = torch.randn(5, 4)
        fast = self.plain(models, x[:1])
        self.assertEqual(fast.how, ["plain", "plain"])
        for answer, model in zip(fast(x), models):
            self.assertTrue(torch.equal(answer, model(x)))
            self.assertFalse(answer.requires_grad)

    def test_what_would_fail_on_a_gpu_fails_without_one(self) -> None:
        torch = self.torch
        net = torch.nn.Linear(4, 3).eval()
        for example in (torch.zeros(2, 5), (4, 64), torch.zeros(2, 4).numpy()):
            with self.subTest(type(example)), self.assertRaisesRegex(
                RuntimeError, r"model 0 \(Linear\) fails on its ex"
            ):
                self.plain([net], example)
        self.assertRaisesRegex(
            TypeError, r"is a class: give an object of it, such as Linear\(…\)", self.plain, [type(net)], 1
        )
        fast = self.plain([net], torch.zeros(2, 4))
        self.assertRaisesRegex(ValueError, "convert it with `torch.as_tensor`", fast, torch.zeros(2, 4).numpy())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.assertEqual(gpulane.concurrent([net], torch.zeros(2, 5), check=False).how, ["plain"])

    def test_an_example_is_left_as_it_is(self) -> None:
        example = self.torch.ones(2, 4)
        self.plain([lambda x: x.zero_()], example)
        self.assertEqual(example.sum().item(), 8)

    def test_training_mode_is_refused_also_deep_inside(self) -> None:
        torch = self.torch
        net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout()).eval()
        net[1].train()
        self.assertRaisesRegex(ValueError, "training mode", gpulane.concurrent, [net], torch.zeros(1, 2))

    def test_shapes_and_types_are_those_of_the_example(self) -> None:
        torch = self.torch
        form = Form({"ids": torch.zeros(2, 7, dtype=torch.int64), "mask": torch.ones(2, 7), "t": torch.ones(())}, "it")
        given = {"t": torch.ones(()), "mask": torch.ones(5, 7), "ids": torch.zeros(5, 7, dtype=torch.int64)}
        self.assertEqual(form.batch_of(form.leaves(given)), 5)
        for text, change in {
            r"`mask` of it has shape \(5, 8\), its example \(batch, 7\)": {"mask": torch.ones(5, 8)},
            "`ids` of it is torch.int32": {"ids": torch.zeros(5, 7, dtype=torch.int32)},
            "`mask` of it holds 4 items": {"mask": torch.ones(4, 7)},
            r"`t` of it has shape \(1,\)": {"t": torch.ones(1)},
        }.items():
            with self.subTest(text), self.assertRaisesRegex(ValueError, text):
                form.batch_of(form.leaves({**given, **change}))
        self.assertRaisesRegex(ValueError, "takes a dict with", form.leaves, {"ids": given["ids"]})

    def test_difference_is_a_part_of_the_largest_number(self) -> None:
        tensor = self.torch.tensor
        inf, nan = math.inf, math.nan
        for got, expected, apart in (
            ([1.0, 100.0], [1.0, 100.0], 0.0),
            ([2.0, 100.0], [1.0, 100.0], 0.01),
            ([nan, 1.0], [nan, 1.0], 0.0),
            ([nan, 1.0], [1.0, 1.0], inf),
            ([inf, 1.0], [inf, 1.0], 0.0),
            ([0.0, 0.0], [0.0, 0.0], 0.0),
            ([1e-9, 0.0], [0.0, 0.0], inf),
        ):
            with self.subTest(got=got, expected=expected):
                self.assertAlmostEqual(difference(self.torch, tensor(got), tensor(expected)), apart)
        self.assertGreater(difference(self.torch, tensor([inf, 1.0]), tensor([5.0, 1.0])), 1e30)
        self.assertEqual(difference(self.torch, tensor([1]), tensor([2])), inf)
        self.assertEqual(difference(self.torch, tensor([1.0]), tensor([[1.0]])), inf)
        self.assertAlmostEqual(difference(self.torch, tensor([1 + 2j]), tensor([1 + 1j])), 1.0)

    def test_half_precision_may_be_further_apart(self) -> None:
        torch = self.torch
        for dtype, allowed in ((torch.float32, False), (torch.bfloat16, True), (torch.float16, True)):
            wrong = says(torch, [torch.tensor([1.0, 1.01], dtype=dtype)], [torch.tensor([1.0, 1.0], dtype=dtype)], None)
            self.assertEqual(wrong is None, allowed, dtype)

    def test_varied_data_differ_in_every_item_and_keep_their_kind(self) -> None:
        torch = self.torch
        for leaf in (torch.zeros(3, 2, 2), torch.rand(3, 2), torch.zeros(3, 4, 2, 2, dtype=torch.bfloat16)):
            other = varied(torch, leaf, True)
            self.assertEqual((other.shape, other.dtype), (leaf.shape, leaf.dtype))
            for row in range(3):
                self.assertFalse(torch.equal(other[row], leaf[row]))
                self.assertFalse(torch.equal(other[row], other[row - 1]))
        ids = torch.arange(6).reshape(2, 3)
        self.assertEqual(sorted(varied(torch, ids, True).flatten().tolist()), list(range(6)))
        self.assertEqual(varied(torch, torch.tensor(2.0), False).shape, ())

    def test_memory_format_is_kept(self) -> None:
        torch = self.torch
        leaf = torch.rand(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
        self.assertTrue(like(torch, leaf, 7, "cpu").is_contiguous(memory_format=torch.channels_last))
        self.assertTrue(like(torch, leaf.contiguous(), 7, "cpu").is_contiguous())
        self.assertEqual(like(torch, leaf, 7, "cpu").shape, (7, 3, 4, 5))

    def test_weights_replaced_are_told_from_weights_changed(self) -> None:
        torch = self.torch
        net = torch.nn.BatchNorm1d(3).eval()
        weights = Weights(net)
        with torch.no_grad():
            net.weight.mul_(2)
        net.load_state_dict(torch.nn.BatchNorm1d(3).state_dict())
        self.assertFalse(weights.replaced())
        net.running_mean = torch.ones(3)
        self.assertTrue(weights.replaced())

    def test_casts_of_autocast_are_not_kept_meanwhile(self) -> None:
        torch = self.torch
        with torch.autocast("cpu", dtype=torch.bfloat16):
            with steady_casts(torch):
                self.assertFalse(torch.is_autocast_cache_enabled())
            self.assertTrue(torch.is_autocast_cache_enabled())

    def test_what_the_docs_show_runs(self) -> None:
        text = (ROOT / "docs" / "concurrent.md").read_text(encoding="utf-8")
        blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        self.assertGreater(len(blocks), 4)
        space: Dict[str, Any] = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for block in blocks[:-1]:
                exec(block, space)
            self.assertEqual(len(asyncio.run(space["serve"](self.torch.rand(3, 64, device=space["device"])))), 4)
            exec(blocks[-1], space)

    def test_the_example_runs(self) -> None:
        command = [sys.executable, str(ROOT / "examples" / "several_models.py"), "60"]
        ended = subprocess.run(
            command, env={**os.environ, "PYTHONPATH": str(ROOT / "python")}, capture_output=True, text=True
        )
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("60 pictures in", ended.stdout)


if __name__ == "__main__":
    unittest.main()
