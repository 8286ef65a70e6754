"""`gpulane.concurrent` where a model cannot be a graph, should not be one, or is no longer the one captured."""

from __future__ import annotations

import collections
import dataclasses
import doctest
import sys
import unittest
import warnings
from typing import Any
from unittest import mock

import gpulane
from gpulane._concurrent import _answer, _ensemble, _pieces

from .test_concurrent import Net, OnFakeGpu, double, flat, longer


class FallingBack(OnFakeGpu):
    def falls_back(self, model: Any, why: str) -> None:
        """Beside two others, which are graphs all the same; said once, here, with the reason."""
        torch = self.torch
        fast, said = self.seen([double, longer, model], self.rows(1, 2))
        self.assertEqual(fast.how, ["graph", "graph", "stream"])
        self.assertIn(why, fast.how[2].why)
        self.assertEqual(len(said), 1, said)
        self.assertIn("model 2", said[0])
        self.assertIn(why, said[0])
        self.assertFalse(torch.machine.random_held, "`torch.rand` fails from now on")
        self.assertIs(torch.cuda.current_stream(), torch.machine.default)
        self.assertIsNone(torch.machine.capturing)
        self.assertTrue(torch.machine.casts_cached)
        self.assertEqual(torch.machine.sync_mode, 0)
        a, b, c = fast(self.rows(3, 4))
        self.assertEqual((a + b).tolist(), flat(3, 4, each=lambda a: 3 * a + 5))
        self.assertIsNotNone(c)

    def test_a_model_that_waits_for_the_gpu_is_found_out_before_the_capture(self) -> None:
        torch = self.start()

        def decides(x: Any) -> Any:
            return x * 2.0 if x.total().item() > 0 else x

        self.falls_back(decides, "it waits for the GPU at test_concurrent_ways.py:")
        self.assertFalse(any(graph.broken for graph in torch.machine.graphs))

    def test_a_capture_that_breaks_off_leaves_nothing_behind(self) -> None:
        torch = self.start()
        torch.cuda.set_sync_debug_mode = lambda mode: None  # A wait that torch does not report.
        self.falls_back(
            lambda x: x + x.total().item(), "RuntimeError: operation not permitted when stream is capturing"
        )
        self.assertEqual([graph.is_reset for graph in torch.machine.graphs if graph.broken], [True])

    def test_the_allocator_of_older_versions_is_told_that_the_capture_is_over(self) -> None:
        torch = self.start()
        told = []
        torch._C._cuda_endAllocateToPool = lambda device, pool: told.append((device, pool))
        torch.cuda.set_sync_debug_mode = lambda mode: None
        self.falls_back(lambda x: x + x.total().item(), "capturing")
        broken = [graph.pool for graph in torch.machine.graphs if graph.broken]
        self.assertEqual(told, [(0, broken[0])])

    def test_an_error_in_the_middle_of_a_capture(self) -> None:
        torch = self.start()

        def shy(x: Any) -> Any:
            if torch.machine.capturing is not None:
                raise KeyError("not while you look")
            return x * 2.0

        self.falls_back(shy, "KeyError: 'not while you look'")

    def test_random_numbers(self) -> None:
        self.start()
        drawn = iter(range(1000))
        self.falls_back(lambda x: x + float(next(drawn)), "asked the same twice, its answers differ by")

    def test_a_constant_that_was_captured(self) -> None:
        torch = self.start()
        kept: Any = {}

        def remembers(x: Any) -> Any:
            if torch.machine.capturing is None:
                return x * 2.0
            kept.setdefault("x", torch.tensor([2.0, 3.0, 4.0, 5.0], (2, 2)))
            return kept["x"]

        self.falls_back(remembers, "differ from the model's own, on other data than the example, by")

    def test_an_answer_whose_tensors_cannot_be_found(self) -> None:
        self.start()

        class Box:
            def __init__(self, inner: Any) -> None:
                self.inner = inner

        self.falls_back(Box, "it returns a Box, whose tensors cannot be copied; return tensors, tuples or dicts")

    def test_unchecked_if_so_asked(self) -> None:
        self.start()
        drawn = iter(range(1000))
        fast = self.make([lambda x: x + float(next(drawn))], self.rows(1, 2), check=False)
        self.assertEqual(fast.how, ["graph"])

    def test_tolerance_is_the_callers(self) -> None:
        torch = self.start()

        def almost(x: Any) -> Any:
            return x * (2.0 if torch.machine.capturing is None else 2.001)

        self.assertEqual(self.seen([almost], self.rows(1, 2))[0].how, ["stream"])
        self.assertEqual(self.make([almost], self.rows(1, 2), tolerance=0.01).how, ["graph"])

    def test_the_warning_points_at_the_caller(self) -> None:
        self.start()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            gpulane.concurrent([lambda x: x + x.total().item()], self.rows(1)).close()
        self.assertEqual(said[0].filename, __file__)


