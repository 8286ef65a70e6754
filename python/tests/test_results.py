"""Whatever a model returns becomes columns with one row per item, or is refused with a reason."""

from __future__ import annotations

import json
import math
import unittest
from pathlib import Path
from typing import Any, Dict, List, Tuple

from gpulane._calls import Limit
from gpulane._errors import is_out_of_memory
from gpulane._results import ResultError, Table, rows_of
from gpulane._wire import Frame

from .fake_feeder import Answer


def columns(
    results: Any, count: int, nan_fails: bool = False
) -> Tuple[Dict[str, str], Dict[str, List[Any]], Dict[int, str]]:
    """Types, values and failures, read back as the feeder would."""
    answer = Table(results, count, nan_fails).answer()
    head = {"columns": answer.columns, "failed": answer.failed, "count": answer.rows}
    read = Answer(Frame(json.loads(json.dumps(head)), b"".join(bytes(part) for part in answer.body), None))
    return read.types, read.columns, read.failed


class Values(unittest.TestCase):
    def test_types_of_columns(self) -> None:
        for values, kind in (
            ([1, 2], "i64"),
            ([1.5, -2.0], "f64"),
            ([1, 2.5], "json"),
            ([True, False], "bool"),
            (["a", "é"], "json"),
            ([None, 1], "i64"),
            ([None, math.inf], "f64"),
            ([None, "a"], "json"),
            ([True, 1], "json"),
            ([1, 1 << 70], "json"),
            ([1.5, 1 << 60], "json"),
            ([[1, 2], [3, 4]], "i64"),
            ([(0.5, 1), (2, 3.5)], "json"),
            ([[1], [2, 3]], "i64"),
            ([[0.5], []], "f64"),
            ([None, [2, 3]], "i64"),
            ([[], []], "json"),
            ([["a"], ["b"]], "json"),
            ([[[1]], [[2]]], "json"),
        ):
            with self.subTest(values):
                types, read, failed = columns(values, 2)
                self.assertEqual((types, failed), ({"result": kind}, {}))
                plain = [list(value) if isinstance(value, tuple) else value for value in values]
                self.assertEqual(read["result"], plain)

    def test_dicts_are_columns(self) -> None:
        types, read, failed = columns([{"label": "cat", "score": 0.5}, {"score": 0.25, "box": [1, 2]}, None], 3)
        self.assertEqual(
            read,
            {
                "label": ["cat", None, None],
                "score": [0.5, 0.25, None],
                "box": [None, [1, 2], None],
                "result": [None, None, None],
            },
        )
        self.assertEqual(failed, {})
        self.assertEqual(columns({"a": [1, 2], "b": ("x", "y")}, 2)[1], {"a": [1, 2], "b": ["x", "y"]})

    def test_a_key_that_a_result_lacks_is_told_from_none(self) -> None:
        rows: List[Any] = [{"a": 1}, {"b": None, "c": "x"}, {1j: 0}, {"a": None}, None, {}]
        columns_sent = Table(rows, 6, False).answer().columns
        absent = {column["name"]: column.get("absent", []) for column in columns_sent}
        self.assertEqual(absent["a"], [1, 2, 4, 5])
        self.assertEqual(absent["b"], [0, 2, 3, 4, 5])
        self.assertEqual(absent["result"], [0, 1, 2, 3, 5])
        self.assertNotIn("absent", Table([{"a": 1, "b": 2}] * 2, 2, False).answer().columns[0])
        # Counted among the rows that are sent.
        table = Table([{"a": 1}, {"b": 2}, {"b": 3}], 3, False)
        table.fail(0, "no")
        self.assertEqual([(c["name"], c.get("absent")) for c in table.answer().columns], [("a", [0, 1]), ("b", None)])

    def test_one_that_is_no_dict_among_dicts_fails(self) -> None:
        _, read, failed = columns([{"a": 1}, "no", {"a": 3}], 3)
        self.assertEqual(read, {"a": [1, 3]})
        self.assertIn("others", failed[1].replace("other items", "others"))

    def test_other_things_that_can_be_listed(self) -> None:
        self.assertEqual(columns((value * 2 for value in range(3)), 3)[1], {"result": [0, 2, 4]})
        self.assertEqual(columns([Path("a/b"), {1: (2, 3)}.get(1)], 2)[1], {"result": ["a/b", [2, 3]]})

    def test_no_items_no_columns(self) -> None:
        self.assertEqual(columns([], 0), ({}, {}, {}))

    def test_what_cannot_be_told_apart_is_refused(self) -> None:
        for results, word in (
            ([1], "returned 1 results for 2 items"),
            ({"a": [1]}, "1 values in column `a` for 2 items"),
            ({"item": [1, 2]}, "column `item`"),
            ([{"item": 1}, {"item": 2}], "column `item`"),
            ("ab", "type str"),
            (None, "returned None"),
            (5, "type int"),
            ({}, "empty dict"),
            ({"a": "xy"}, "type str"),
        ):
            with self.subTest(results), self.assertRaisesRegex(ResultError, word):
                Table(results, 2, False)

    def test_nan_in_numbers_stays_and_in_nested_values_is_null(self) -> None:
        _, read, failed = columns({"x": [math.nan, 1.0], "y": [{"z": [math.nan, math.inf]}, {"z": -math.inf}]}, 2)
        self.assertTrue(math.isnan(read["x"][0]))
        self.assertEqual((read["y"], failed), ([{"z": [None, math.inf]}, {"z": -math.inf}], {}))

    def test_nan_fails_where_asked(self) -> None:
        results = {"x": [1.0, math.nan, math.inf], "v": [[0.0, 1.0], [1.0, 1.0], [1.0, math.nan]], "t": ["a", "b", "c"]}
        _, read, failed = columns(results, 3, nan_fails=True)
        self.assertEqual(read, {"x": [1.0], "v": [[0.0, 1.0]], "t": ["a"]})
        self.assertEqual(failed, {1: "result column `x` is NaN", 2: "result column `v` is NaN"})
        self.assertEqual(set(columns([{"a": [1, {"b": math.nan}]}, {"a": 1}], 2, nan_fails=True)[2]), {0})

    def test_rows_of_pieces(self) -> None:
        self.assertEqual(rows_of({"a": [1, 2], "b": "xy".split("y")}, 2), [{"a": 1, "b": "x"}, {"a": 2, "b": ""}])
        self.assertEqual(rows_of([1, 2], 2), [1, 2])


