"""The real worker, as a process, with a feeder of the test's own: what it answers, and what it does when things
fail."""

from __future__ import annotations

import signal
import subprocess
import sys
import unittest

from .fake_feeder import PATIENCE, FakeFeeder, raw, text, u8

LENGTHS = """
    def Model(batch):
        return [len(text) for text in batch]
"""


class WithAWorker(unittest.TestCase):
    def worker(self, model: str, **more: object) -> FakeFeeder:
        feeder = FakeFeeder(model, **more)  # type: ignore[arg-type]
        self.addCleanup(feeder.close)
        return feeder


class Shadows(WithAWorker):
    def test_files_beside_the_model_are_not_taken_for_pythons_or_ours(self) -> None:
        beside = ["queue.py", "json.py", "gpulane.py", "glob.py", "base64.py", "worker.py"]
        model = """
            import json, queue
            import gpulane, helper
            class Model(gpulane.Model):
                def predict_batch(self, batch):
                    assert queue.Queue and json.dumps
                    return [helper.double(text) for text in batch]
            """
        for path in ("", "."):
            feeder = FakeFeeder(model, beside=beside, **({"PYTHONPATH": path} if path else {}))
            self.addCleanup(feeder.close)
            (feeder.path / "helper.py").write_text("def double(text): return text * 2", encoding="utf-8")
            feeder.start("text")
            self.assertEqual(feeder.work("a").result, ["aa"])


class Arguments(WithAWorker):
    def test_a_class_gets_them_by_name(self) -> None:
        feeder = self.worker(
            """
            class Model:
                def __init__(self, times, *, end="!"): self.times, self.end = times, end
                def predict_batch(self, batch): return [text * self.times + self.end for text in batch]
            """
        )
        feeder.start("text", times=2)
        self.assertEqual(feeder.work("ab").result, ["abab!"])

    def test_a_function_gets_them_too(self) -> None:
        feeder = self.worker("def Model(batch, times=1): return [text * times for text in batch]")
        feeder.start("text", times=3)
        self.assertEqual(feeder.work("ab").result, ["ababab"])

    def test_what_it_does_not_take_or_lacks_is_said(self) -> None:
        for model, given, words in [
            (
                "class Model:\n  def __init__(self, a=1, b=2): ...\n  def predict_batch(self, x): ...",
                {"c": 1},
                ["`c`", "a, b"],
            ),
            ("class Model:\n  def predict_batch(self, x): ...", {"c": 1}, ["`c`", "no arguments"]),
            ("def Model(batch, a): ...", {}, ["needs `a`", "--set a=VALUE"]),
            ("def Model(batch, a=1): ...", {"batch": 1}, ["`batch`", "it takes a"]),
        ]:
            feeder = self.worker(model)
            feeder.accept()
            feeder.send("setup", args=given)
            error = feeder.receive("setup_failed").head["error"]
            for word in words:
                self.assertIn(word, error)