class Errors(OnFakeGpu):
    def test_training_mode_is_refused(self) -> None:
        torch = self.start()
        net = Net(torch, 2.0)
        net.training = True
        self.assertRaisesRegex(
            ValueError, r"model 0 \(Net\) is in training mode.*`.eval\(\)`", self.make, [net], self.rows(1)
        )

    def test_a_model_that_fails_on_its_example(self) -> None:
        torch = self.start()

        def bad(x: Any) -> Any:
            raise TypeError("no such layer")

        with self.assertRaisesRegex(RuntimeError, r"model 1 \(bad\) fails on its example: TypeError: no such layer"):
            self.make([double, bad], self.rows(1))
        self.assertIs(torch.cuda.current_stream(), torch.machine.default)

    def test_a_model_that_fails_later_does_not_spoil_what_follows(self) -> None:
        torch = self.start()

        def moody(x: Any) -> Any:
            if x.total().item() > 100:
                raise ValueError("too much")
            return x * 2.0

        fast, _ = self.seen([double, moody], self.rows(1, 2))
        self.assertRaisesRegex(ValueError, "too much", fast, self.rows(200, 1))
        self.assertIs(torch.cuda.current_stream(), torch.machine.default)
        a, b = fast(self.rows(1, 2))
        self.assertEqual((a.tolist(), b.tolist()), (flat(1, 2, each=lambda a: 2 * a),) * 2)

    def test_arguments(self) -> None:
        self.start()
        x = self.rows(1)
        for text, act in {
            "no models: give at least one": lambda: gpulane.concurrent([], x),
            "2 examples for 1 models": lambda: gpulane.concurrent([double], [x, x]),
            "write sizes of at least 1": lambda: gpulane.concurrent([double], x, batches=[0]),
            "write sizes of at least 1,": lambda: gpulane.concurrent([double], x, batches=8),  # type: ignore[arg-type]
            "whole numbers of at least 1": lambda: gpulane.concurrent([double], x, depth=0),
            "depth = '2'": lambda: gpulane.concurrent([double], x, depth="2"),  # type: ignore[arg-type]
            "has no sides": lambda: gpulane.concurrent([double], self.torch.tensor([1.0], ())),
            "give at least one item": lambda: gpulane.concurrent([double], x[:0]),
        }.items():
            with self.subTest(text):
                self.assertRaisesRegex(ValueError, text, act)
        self.assertRaisesRegex(TypeError, "model 0 is a int", gpulane.concurrent, [3], x)

    def test_one_model_alone_is_no_list_of_models(self) -> None:
        self.start()

        class Layers(list):  # type: ignore[type-arg]
            """A model that is made of models, as a Sequential is."""

            def __call__(self, x: Any) -> Any:
                return x

        for given, text in (
            (double, r"a list of models, not a function: write concurrent\(\[model\], example\)$"),
            (3, r"a list of models, not a int: write concurrent\(\[model\], example\)$"),
            (
                Layers([double]),
                r"not a Layers: write concurrent\(\[model\], example\), or list\(…\) of it for one each$",
            ),
        ):
            with self.subTest(text):
                self.assertRaisesRegex(TypeError, text, gpulane.concurrent, given, self.rows(1))


class Weights(OnFakeGpu):
    def test_changed_in_place_they_are_seen_at_once(self) -> None:
        torch = self.start()
        net = Net(torch, 2.0)
        fast = self.make([net], self.rows(1))
        net.weight.copy_(torch.tensor([5.0, 5.0], (2,)))
        self.assertEqual(fast(self.rows(1))[0].tolist(), [5.0, 7.5])

    def test_replaced_they_are_seen_after_a_refresh(self) -> None:
        torch = self.start()
        net = Net(torch, 2.0)
        fast = self.make([net], self.rows(1))
        net.weight = torch.tensor([5.0, 5.0], (2,))
        self.assertEqual(fast(self.rows(1))[0].tolist(), [2.0, 3.0], "the old ones, which are still there")
        fast.refresh()
        self.assertEqual(fast(self.rows(1))[0].tolist(), [5.0, 7.5])

    def test_replaced_they_are_noticed_after_a_while(self) -> None:
        torch = self.start()
        net = Net(torch, 2.0)
        fast = self.make([double, net], self.rows(1))
        net.weight = torch.tensor([5.0, 5.0], (2,))
        with mock.patch.object(_ensemble, "LOOK", 4), self.assertWarnsRegex(
            RuntimeWarning, r"weights of model 1 \(Net\)"
        ):
            for _ in range(4):
                last = fast(self.rows(1))
        self.assertEqual(last[1].tolist(), [5.0, 7.5])


