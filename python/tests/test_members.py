"""The members of samples that come with items: what the worker asks for, and what `self.samples` holds."""

from __future__ import annotations

import json
import unittest
from typing import Any, Dict, List, Sequence

import gpulane
from gpulane._model import ModelError, _Function, asked_members

from .fake_feeder import Answer, FakeFeeder, raw

SHOWS = """
    import gpulane
    class Model(gpulane.Model):
        decode = "bytes"
        members = ["json", "txt"]
        def predict_batch(self, batch):
            assert type(self.samples) is list and len(self.samples) == len(self.items) == len(batch)
            shown = []
            for name, sample in zip(self.items, self.samples):
                assert all(type(data) is bytes for data in sample.values())
                shown.append({"name": name, "sample": {key: data.decode() for key, data in sample.items()}})
                sample.clear()
            return shown
"""


class Asked(unittest.TestCase):
    def test_texts_and_lists_of_them_are_asked_for(self) -> None:
        class Model(gpulane.Model):
            pass

        for members, asked in [
            (["txt", "json"], ["json", "txt"]),
            (("json",), ["json"]),
            ({"json"}, ["json"]),
            ("json, txt", ["json", "txt"]),
            ("*", ["*"]),
            ([], []),
            ("", []),
            (None, None),
        ]:
            Model.members = members  # type: ignore[assignment]
            self.assertEqual(asked_members(Model()), asked, members)

    def test_what_is_no_request_is_left_alone(self) -> None:
        class Ensemble:
            members = [object(), object()]

        self.assertIsNone(asked_members(Ensemble()))
        Ensemble.members = 3  # type: ignore[assignment]
        self.assertIsNone(asked_members(Ensemble()))
        self.assertIsNone(asked_members(object()))

    def test_all_that_is_wrong_is_said(self) -> None:
        class Model(gpulane.Model):
            members = ["json", 3, None]  # type: ignore[list-item]

        with self.assertRaises(ModelError) as caught:
            asked_members(Model())
        self.assertIn("3, None", str(caught.exception))
        self.assertIn('["json", "txt"]', str(caught.exception))

    def test_a_function_asks_for_none(self) -> None:
        def function(batch: Any) -> Any:
            return batch

        function.members = ["json"]  # type: ignore[attr-defined]
        self.assertIsNone(asked_members(_Function(function, {})))


class Given(unittest.TestCase):
    def worker(self, model: str) -> FakeFeeder:
        feeder = FakeFeeder(model)
        self.addCleanup(feeder.close)
        return feeder

    def ask(self, feeder: FakeFeeder, samples: Sequence[Dict[str, bytes]], first: int = 0) -> Answer:
        """Asks for the items from `first` on of a slot with these samples."""
        fields = feeder.fill(0, [raw(b"x")] * len(samples))
        feeder.give_members(0, samples)
        fields.update(first=first, count=len(samples) - first)
        feeder.send("batch", batch=1, careful=False, **fields)
        return feeder.answer(1)

    def shown(self, answer: Answer) -> List[Any]:
        return [json.loads(text) if isinstance(text, str) else text for text in answer.columns["sample"]]

    def test_each_item_has_its_own_and_nothing_where_there_is_nothing(self) -> None:
        feeder = self.worker(SHOWS)
        ready = feeder.start("bytes", members=["json", "txt"])
        self.assertEqual(ready["members"], ["json", "txt"])
        samples = [{"json": b"{}", "txt": "ä".encode()}, {}, {"txt": b""}]
        answer = self.ask(feeder, samples)
        self.assertEqual(self.shown(answer), [{"json": "{}", "txt": "ä"}, {}, {"txt": ""}])
        self.assertEqual(answer.head["bytes"]["copied_on_host"], 3 + len(b"{}" + "ä".encode()))

    def test_a_halved_batch_has_those_of_its_items(self) -> None:
        feeder = self.worker(SHOWS)
        feeder.start("bytes", members=["*"])
        answer = self.ask(feeder, [{"txt": str(number).encode()} for number in range(7)], first=4)
        self.assertEqual(self.shown(answer), [{"txt": "4"}, {"txt": "5"}, {"txt": "6"}])
        self.assertEqual(answer.columns["name"], ["item-4", "item-5", "item-6"])

    def test_every_try_finds_them_as_they_came(self) -> None:
        for error in ["MemoryError()", "ValueError('no')"]:
            feeder = self.worker(
                f"""
                class Model:
                    def predict_batch(self, batch):
                        texts = [sample.pop("txt").decode() for sample in self.samples]
                        if len(batch) > 2 or "5" in texts:
                            raise {error}
                        return texts
                """
            )
            feeder.start("bytes", members=["txt"])
            answer = self.ask(feeder, [{"txt": str(number).encode()} for number in range(9)])
            self.assertEqual(set(answer.failed), {5})
            self.assertEqual(answer.result, [str(number) for number in range(9) if number != 5])

    def test_without_members_the_model_keeps_an_attribute_of_that_name(self) -> None:
        feeder = self.worker(
            """
            class Model:
                samples = "its own"
                def predict_batch(self, batch): return [self.samples] * len(batch)
            """
        )
        self.assertNotIn("members", feeder.start("bytes"))
        self.assertEqual(self.ask(feeder, [{"txt": b"a"}]).result, ["its own"])

    def test_functions_and_models_with_slots_work_on(self) -> None:
        for model in [
            "def Model(batch): return [len(item) for item in batch]",
            """
            class Model:
                __slots__ = ()
                def predict_batch(self, batch): return [len(item) for item in batch]
            """,
        ]:
            feeder = self.worker(model)
            feeder.start("bytes", members=["txt"])
            self.assertEqual(self.ask(feeder, [{"txt": b"a"}, {}]).result, [1, 1])

    def test_a_mistake_in_members_fails_the_setup(self) -> None:
        feeder = self.worker("class Model:\n  members = ['json', 1]\n  def predict_batch(self, batch): ...")
        feeder.accept()
        feeder.send("setup")
        self.assertIn("`members` of Model has 1 in it", feeder.receive("setup_failed").head["error"])


if __name__ == "__main__":
    unittest.main()