class Life(WithAWorker):
    def test_it_says_who_it_is_before_it_loads_the_model(self) -> None:
        feeder = self.worker("raise SystemExit('imported too early')")
        hello = feeder.accept()
        self.assertEqual((hello["protocol"], hello["role"], hello["ready"]), (1, "worker", False))
        self.assertEqual((hello["job"], hello["attempt"], hello["pid"]), ("map/worker-0", 2, feeder.process.pid))

    def test_it_tells_what_the_class_asks_for(self) -> None:
        feeder = self.worker(
            """
            import gpulane
            class Model(gpulane.Model):
                decode = "rgb:64x48:crop"
                batch = 32
                def load(self, path): ...
            """
        )
        ready = feeder.start("text")
        self.assertEqual((ready["decode"], ready["batch"], ready["load"]), ("rgb:64x48:crop", 32, True))
        self.assertEqual((ready["framework"], ready["accepts"]), ("none", []))
        self.assertTrue((feeder.path / "ready").exists())

    def test_a_function_will_do(self) -> None:
        feeder = self.worker(LENGTHS)
        ready = feeder.start("text")
        self.assertEqual((ready["decode"], ready["batch"], ready["load"]), (None, None, False))
        self.assertEqual(feeder.work("a", "bcd", "é").result, [1, 3, 1])

    def test_a_setup_that_fails_is_told_with_its_traceback(self) -> None:
        feeder = self.worker(
            """
            class Model:
                def setup(self): raise RuntimeError("no weights")
                def predict_batch(self, batch): ...
            """
        )
        feeder.accept()
        feeder.send("setup")
        failed = feeder.receive("setup_failed").head
        self.assertEqual(failed["error"], "RuntimeError: no weights")
        self.assertIn("model.py", failed["traceback"])
        self.assertEqual(feeder.process.wait(PATIENCE), 1)
        self.assertIn("no weights", feeder.said())

    def test_a_model_that_is_not_there_is_named(self) -> None:
        feeder = self.worker(LENGTHS, target="Other")
        feeder.accept()
        feeder.send("setup")
        self.assertIn("model.py has no `Other`", feeder.receive("setup_failed").head["error"])

    def test_it_waits_and_says_that_it_is_here(self) -> None:
        feeder = self.worker(LENGTHS)
        feeder.start("text")
        feeder.send("wait")
        feeder.receive("here")

    def test_it_leaves_when_told_to(self) -> None:
        feeder = self.worker(
            "import atexit, time\natexit.register(time.sleep, 3600)\n" + LENGTHS.replace("    def", "def"),
            GPULANE_GRACE="1",
        )
        feeder.start("text")
        self.assertEqual(feeder.bye(), 0)

    def test_it_leaves_at_once_when_terminated(self) -> None:
        feeder = self.worker("import time\ndef Model(batch): time.sleep(3600)")
        feeder.start("text")
        feeder.ask(1, [text("a")])
        feeder.receive("began")
        feeder.process.send_signal(signal.SIGTERM)
        try:
            feeder.process.wait(PATIENCE / 3)
        except subprocess.TimeoutExpired:
            # Python starts a sleep without looking whether a signal has just come, and sleeps on.
            feeder.process.send_signal(signal.SIGTERM)
        self.assertEqual(feeder.process.wait(PATIENCE), 143)

    def test_it_keeps_its_model_when_the_feeder_is_gone(self) -> None:
        feeder = self.worker(
            """
            class Model:
                setups = 0
                def setup(self): Model.setups += 1
                def predict_batch(self, batch): return [Model.setups] * len(batch)
            """
        )
        feeder.start("text")
        feeder.work("a")
        feeder.crash()
        self.assertTrue(feeder.accept()["ready"])
        feeder.give_ring("text")
        self.assertEqual(feeder.work("a", "b").result, [1, 1])
        feeder.crash()
        self.assertTrue(feeder.accept()["ready"])
        feeder.send("setup")
        feeder.receive("ready")
        feeder.give_ring("text")
        self.assertEqual(feeder.work("a").result, [1])

    def test_a_ring_can_be_replaced(self) -> None:
        for prefetches in (False, True):
            with self.subTest(prefetches=prefetches):
                feeder = self.worker(
                    f"""
                    from gpulane._device import _host
                    _host.Plain.prefetches = {prefetches}  # As with a GPU: threads receive and send.
                    def Model(batch):
                        return batch
                    """
                )
                feeder.start("text")
                self.assertEqual(feeder.work("a").result, ["a"])
                feeder.give_ring("bytes")
                feeder.ask(2, [raw(b"")])
                self.assertIn("bytes cannot be written", feeder.answer(2).failed[0])
                feeder.crash()
                self.assertTrue(feeder.accept()["ready"])
                feeder.give_ring("text")
                self.assertEqual(feeder.work("b", batch=3).result, ["b"])
                self.assertEqual(feeder.bye(), 0)

    def test_batches_sent_ahead_are_worked_on_in_turn(self) -> None:
        feeder = self.worker(LENGTHS)
        feeder.start("text")
        for number in range(3):
            feeder.ask(number, [text("x" * number)], slot=number)
        self.assertEqual([feeder.answer(number).result for number in range(3)], [[0], [1], [2]])


