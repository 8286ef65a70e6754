"""`gpulane.concurrent` on a GPU of plain Python that does everything as late and in as odd an order as CUDA allows."""

from __future__ import annotations

import asyncio
import sys
import unittest
import warnings
from typing import Any, Callable, List
from unittest import mock

import gpulane

from . import fake_gpu

SEEDS = range(40)


class OnFakeGpu(unittest.TestCase):
    torch: Any

    def start(self, seed: int = 0, available: bool = True) -> Any:
        """A fresh GPU behind `torch`."""
        self.torch = fake_gpu.make_torch(seed, available)
        patch = mock.patch.dict(sys.modules, {"torch": self.torch})
        patch.start()
        self.addCleanup(patch.stop)
        return self.torch

    def rows(self, *values: float) -> Any:
        """A batch of items of two numbers each."""
        return self.torch.tensor([number for value in values for number in (value, value + 0.5)], (len(values), 2))

    def make(self, models: List[Callable[..., Any]], examples: Any, **more: Any) -> Any:
        fast = gpulane.concurrent(models, examples, **more)
        self.addCleanup(fast.close)
        return fast

    def seen(self, models: List[Callable[..., Any]], examples: Any, **more: Any) -> Any:
        """What it made, and what it said."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            fast = self.make(models, examples, **more)
        return fast, [str(each.message) for each in said]


class Net:
    """A module with one weight."""

    def __init__(self, torch: Any, factor: float) -> None:
        self.weight = torch.tensor([factor] * 2, (2,))
        self.training = False
        self.torch = torch

    def parameters(self) -> Any:
        return iter([self.weight])

    def buffers(self) -> Any:
        return iter(())

    def modules(self) -> Any:
        return iter([self])

    def __call__(self, x: Any) -> Any:
        assert self.torch.machine.no_grad, "called with gradients"
        return x._make(x.shape, lambda mine, weight: [a * weight[0] for a in mine], self.weight)


def double(x: Any) -> Any:
    return x * 2.0


def longer(x: Any) -> Any:
    for _ in range(5):
        x = x + 1.0
    return x


def flat(*values: float, each: Callable[[float], float]) -> List[float]:
    return [each(number) for value in values for number in (value, value + 0.5)]


class Order(OnFakeGpu):
    def calls(self, seed: int) -> bool:
        """Twelve calls in a row, inputs and answers dropped as soon as they can be; whether all answers were right."""
        torch = self.start(seed)
        fast = self.make([double, longer, Net(torch, 3.0)], self.rows(1, 2))
        self.assertEqual(fast.how, ["graph"] * 3)
        sums = []
        for call in range(12):
            answers = fast(self.rows(call, call + 1) * 1.0)
            sums.append((answers[0] + answers[1]) + answers[2])
            del answers
        expected = [flat(call, call + 1, each=lambda a: 2 * a + a + 5 + 3 * a) for call in range(12)]
        return [each.tolist() for each in sums] == expected

    def test_answers_are_right_in_every_order_the_gpu_may_choose(self) -> None:
        for seed in SEEDS:
            with self.subTest(seed=seed):
                self.assertTrue(self.calls(seed))

    def test_the_same_without_graphs(self) -> None:
        for seed in SEEDS:
            with self.subTest(seed=seed):
                self.start(seed)
                fast, said = self.seen([lambda x: (x * 2.0, x.total().item())[0], longer], self.rows(1, 2))
                self.assertEqual(fast.how, ["stream", "graph"])
                sums = []
                for call in range(6):
                    a, b = fast(self.rows(call, call) * 1.0)
                    sums.append(a + b)
                    del a, b
                expected = [flat(call, call, each=lambda a: 3 * a + 5) for call in range(6)]
                self.assertEqual([each.tolist() for each in sums], expected)

    def test_this_gpu_notices_a_forgotten_wait_and_memory_given_back_too_early(self) -> None:
        for forgotten in ("wait_event", "record_stream"):
            owner = fake_gpu.Stream if forgotten == "wait_event" else fake_gpu.Tensor
            with self.subTest(forgotten), mock.patch.object(owner, forgotten, lambda *_: None):
                self.assertIn(False, [self.calls(seed) for seed in SEEDS])

    def test_every_replay_follows_its_copy_on_its_own_stream(self) -> None:
        torch = self.start()
        fast = self.make([double, longer], self.rows(1, 2))
        torch.machine.log.clear()
        for _ in range(4):
            fast(self.rows(3, 4))
        log = [(what, stream.cuda_stream) for what, _, stream in torch.machine.log]
        self.assertEqual([what for what, _ in log], ["copy", "replay"] * 8)
        self.assertTrue(all(log[at][1] == log[at + 1][1] for at in range(0, len(log), 2)), log)
        # Two models, two slots each, used in turn.
        streams = [stream for _, stream in log[::2]]
        self.assertEqual((len(set(streams)), streams[:4]), (4, streams[4:]))

    def test_graphs_that_may_run_at_the_same_time_share_no_memory(self) -> None:
        torch = self.start()
        self.make([double, longer], self.rows(1, 2), batches=[1, 2, 4])
        pools = {(graph.stream.cuda_stream, graph.pool) for graph in torch.machine.graphs}
        self.assertEqual((len(torch.machine.graphs), len(pools)), (12, 4))
        self.assertEqual(len({pool for _, pool in pools}), 4)
        # The smaller ones are made after the larger ones, whose room they use.
        self.assertEqual([len(graph.blocks[0].values) for graph in torch.machine.graphs[:3]], [8, 4, 2])

    def test_the_caller_may_be_on_any_stream_and_stays_there(self) -> None:
        for seed in SEEDS:
            torch = self.start(seed)
            fast = self.make([double, longer], self.rows(1, 2))
            torch.cuda.set_stream(torch.machine.streams[30])
            a, b = fast(self.rows(5, 6))
            self.assertIs(torch.cuda.current_stream(), torch.machine.streams[30])
            self.assertEqual((a + b).tolist(), flat(5, 6, each=lambda a: 3 * a + 5))

    def test_graphs_are_started_before_models_that_keep_the_processor_busy(self) -> None:
        torch = self.start()

        def slow(x: Any) -> Any:
            torch.machine.log.append(("called", None, torch.machine.current))
            return x + x.total().item()

        fast, _ = self.seen([slow, double], self.rows(1, 2))
        torch.machine.log.clear()
        fast(self.rows(3, 4))
        self.assertEqual([what for what, _, _ in torch.machine.log], ["copy", "replay", "called"])

    def test_a_model_may_write_into_what_it_gets(self) -> None:
        self.start()
        fast = self.make([lambda x: x.copy_(x * 2.0)], self.rows(1, 2))
        self.assertEqual(fast.how, ["graph"])
        given = self.rows(3, 4)
        self.assertEqual(fast(given)[0].tolist(), flat(3, 4, each=lambda a: 2 * a))
        self.assertEqual(given.tolist(), flat(3, 4, each=lambda a: a), "the caller's own is left alone")

    def test_streams_are_taken_that_nobody_here_has(self) -> None:
        torch = self.start()
        first = self.make([double] * 6, self.rows(1), depth=2)
        torch.machine.handed_out = 0  # torch begins again with those it gave out first.
        second = self.make([double] * 6, self.rows(1), depth=2)
        slots = [slot.stream.cuda_stream for fast in (first, second) for each in fast._players for slot in each.slots]
        self.assertEqual(len(set(slots)), 24)
        second.close()
        torch.machine.handed_out = 12
        third = self.make([double] * 6, self.rows(1), depth=2)
        again = [slot.stream.cuda_stream for each in third._players for slot in each.slots]
        self.assertEqual(again, slots[12:])


class Batches(OnFakeGpu):
    def test_smaller_ones_are_filled_up_and_larger_ones_split(self) -> None:
        torch = self.start()
        fast = self.make([double, longer], self.rows(1, 2), batches=[2, 8, 4])
        for count, replays in ((1, [2]), (2, [2]), (3, [4]), (5, [8]), (8, [8]), (9, [8, 2]), (21, [8, 8, 8])):
            with self.subTest(count=count):
                torch.machine.log.clear()
                values = [float(number) for number in range(count)]
                a, b = fast(self.rows(*values))
                self.assertEqual((a.shape, b.shape), ((count, 2), (count, 2)))
                self.assertEqual(a.tolist(), flat(*values, each=lambda a: 2 * a))
                self.assertEqual(b.tolist(), flat(*values, each=lambda a: a + 5))
                done = [len(graph.blocks[-1].values) // 2 for what, graph, _ in torch.machine.log if what == "replay"]
                self.assertEqual(done, replays * 2)

    def test_what_is_filled_up_repeats_the_last_item(self) -> None:
        self.start()
        fast = self.make([double], self.rows(1, 2, 3, 4))
        fast(self.rows(7, 8))
        own = fast._players[0].slots[0].graphs[4]._inputs[0]
        self.assertEqual(own.tolist(), flat(7, 8, 8, 8, each=lambda a: a))

    def test_items_that_see_each_other_are_never_filled_up(self) -> None:
        self.start()
        fast, said = self.seen([lambda x: x.less_mean()], self.rows(1, 2, 3, 4))
        self.assertEqual(fast.how, ["graph"])
        self.assertIn("for batches other than [4]: an item's answer depends on the items beside it", said[0])
        self.assertEqual(fast(self.rows(1, 5))[0].tolist(), [-2.25, -1.75, 1.75, 2.25])
        self.assertEqual(fast(self.rows(1, 1, 5, 5))[0].tolist(), [-2.25, -1.75] * 2 + [1.75, 2.25] * 2)

    def test_an_output_without_a_batch_is_never_cut(self) -> None:
        self.start()
        fast, said = self.seen([lambda x: {"all": x.total(), "each": x * 2.0}], self.rows(1, 2))
        self.assertIn("not every output has the batch as its first side", said[0])
        answer = fast(self.rows(1, 2, 3))[0]
        self.assertEqual((answer["all"].tolist(), answer["each"].shape), ([13.5], (3, 2)))

    def test_several_arguments_some_without_a_batch(self) -> None:
        torch = self.start()
        example = {"x": self.rows(1, 2), "scale": torch.tensor([1.0], ())}
        fast = self.make([lambda scale, x: x._make(x.shape, lambda a, s: [i * s[0] for i in a], scale)], example)
        x, scale = self.rows(1, 2, 3), torch.tensor([10.0], ())
        self.assertEqual(fast({"scale": scale, "x": x})[0].tolist(), [10.0, 15.0, 20.0, 25.0, 30.0, 35.0])

    def test_inputs_may_be_on_the_processor(self) -> None:
        torch = self.start()
        fast = self.make([double], self.rows(1, 2))
        answer = fast(torch.tensor([1.0, 2.0], (1, 2), gpu=False))[0]
        self.assertEqual((answer.tolist(), answer.is_cuda), ([2.0, 4.0], True))

    def test_what_does_not_look_like_the_example_is_refused_before_anything_starts(self) -> None:
        torch = self.start()
        fast = self.make([double, longer], self.rows(1, 2))
        wrong = {
            "has shape (1, 3), its example (batch, 2): only the batch may differ": torch.tensor([1.0] * 3, (1, 3)),
            "is int64, its example float32: convert it with `.to(float32)`": torch.tensor([1, 2], (1, 2), "int64"),
            "takes one tensor as in its example, not a tuple": (self.rows(1),),
            "3 inputs for 2 models: a list is one for each model": [self.rows(1)] * 3,
            "must be a tensor, not a float": 3.0,
        }
        torch.machine.log.clear()
        for text, given in wrong.items():
            with self.subTest(text), self.assertRaises(ValueError) as raised:
                fast(given)
            self.assertIn(text, str(raised.exception))
        self.assertEqual(torch.machine.log, [])


class Tickets(OnFakeGpu):
    def test_several_are_under_way_and_answer_in_any_order(self) -> None:
        for seed in SEEDS:
            self.start(seed)
            fast = self.make([double, longer], self.rows(1, 2), depth=3)
            tickets = [fast.submit(self.rows(call, call) * 1.0) for call in range(8)]
            for call in reversed(range(8)):
                a, b = tickets[call].result()
                self.assertEqual((a + b).tolist(), flat(call, call, each=lambda a: 3 * a + 5))

    def test_one_more_than_depth_waits_for_the_oldest(self) -> None:
        torch = self.start()
        fast = self.make([longer], self.rows(1, 2), depth=2)
        with mock.patch.object(torch.machine, "some_time_passes"):  # Nothing is done unless somebody waits.
            first, second = fast.submit(self.rows(1)), fast.submit(self.rows(2))
            self.assertEqual((first.done(), second.done()), (False, False))
            third = fast.submit(self.rows(3))
            self.assertEqual((first.done(), third.done()), (True, False))
            third.wait()
            self.assertTrue(third.done())

    def test_awaited_together(self) -> None:
        self.start(3)
        fast = self.make([double], self.rows(1), depth=4)

        async def ask(number: int) -> List[float]:
            answers = await fast.submit(self.rows(number))
            return answers[0].tolist()  # type: ignore[no-any-return]

        async def all_of_them() -> List[List[float]]:
            return await asyncio.gather(*(ask(number) for number in range(6)))

        self.assertEqual(asyncio.run(all_of_them()), [flat(number, each=lambda a: 2 * a) for number in range(6)])

    def test_one_model_alone(self) -> None:
        torch = self.start()
        fast = self.make([double, longer], self.rows(1, 2))
        torch.machine.log.clear()
        self.assertEqual(fast.submit_one(1, self.rows(4)).result().tolist(), [9.0, 9.5])
        self.assertEqual([what for what, _, _ in torch.machine.log].count("replay"), 1)
        self.assertRaisesRegex(IndexError, "numbered from 0 to 1", fast.submit_one, 2, self.rows(4))

    def test_without_copies_the_graphs_own_memory_is_seen(self) -> None:
        self.start()
        fast = self.make([double], self.rows(1), depth=1)
        kept, copied = fast(self.rows(1), copy=False)[0], fast(self.rows(1))[0]
        fast(self.rows(5))
        self.assertEqual((kept.tolist(), copied.tolist()), ([10.0, 11.0], [2.0, 3.0]))

    def test_without_copies_the_pieces_of_a_large_input_still_do_not_overwrite_each_other(self) -> None:
        self.start()
        fast = self.make([double], self.rows(1, 2))
        self.assertEqual(fast(self.rows(1, 2, 3), copy=False)[0].tolist(), flat(1, 2, 3, each=lambda a: 2 * a))


if __name__ == "__main__":
    unittest.main()
