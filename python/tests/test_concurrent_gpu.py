"""`gpulane.concurrent` with the real torch on a real GPU. Skipped where there is none."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
import threading
import unittest
import warnings
from typing import Any, Dict, List

import gpulane

HERE = shutil.which("nvidia-smi") is not None and importlib.util.find_spec("torch") is not None


@unittest.skipUnless(HERE, "no GPU that torch can use")
class OnGpu(unittest.TestCase):
    torch: Any

    @classmethod
    def setUpClass(cls) -> None:
        import torch

        if not torch.cuda.is_available():
            raise unittest.SkipTest("no GPU that torch can use")
        cls.torch = torch

    def setUp(self) -> None:
        self.torch.manual_seed(0)

    def tearDown(self) -> None:
        """Whatever a test did: captures end, streams are as they were, memory can be had."""
        torch = self.torch
        torch.cuda.synchronize()
        self.assertEqual(torch.cuda.current_stream(), torch.cuda.default_stream())
        self.assertFalse(torch.cuda.is_current_stream_capturing())
        self.assertEqual(torch.cuda.get_sync_debug_mode(), 0)
        torch.cuda.empty_cache()
        self.assertEqual(torch.ones(1000, device="cuda").sum().item(), 1000)

    def conv(self, width: int = 32, dtype: Any = None) -> Any:
        nn = self.torch.nn
        layers = [
            nn.Conv2d(3, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
        ]
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)]
        return nn.Sequential(*layers).cuda().eval().to(dtype or self.torch.float32)

    def mlp(self, width: int = 1024) -> Any:
        """Deep and wide enough that several of them overlap, each with cuBLAS' workspace in use."""
        nn = self.torch.nn
        layers = [layer for _ in range(12) for layer in (nn.Linear(width, width), nn.GELU())]
        return nn.Sequential(*layers).cuda().eval().half()

    def images(self, count: int, dtype: Any = None) -> Any:
        return self.torch.rand(count, 3, 32, 32, device="cuda").to(dtype or self.torch.float32)

    def make(self, models: List[Any], examples: Any, **more: Any) -> Any:
        fast = gpulane.concurrent(models, examples, **more)
        self.addCleanup(fast.close)
        return fast

    def seen(self, models: List[Any], examples: Any, **more: Any) -> Any:
        """What it made, and what it said."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            fast = self.make(models, examples, **more)
        return fast, [str(each.message) for each in said if "gpulane" in str(each.message)]

    def assert_close(self, got: Any, expected: Any, part: float = 1e-3) -> None:
        self.assertEqual(got.shape, expected.shape)
        apart = (got.double() - expected.double()).abs().max().item()
        self.assertLessEqual(apart, part * expected.double().abs().max().item())

    def eager(self, model: Any, given: Any) -> Any:
        with self.torch.no_grad():
            return model(given)


class Answers(OnGpu):
    def test_are_those_of_the_models_in_every_precision(self) -> None:
        torch = self.torch
        for dtype, part in ((torch.float32, 1e-3), (torch.bfloat16, 2e-2), (torch.float16, 2e-2)):
            models = [self.conv(width, dtype) for width in (16, 32, 48, 64)]
            fast = self.make(models, self.images(8, dtype))
            self.assertEqual(fast.how, ["graph"] * 4)
            for _ in range(10):
                x = self.images(8, dtype)
                for answer, model in zip(fast(x), models):
                    self.assert_close(answer, self.eager(model, x), part)
                    self.assertFalse(answer.requires_grad)

    def test_of_any_batch(self) -> None:
        models = [self.conv(16), self.conv(32)]
        fast = self.make(models, self.images(1), batches=[1, 4, 16])
        for count in (1, 2, 4, 5, 15, 16, 17, 40):
            x = self.images(count)
            for answer, model in zip(fast(x), models):
                self.assert_close(answer, self.eager(model, x), 1e-2)

    def test_channels_last_inputs_of_the_processor_and_pinned_ones(self) -> None:
        torch = self.torch
        model = self.conv().to(memory_format=torch.channels_last)
        fast = self.make([model], self.images(4).contiguous(memory_format=torch.channels_last))
        own = fast._players[0].slots[0].graphs[4]._inputs[0]
        self.assertTrue(own.is_contiguous(memory_format=torch.channels_last))
        for x in (torch.rand(4, 3, 32, 32), torch.rand(4, 3, 32, 32).pin_memory()):
            self.assert_close(fast(x)[0], self.eager(model, x.cuda()), 1e-2)

    def test_with_autocast_around_the_making_alone(self) -> None:
        torch = self.torch
        model = self.conv()
        x = self.images(4)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            fast = self.make([model], x)
            expected = self.eager(model, x)
        self.assertEqual((fast.how, expected.dtype), (["graph"], torch.bfloat16))
        garbage = [torch.full((1 << 20,), float("nan"), device="cuda") for _ in range(20)]
        self.assert_close(fast(x)[0], expected, 2e-2)
        del garbage

    def test_made_in_inference_mode_used_outside_and_the_other_way_round(self) -> None:
        torch = self.torch
        model, x = self.conv(), self.images(2)
        with torch.inference_mode():
            inside = self.make([model], self.images(2))
        outside = self.make([model], self.images(2))
        expected = self.eager(model, x)
        self.assert_close(inside(x)[0], expected)
        with torch.inference_mode():
            self.assert_close(outside(x)[0], expected)
        head = torch.nn.Linear(10, 1).cuda()
        head(inside(x)[0]).sum().backward()  # An answer can be trained on.
        self.assertIsNotNone(head.weight.grad)

    def test_dicts_and_tuples_go_in_and_come_out(self) -> None:
        torch = self.torch
        embed = torch.nn.Embedding(100, 16).cuda().eval()

        def model(ids: Any, mask: Any) -> Dict[str, Any]:
            inner = embed(ids) * mask[..., None]
            return {"mean": inner.mean(1), "all": (inner, ids)}

        def given(count: int) -> Dict[str, Any]:
            ids = torch.randint(0, 100, (count, 7), device="cuda")
            return {"ids": ids, "mask": (ids > 10).float()}

        fast = self.make([model], given(4))
        self.assertEqual(fast.how, ["graph"])
        x = given(3)
        answer, expected = fast(x)[0], self.eager(lambda x: model(**x), x)
        self.assert_close(answer["mean"], expected["mean"])
        self.assertTrue(torch.equal(answer["all"][1], x["ids"]))


class Order(OnGpu):
    def test_several_submits_in_flight_among_other_allocations(self) -> None:
        torch = self.torch
        models = [self.mlp() for _ in range(4)]
        fast = self.make(models, torch.rand(8, 1024, device="cuda").half(), depth=3)
        inputs = [torch.rand(8, 1024, device="cuda").half() for _ in range(60)]
        expected = [[self.eager(model, x) for model in models] for x in inputs]
        tickets = []
        for x in inputs:
            tickets.append(fast.submit(x * 1.0))  # Dropped at once; its memory is wanted by the next line.
            torch.full((8, 1024), float("nan"), device="cuda", dtype=torch.half)
        for ticket, wanted in zip(tickets, expected):
            for answer, right in zip(ticket.result(), wanted):
                self.assert_close(answer, right, 2e-2)

    def test_the_caller_is_on_a_stream_of_its_own_with_work_before_the_input(self) -> None:
        torch = self.torch
        model = self.conv()
        fast = self.make([model, model], self.images(8))
        big = torch.rand(4096, 4096, device="cuda")
        x = self.images(8)
        expected = self.eager(model, x)
        torch.cuda.synchronize()
        mine = torch.cuda.Stream()
        with torch.cuda.stream(mine):
            for _ in range(10):
                late = torch.zeros_like(x)
                for _ in range(20):
                    big @ big
                late.copy_(x)
                a, b = fast(late)
                total = a + b
                del late, a, b
            self.assertEqual(torch.cuda.current_stream(), mine)
            self.assert_close(total / 2, expected)

    def test_threads_and_tasks(self) -> None:
        model = self.conv()
        fast = self.make([model], self.images(4))
        inputs = [self.images(4) for _ in range(16)]
        expected = [self.eager(model, x) for x in inputs]
        self.torch.cuda.synchronize()
        got: Dict[int, Any] = {}

        def ask(number: int) -> None:
            for at in range(number, 16, 4):
                got[at] = fast(inputs[at])[0].cpu()

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for at, right in enumerate(expected):
            self.assert_close(got[at], right.cpu())

        async def gather() -> List[Any]:
            async def one(x: Any) -> Any:
                return (await fast.submit(x))[0].cpu()

            return await asyncio.gather(*(one(x) for x in inputs))

        for answer, right in zip(asyncio.run(gather()), expected):
            self.assert_close(answer, right.cpu())


class Fallbacks(OnGpu):
    def falls_back(self, model: Any, why: str) -> None:
        conv = self.conv()
        fast, said = self.seen([conv, model], self.images(4))
        self.assertEqual(fast.how, ["graph", "stream"], said)
        self.assertIn(why, fast.how[1].why)
        self.assertEqual(len(said), 1, said)
        x = self.images(4)
        first, _ = fast(x)
        self.assert_close(first, self.eager(conv, x))
        again, _ = self.seen([conv], x)  # Captures go on working afterwards.
        self.assertEqual(again.how, ["graph"])

    def test_a_model_that_decides_by_its_data(self) -> None:
        self.falls_back(
            lambda x: x * 2 if x.mean().item() > 0 else x, "it waits for the GPU at test_concurrent_gpu.py:"
        )

    def test_a_model_whose_shapes_depend_on_its_data(self) -> None:
        self.falls_back(lambda x: x[x > 0.5], "it waits for the GPU at test_concurrent_gpu.py:")

    def test_a_model_that_breaks_the_capture(self) -> None:
        def waits(x: Any) -> Any:
            self.torch.cuda.synchronize()
            return x * 2

        self.falls_back(waits, "Error")

    def test_an_exception_in_the_middle_of_the_capture(self) -> None:
        def shy(x: Any) -> Any:
            if self.torch.cuda.is_current_stream_capturing():
                raise KeyError("not now")
            return x * 2

        self.falls_back(shy, "KeyError: 'not now'")

    def test_dropout(self) -> None:
        torch = self.torch
        self.falls_back(lambda x: torch.nn.functional.dropout(x, 0.5, training=True), "asked the same twice")
        net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout()).cuda()
        self.assertRaisesRegex(ValueError, "training mode", gpulane.concurrent, [net], torch.rand(1, 4, device="cuda"))

    def test_wrong_shapes_and_errors_later(self) -> None:
        def moody(x: Any) -> Any:
            if x.mean().item() > 10:
                raise ValueError("too bright")
            return x * 2

        fast, _ = self.seen([self.conv(), moody], self.images(4))
        self.assertRaisesRegex(ValueError, "only the batch may differ", fast, self.images(4)[..., :16])
        self.assertRaisesRegex(ValueError, "convert it with `.to", fast, self.images(4).half())
        self.assertRaisesRegex(ValueError, "too bright", fast, self.images(4) + 100)
        x = self.images(4)
        self.assert_close(fast(x)[1], x * 2)


class Memory(OnGpu):
    def test_graphs_outlive_caches_that_are_emptied(self) -> None:
        torch = self.torch
        models = [self.mlp() for _ in range(2)]
        x = torch.rand(8, 1024, device="cuda").half()
        fast = self.make(models, x)
        expected = [self.eager(model, x) for model in models]
        for _ in range(3):
            gpulane.cleanup(quiet=True)
            garbage = [torch.full((8 << 20,), float("nan"), device="cuda") for _ in range(8)]
            for answer, right in zip(fast(x), expected):
                self.assert_close(answer, right, 2e-2)
            self.assertTrue(all(each.isnan().all().item() for each in garbage), "a graph wrote into others' memory")
            del garbage

    def test_closing_gives_it_back(self) -> None:
        torch = self.torch
        models = [self.mlp() for _ in range(4)]
        x = torch.rand(64, 1024, device="cuda").half()
        self.make(models, x).close()  # What libraries keep once for all is there now.
        torch.cuda.empty_cache()
        before = torch.cuda.memory_reserved()
        fast = self.make(models, x, batches=[1, 64])
        fast(x)
        self.assertGreater(torch.cuda.memory_reserved(), before)
        fast.close()
        self.assertLessEqual(torch.cuda.memory_reserved(), before + (4 << 20))

    def test_weights_changed_in_place_and_replaced(self) -> None:
        torch = self.torch
        model, other, x = self.conv(), self.conv(), self.images(4)
        fast = self.make([model], x)
        model.load_state_dict(other.state_dict())
        self.assert_close(fast(x)[0], self.eager(other, x))
        for weight in model.parameters():
            weight.data = torch.rand_like(weight)
        old, now = self.eager(other, x), self.eager(model, x)
        self.assert_close(fast(x)[0], old)
        fast.refresh()
        self.assert_close(fast(x)[0], now)


if __name__ == "__main__":
    unittest.main()