class Given(WithAWorker):
    """What the model gets."""

    def test_bytes(self) -> None:
        feeder = self.worker("def Model(batch): return [[type(one).__name__, one.hex()] for one in batch]")
        feeder.start("bytes")
        feeder.ask(1, [raw(b"\x00\xff"), raw(b"")])
        answer = feeder.answer(1)
        self.assertEqual(answer.result, [["bytes", "00ff"], ["bytes", ""]])
        self.assertEqual(answer.head["bytes"]["copied_on_host"], 2)

    def test_pictures_without_a_library_are_views(self) -> None:
        feeder = self.worker("def Model(batch): return [[*one.shape, one[1, 0, 2], one.readonly] for one in batch]")
        for packed in (True, False):
            if feeder.connection is None:
                feeder.start("rgb:2x2")
            feeder.ask(1, [u8((2, 2, 3), bytes(range(12))), u8((2, 2, 3), bytes(range(20, 32)))], packed=packed)
            self.assertEqual(feeder.answer(1).result, [[2, 2, 3, 8, True], [2, 2, 3, 28, True]])

    def test_arrays_without_a_library_are_views(self) -> None:
        feeder = self.worker("def Model(batch): return [one.tolist() for one in batch]")
        feeder.start("npy")
        feeder.ask(1, [u8((2,), b"ab"), u8((2,), b"cd")], packed=True)
        self.assertEqual(feeder.answer(1).result, [[97, 98], [99, 100]])

    def test_ragged_pictures(self) -> None:
        feeder = self.worker("def Model(batch): return [list(one.shape) for one in batch]")
        feeder.start("rgb")
        feeder.ask(1, [u8((1, 2, 3), bytes(6)), u8((3, 1, 3), bytes(9))])
        self.assertEqual(feeder.answer(1).result, [[1, 2, 3], [3, 1, 3]])

    def test_names_of_the_items(self) -> None:
        feeder = self.worker(
            """
            class Model:
                def predict_batch(self, batch):
                    return [name + self.items[-1] + self.items[0:1][0] for name in self.items]
            """
        )
        feeder.start("text")
        self.assertEqual(feeder.work("a", "b").result, ["item-0item-1item-0", "item-1item-1item-0"])

    def test_files_beside_the_model_can_be_imported(self) -> None:
        feeder = self.worker("import beside\ndef Model(batch): return [beside.VALUE] * len(batch)")
        (feeder.path / "beside.py").write_text("VALUE = 7")
        feeder.start("text")
        self.assertEqual(feeder.work("a").result, [7])


POISON = """
    import sys
    calls = []
    def Model(batch):
        calls.append(len(batch))
        if "poison" in batch:
            raise ValueError("this one\\nis bad")
        return [text.upper() for text in batch]
"""