class Limits(unittest.TestCase):
    def grown(self, limit: Limit, wanted: int) -> int:
        """The limit after as many good calls as it takes to grow once."""
        for _ in range(20):
            limit.went_well(limit.of(wanted), wanted)
        return limit.of(wanted)

    def test_it_halves_and_grows_slowly(self) -> None:
        limit = Limit()
        self.assertEqual(limit.of(256), 256)
        limit.ran_out(256)
        self.assertEqual(limit.of(256), 128)
        self.assertEqual(self.grown(limit, 256), 160)
        self.assertEqual([self.grown(limit, 256) for _ in range(4)], [200, 250, 256, 256])

    def test_it_stays_below_what_failed_twice(self) -> None:
        limit = Limit()
        limit.ran_out(256)
        limit.ran_out(200)
        sizes = [self.grown(limit, 256) for _ in range(12)]
        self.assertEqual((sizes, max(sizes)), (sorted(sizes), 255))
        limit.ran_out(220)
        self.assertEqual(max(self.grown(limit, 256) for _ in range(12)), 219)

    def test_small_batches_teach_nothing(self) -> None:
        limit = Limit()
        limit.ran_out(256)
        for _ in range(100):
            limit.went_well(5, 256)
        self.assertEqual(limit.of(256), 128)

    def test_what_counts_as_out_of_memory(self) -> None:
        kind = type("OutOfMemoryError", (RuntimeError,), {})
        for error in (
            MemoryError(),
            kind(),
            RuntimeError("CUDA out of memory"),
            RuntimeError("CUDA error: out of memory"),
        ):
            self.assertTrue(is_out_of_memory(error), error)
        for error in (
            ValueError("out of memory"),
            RuntimeError("shape mismatch"),
            OSError(12, "Cannot allocate memory"),
        ):
            self.assertFalse(is_out_of_memory(error), error)


if __name__ == "__main__":
    unittest.main()