class Ending(OnFakeGpu):
    def test_closing_waits_then_gives_back_and_copies_stay(self) -> None:
        for seed in range(10):
            torch = self.start(seed)
            with self.make([double, longer], self.rows(1, 2)) as fast:
                answer = fast(self.rows(3, 4))[1]
            self.assertTrue(all(graph.is_reset for graph in torch.machine.graphs))
            self.assertEqual((torch.machine.caches_emptied, "closed" in repr(fast)), (1, True))
            self.assertEqual(answer.tolist(), flat(3, 4, each=lambda a: a + 5))
            self.assertRaisesRegex(RuntimeError, "closed: make a new one", fast, self.rows(1))
            fast.close()

    def test_workspaces_are_made_in_each_graphs_own_memory(self) -> None:
        torch = self.start()
        self.make([double], self.rows(1, 2), depth=1)
        self.assertEqual(torch.machine.workspaces_cleared, 2, "before the capture and after it")


class WithoutGpu(OnFakeGpu):
    def test_plain_calls_said_once(self) -> None:
        self.start(available=False)
        x = self.torch.tensor([1.0, 2.0], (1, 2), gpu=False)
        fast, said = self.seen([double, longer], x)
        self.assertEqual((fast.how, [way.why for way in fast.how]), (["plain"] * 2, ["torch finds no GPU"] * 2))
        self.assertEqual(len(said), 1)
        self.assertIn("model 0 (double), model 1 (longer) are called one after the other", said[0])
        ticket = fast.submit(x)
        self.assertEqual((ticket.done(), [each.tolist() for each in ticket.result()]), (True, [[2.0, 4.0], [6.0, 7.0]]))
        self.assertRaisesRegex(
            ValueError, "only the batch may differ", fast, self.torch.tensor([1.0], (1, 1), gpu=False)
        )

    def test_a_model_on_the_processor_beside_one_on_the_gpu(self) -> None:
        self.start()
        here = self.torch.tensor([1.0, 2.0], (1, 2), gpu=False)
        fast, said = self.seen([double, longer], [here, self.rows(1)])
        self.assertEqual(fast.how, ["plain", "graph"])
        self.assertIn("it is on cpu; move it with `.cuda()`", said[0])
        a, b = fast([here, self.rows(3)])
        self.assertEqual((a.tolist(), b.tolist()), ([2.0, 4.0], [8.0, 8.5]))

    def test_without_torch_anything_can_be_called(self) -> None:
        with mock.patch.dict(sys.modules):
            sys.modules.pop("torch", None)
            fast, said = self.seen([abs, float], -3)
        self.assertEqual((fast(-4), fast.submit_one(1, 2).result()), ([4, -4.0], 2.0))
        self.assertIn("torch is not loaded here", said[0])


Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Found:
    box: Any
    label: str


class Parts(unittest.TestCase):
    def test_answers_are_taken_apart_and_built_again(self) -> None:
        for answer in (
            1j,
            (1j, [2j, None], {"a": 3j, 5: "text"}),
            Point(1j, 2j),
            Found(1j, "cat"),
            collections.OrderedDict(a=1j, b=(2j, 7)),
            {"nothing": None},
        ):
            with self.subTest(answer=answer):
                # Complex numbers stand in for tensors.
                with mock.patch.object(_answer, "_CONSTANTS", (type(None), int, str)):
                    found, rebuild = _answer.take_apart(answer, complex)
                built = rebuild([each * 10 for each in found])
                self.assertEqual(type(built), type(answer))
                self.assertEqual(str(built), str(answer).replace("j", "0j"))

    def test_pieces_cover_every_item_once(self) -> None:
        for sizes in ([1], [4], [1, 8], [3, 5, 64]):
            for rows in range(1, 200):
                pieces = _pieces.cut(rows, sizes)
                covered = [item for piece in pieces for item in range(piece.first, piece.first + piece.items)]
                self.assertEqual(covered, list(range(rows)))
                self.assertTrue(all(piece.items <= piece.size and piece.size in sizes for piece in pieces))
                self.assertTrue(all(piece.items == piece.size for piece in pieces[:-1]))

    def test_examples_in_the_docs_of_this_room(self) -> None:
        self.assertEqual(doctest.testmod(_pieces).failed, 0)


if __name__ == "__main__":
    unittest.main()