class Failures(WithAWorker):
    def test_the_item_that_causes_an_exception_fails_alone(self) -> None:
        feeder = self.worker(POISON)
        feeder.start("text")
        answer = feeder.work("a", "b", "poison", "c", "d", "e", "poison", "f")
        self.assertEqual(answer.result, ["A", "B", "C", "D", "E", "F"])
        self.assertEqual(set(answer.failed), {2, 6})
        self.assertRegex(answer.failed[2], r"^ValueError: this one is bad \(model.py:7\)$")
        self.assertEqual(feeder.said().count("Traceback"), 1, "told once for its kind")

    def test_an_exception_that_does_not_come_back_costs_nothing(self) -> None:
        feeder = self.worker(
            """
            tries = []
            def Model(batch):
                tries.append(len(batch))
                if len(tries) == 1: raise OSError("network")
                return [tries] * len(batch)
            """
        )
        feeder.start("text")
        answer = feeder.work("a", "b", "c")
        self.assertEqual((answer.result, answer.failed), ([[3, 3]] * 3, {}))

    def test_a_wrong_number_of_results_is_told_with_the_numbers(self) -> None:
        feeder = self.worker("def Model(batch): return batch[1:]")
        feeder.start("text")
        answer = feeder.work("a", "b")
        self.assertEqual(answer.failed, dict.fromkeys((0, 1), "predict_batch returned 0 results for 1 items"))
        self.assertIn("predict_batch returned 1 results for 2 items", feeder.said())
        self.assertEqual((answer.head["count"], answer.head["columns"]), (0, []))

    def test_a_tuple_is_refused_whatever_its_length(self) -> None:
        feeder = self.worker("def Model(batch): return [1.5] * len(batch), [2.5] * len(batch)")
        feeder.start("text")
        for number, texts in enumerate((["a"], ["a", "b"], ["a", "b", "c", "d"])):
            answer = feeder.work(*texts, batch=number)
            self.assertEqual(set(answer.failed), set(range(len(texts))))
            for words in ("a tuple of 2", "a list with one result per item", '{"logits": logits'):
                self.assertIn(words, answer.failed[0])
            self.assertTrue(answer.head["certain"], "no fresh worker would help")

    def test_an_exception_that_cannot_be_shown_fails_its_item_alone(self) -> None:
        for words in ("raise ValueError('no str')", "raise SystemExit(0)", "return None"):
            with self.subTest(words):
                feeder = self.worker(
                    f"""
                    import sys
                    class Odd(RuntimeError):
                        def __str__(self): {words}
                        __repr__ = __str__
                    def Model(batch):
                        sys.stderr = None
                        if "poison" in batch: raise Odd()
                        return list(batch)
                    """
                )
                feeder.start("text")
                answer = feeder.work("a", "poison", "b")
                self.assertEqual((answer.result, set(answer.failed)), (["a", "b"], {1}))
                self.assertRegex(answer.failed[1], r"Odd.*\(model.py:8\)$")
                self.assertIn("Odd", feeder.said())

    def test_a_message_without_end_is_cut_in_the_log_and_in_the_reason(self) -> None:
        feeder = self.worker("def Model(batch): raise ValueError('first ' + 'x\\n' * 10_000_000 + ' last')")
        feeder.start("text")
        answer = feeder.work("a")
        self.assertRegex(answer.failed[0], "^ValueError: first x x x .*… .model.py:1.$")
        self.assertLess(len(answer.failed[0]), 1100)
        said = feeder.said()
        self.assertLess(len(said), 20_000)
        self.assertRegex(said, "characters left out")

    def test_a_forked_process_does_not_speak_for_its_parent(self) -> None:
        for child in ("sys.exit(0)", "raise ValueError('in the child')", "return ['the child']", "os._exit(0)"):
            with self.subTest(child):
                feeder = self.worker(
                    f"""
                    import os, sys
                    def Model(batch):
                        child = os.fork()
                        if child == 0:
                            {child}
                        os.waitpid(child, 0)
                        return [text.upper() for text in batch]
                    """
                )
                feeder.start("text")
                for number in range(3):
                    answer = feeder.work("a", "b", batch=number)
                    self.assertEqual((answer.result, answer.failed), (["A", "B"], {}))
                feeder.send("bye")
                self.assertEqual(feeder.process.wait(30), 0)

    def test_what_cannot_be_written_fails_alone(self) -> None:
        feeder = self.worker(
            "def Model(batch): return [object() if t == 'o' else b'x' if t == 'b' else t for t in batch]"
        )
        feeder.start("text")
        answer = feeder.work("a", "o", "c", "b")
        self.assertEqual(answer.result, ["a", "c"])
        self.assertIn("type object cannot be written", answer.failed[1])
        self.assertIn("bytes cannot be written; return text (base64)", answer.failed[3])

    def test_out_of_memory_means_fewer_at_once(self) -> None:
        feeder = self.worker(
            """
            def Model(batch):
                if len(batch) > 3: raise MemoryError
                return [len(batch)] * len(batch)
            """
        )
        feeder.start("text")
        first = feeder.work(*"abcdefgh")
        self.assertEqual((first.failed, first.result), ({}, [2] * 8))
        self.assertEqual((first.head["ooms"], first.head["split"]), (2, 8))
        second = feeder.work(*"abcdefgh")
        self.assertEqual((second.head["ooms"], second.head["split"]), (0, 2), "what was learnt is kept")

    def test_out_of_memory_with_one_item_fails_it(self) -> None:
        feeder = self.worker(
            """
            def Model(batch):
                if "huge" in batch: raise RuntimeError("CUDA out of memory. Tried to allocate 9 TiB")
                return [0] * len(batch)
            """
        )
        feeder.start("text")
        answer = feeder.work("a", "huge", "b")
        self.assertEqual((answer.result, set(answer.failed)), ([0, 0], {1}))
        self.assertIn("CUDA out of memory", answer.failed[1])

    def test_nan_is_kept_or_fails_as_asked(self) -> None:
        for nan, failed in (("keep", {}), ("fail", {1: "result column `x` is NaN"})):
            feeder = self.worker("def Model(batch): return [{'x': float(t), 'y': t} for t in batch]")
            feeder.start("text", nan)
            answer = feeder.work("1", "nan", "inf")
            self.assertEqual(answer.failed, failed)
            self.assertEqual(answer.columns["y"], ["1", "inf"] if failed else ["1", "nan", "inf"])

    def test_what_the_model_prints_is_left_alone(self) -> None:
        feeder = self.worker("def Model(batch):\n    print('seen', batch)\n    return batch")
        feeder.start("text")
        feeder.work("a")
        feeder.bye()
        self.assertIn("seen ['a']", feeder.said())


class WithNumpy(WithAWorker):
    def setUp(self) -> None:
        try:
            import numpy  # noqa: F401
        except ImportError:
            self.skipTest("NumPy is not installed")

    def test_pictures_are_a_view(self) -> None:
        feeder = self.worker(
            """
            import numpy as np
            def Model(batch):
                assert batch.shape == (2, 2, 2, 3) and batch.dtype == np.uint8 and not batch.flags.writeable
                return batch.sum(axis=(1, 2, 3), dtype=np.int64)
            """
        )
        self.assertEqual(feeder.start("rgb:2x2")["framework"], "numpy")
        for packed in (True, False):
            feeder.ask(1, [u8((2, 2, 3), bytes(range(12))), u8((2, 2, 3), bytes([1] * 12))], packed=packed)
            answer = feeder.answer(1)
            self.assertEqual((answer.result, answer.failed), ([66, 12], {}), feeder.said())
            self.assertEqual(answer.head["bytes"]["copied_on_host"], 0 if packed else 24)

    def test_embeddings_are_arrays(self) -> None:
        feeder = self.worker(
            """
            import numpy as np
            def Model(batch):
                if "poison" in batch: raise ValueError
                vectors = np.full((len(batch), 3), 0.5, np.float16)
                return {"vector": vectors, "each": list(vectors.astype("f8")), "one": [v[0] for v in vectors]}
            """
        )
        feeder.start("text")
        for texts in (("a", "b"), ("a", "poison", "b")):
            answer = feeder.work(*texts)
            self.assertEqual(answer.types, {"vector": "f32", "each": "f64", "one": "f32"})
            self.assertEqual(answer.columns["vector"], [[0.5] * 3] * 2)
            self.assertEqual(answer.columns["each"], [[0.5] * 3] * 2)


if __name__ == "__main__":
    sys.exit(unittest.main())
