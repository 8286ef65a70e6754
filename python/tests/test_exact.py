"""No value a model returns is rounded, replaced or left out on its way to the feeder: it arrives as it is, or its item
fails with the reason."""

from __future__ import annotations

import datetime
import decimal
import enum
import importlib
import importlib.util
import math
import pathlib
import random
import unittest
import uuid
from collections import OrderedDict, namedtuple
from typing import Any, List

from gpulane._results import ResultError, Table, rows_of
from gpulane._runs._results import _frame, shaped

from .test_results import columns

Pair = namedtuple("Pair", "a b")


class Level(enum.IntEnum):
    LOW = 1


class Colour(enum.Enum):
    RED = "red"


def same(given: Any, read: Any) -> bool:
    """Whether a value arrived: tuples as lists, keys as text."""
    if isinstance(given, float) and math.isnan(given):
        return isinstance(read, float) and math.isnan(read)
    if isinstance(given, (list, tuple)):
        return isinstance(read, list) and len(given) == len(read) and all(map(same_inside, given, read))
    if isinstance(given, dict):
        return list(map(str, given)) == list(read) and all(map(same_inside, given.values(), read.values()))
    if isinstance(given, bool) or given is None or isinstance(given, str):
        return type(given) is type(read) and given == read
    return not isinstance(read, bool) and bool(given == read) and math.copysign(1, given) == math.copysign(1, read)


def same_inside(given: Any, read: Any) -> bool:
    """Whether a value in a list or dict arrived: where that is JSON, NaN is null."""
    return same(given, read) or (isinstance(given, float) and math.isnan(given) and read is None)


VALUES: List[Any] = [
    *(True, False, None, 0, 1, -1, 255, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1),
    *(
        2**64,
        -(2**63) - 1,
        10**40,
        0.1,
        -0.0,
        1.0,
        5e-324,
        1.7976931348623157e308,
        1 / 3,
        math.nan,
        math.inf,
        -math.inf,
    ),
    *(
        "",
        "a",
        "\0",
        "é😀",
        "null",
        "1",
        "NaN",
        [],
        [1],
        [1, 2],
        [0.5, 2],
        [2**53 + 1, 0.5],
        [2**64 - 1],
        [-1, 2**64 - 1],
    ),
    *([True, False], [True, 1], ["a"], [None], [1, None], [math.nan, 0.5], [math.inf], [[1, 2], [3]], [[]], (), (1, 2)),
    *({}, {"a": 1}, {"a": {"b": [0.1, math.nan, math.inf]}}, {"1": 2**70}, OrderedDict(b=1, a=2), Pair(1, 0.1)),
]


class Exact(unittest.TestCase):
    def test_any_values_together_arrive(self) -> None:
        choice = random.Random(7)
        for _ in range(3000):
            pool = choice.sample(VALUES, choice.choice([2, 3, len(VALUES)]))
            given = [choice.choice(pool) for _ in range(choice.randint(1, 6))]
            with self.subTest(given):
                # As a column of their own, so that dicts are values.
                _, read, failed = columns({"x": list(given)}, len(given))
                self.assertEqual(failed, {})
                self.assertTrue(all(map(same, given, read["x"])), read["x"])

    def test_a_failed_neighbour_changes_nothing(self) -> None:
        choice = random.Random(8)
        for _ in range(500):
            given = [choice.choice(VALUES) for _ in range(5)]
            given[choice.randrange(5)] = object()
            _, read, failed = columns({"x": given, "y": list(range(5))}, 5)
            kept = [value for at, value in enumerate(given) if at not in failed]
            self.assertEqual((len(failed), len(read["y"])), (1, 4))
            self.assertTrue(all(map(same, kept, read["x"])), (given, read["x"]))

    def test_what_cannot_be_written_fails_alone_and_says_what_to_return(self) -> None:
        for value, word in (
            ("a\ud800", "surrogate"),
            ({"a": ["\udcff"]}, "surrogate"),
            ({"\udcff": 1}, "surrogate"),
            (pathlib.Path("a\udcff"), "surrogate"),
            (b"x", "base64"),
            (1j, "value.real"),
            ({1, 2}, "sorted"),
            (datetime.datetime(2026, 1, 1), "isoformat"),
            (datetime.date(2026, 1, 1), "isoformat"),
            (decimal.Decimal("0.1"), "str(value)"),
            (uuid.UUID(int=1), "str(value)"),
            (Colour.RED, ".value"),
            (object(), "return numbers"),
            ({1: "a", "1": "b"}, "both written `1`"),
            ({True: 1, "true": 2}, "both written `true`"),
            (10**5000, "4300 digits"),
        ):
            with self.subTest(word):
                _, read, failed = columns({"x": ["good", value, 1]}, 3)
                self.assertEqual((read["x"], list(failed)), (["good", 1], [1]))
                self.assertIn(word, failed[1])

    def test_keys_are_text_as_json_has_it(self) -> None:
        given = {"x": [{2: "a", 0.5: "b", None: "c", True: "d"}, {(1, 2): 3, Level.LOW: 4}, Level.LOW]}
        expected = [{"2": "a", "0.5": "b", "null": "c", "true": "d"}, {"(1, 2)": 3, "1": 4}, 1]
        self.assertEqual(columns(given, 3)[1]["x"], expected)

    def test_columns_that_would_fall_together_are_refused(self) -> None:
        with self.assertRaisesRegex(ResultError, "both written `1`"):
            Table({1: [1, 2], "1": [3, 4]}, 2, False)
        _, read, failed = columns([{"a": 1}, {1: 1, "1": 2}], 2)
        self.assertEqual((read["a"], list(failed)), ([1], [1]))
        with self.assertRaisesRegex(ResultError, "surrogate"):
            Table({"\udcff": [1]}, 1, False)
        _, read, failed = columns([{"a": 1}, {"\udcff": 1}], 2)
        self.assertEqual((read, list(failed)), ({"a": [1]}, [1]))

    def test_a_table_is_not_taken_for_its_columns(self) -> None:
        frame = type("DataFrame", (list,), {"columns": ["a", "b"]})(["a", "b"])
        frame_like = type("DataFrame", (), {"columns": ["a"], "__iter__": lambda self: iter("ab")})()
        self.assertEqual(len(frame), 2)
        with self.assertRaisesRegex(ResultError, "a dict with a list or an array per column"):
            Table(frame_like, 2, False)

    def test_nan_is_found_in_lists_of_any_length(self) -> None:
        given = {"x": [[1.0], [0.5, math.nan], None, []], "y": [None, math.nan, 1.0, 2.0]}
        _, _, failed = columns(given, 4, nan_fails=True)
        self.assertEqual(list(failed), [1])
        _, _, failed = columns({"x": [None, [math.nan], [1.0, 2.0]]}, 3, nan_fails=True)
        self.assertEqual(list(failed), [1])


class WithNumpy(unittest.TestCase):
    def setUp(self) -> None:
        if importlib.util.find_spec("numpy") is None:
            self.skipTest("NumPy is not installed")
        self.numpy: Any = importlib.import_module("numpy")

    def test_every_type_arrives_as_it_is(self) -> None:
        numpy = self.numpy
        kinds = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 >f8 >i4".split()
        for kind in kinds:
            dtype = numpy.dtype(kind)
            if dtype.kind == "f":
                low, high = numpy.finfo(dtype).min, numpy.finfo(dtype).max
            else:
                low, high = (False, True) if kind == "bool" else (numpy.iinfo(dtype).min, numpy.iinfo(dtype).max)
            values = numpy.array([low, high, 1], dtype)
            expected = values.tolist()
            for given in (values, list(values), [values[0], None, values[2]], [numpy.array(v) for v in values]):
                with self.subTest(f"{kind} {given}"):
                    types, read, failed = columns({"x": given}, 3)
                    wanted = [None if value is None else value for value in given]
                    wanted = [value if value is None else value.tolist() for value in wanted]
                    self.assertEqual((read["x"], failed), (wanted, {}))
                    self.assertNotEqual(types["x"], "json")
            self.assertEqual(rows_of(values, 3), list(values))
            vectors = [numpy.array([low, high], dtype), numpy.array([1], dtype), numpy.array([], dtype), None]
            types, read, failed = columns({"x": vectors}, 4)
            self.assertEqual(read["x"], [expected[:2], expected[2:], [], None])
            self.assertNotEqual(types["x"], "json")

    def test_shapes_that_differ_arrive_as_lists(self) -> None:
        numpy = self.numpy
        given = [numpy.ones((2, 2), "f4"), numpy.zeros((1, 2), "f4"), numpy.zeros((0, 2), "f4"), None]
        self.assertEqual(columns({"x": given}, 4)[1]["x"], [[[1, 1], [1, 1]], [[0, 0]], [], None])
        big = numpy.array([2**53 + 1, 1])
        self.assertEqual(columns({"x": [big, 0.5]}, 2)[1]["x"], [[2**53 + 1, 1], 0.5])
        self.assertEqual(columns({"x": [numpy.float32(0.1), "a"]}, 2)[1]["x"], [0.10000000149011612, "a"])

    def test_types_do_not_depend_on_neighbours_that_fail(self) -> None:
        vector = self.numpy.array([0.1, 0.2], "f4")
        for odd in (object(), b"x", "\ud800"):
            types, read, failed = columns({"x": [vector, odd, vector], "y": [1, "a", 2]}, 3)
            self.assertEqual((types, list(failed)), ({"x": "f32", "y": "i64"}, [1]))
            self.assertEqual(read, {"x": [vector.tolist()] * 2, "y": [1, 2]})

    def test_types_of_one_batch_are_widened_as_the_feeder_would(self) -> None:
        numpy = self.numpy
        for one, two, kind in (
            ("uint8", "int8", "i16"),
            ("int16", "int32", "i32"),
            ("uint8", "uint32", "u32"),
            ("uint32", "int8", "i64"),
            ("float16", "float32", "f32"),
            ("float16", "float64", "f64"),
            ("uint64", "int8", "json"),
            ("float32", "int8", "json"),
            ("bool", "int8", "json"),
        ):
            for given in ([numpy.dtype(name).type(1) for name in (one, two)], [numpy.ones(2, one), numpy.ones(1, two)]):
                with self.subTest(f"{one} {two} {given}"):
                    types, read, failed = columns({"x": given}, 2)
                    self.assertEqual((types["x"], failed), (kind, {}))
                    self.assertEqual(read["x"], [value.tolist() for value in given])

    def test_masked_places_are_none(self) -> None:
        numpy = self.numpy
        masked = numpy.ma.array([[1, 2], [3, 4]], mask=[[0, 1], [0, 0]])
        self.assertEqual(columns({"x": masked}, 2)[1]["x"], [[1, None], [3, 4]])
        self.assertEqual(columns({"x": [masked[0], masked[1]]}, 2)[1]["x"], [[1, None], [3, 4]])
        self.assertEqual(columns({"x": masked[0]}, 2)[1]["x"], [1, None])

    def test_types_that_lists_would_change_fail(self) -> None:
        numpy = self.numpy
        for dtype in ("datetime64[ns]", "datetime64[D]", "timedelta64[ns]", "complex64", "longdouble", "S3", "i4,f4"):
            with self.subTest(dtype):
                values = numpy.zeros(2, dtype)
                _, _, failed = columns({"x": values}, 2)
                self.assertEqual(set(failed), {0, 1})
                _, read, failed = columns({"x": [values[0], "a"]}, 2)
                self.assertEqual((read["x"], list(failed)), (["a"], [0]))

    def test_small_floats_of_other_libraries_are_widened(self) -> None:
        if importlib.util.find_spec("ml_dtypes") is None:
            self.skipTest("ml_dtypes is not installed")
        ml_dtypes: Any = importlib.import_module("ml_dtypes")
        for kind in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn):
            values = self.numpy.array([0.1, 1.5, -2.0], kind)
            expected = [float(value) for value in values]
            for given in (values, list(values), [values[0], None, values[2]], [values[0], "a", values[2]]):
                wanted = [expected[at] if type(value) is kind else value for at, value in enumerate(given)]
                self.assertEqual(columns({"x": given}, 3)[1]["x"], wanted)

    def test_columns_of_pandas(self) -> None:
        if importlib.util.find_spec("pandas") is None:
            self.skipTest("pandas is not installed")
        pandas: Any = importlib.import_module("pandas")
        large = 2**53 + 1
        series = pandas.Series([large, 1], dtype="Int64")
        self.assertEqual(columns({"x": series}, 2)[1]["x"], [large, 1])
        self.assertEqual(columns({"x": pandas.Series(["a", "b"])}, 2)[1]["x"], ["a", "b"])
        _, read, failed = columns({"x": pandas.Series([large, None], dtype="Int64")}, 2)
        self.assertEqual((read["x"], list(failed)), ([large], [1]))
        with self.assertRaises(ResultError):
            Table(pandas.DataFrame({"a": [1, 2], "b": [1, 2]}), 2, False)


LARGE = 2**53 + 1


@unittest.skipUnless(importlib.util.find_spec("pandas"), "pandas is not installed")
class DataFrames(unittest.TestCase):
    """What `Run.results()` gives rounds nothing either."""

    def test_rows_of_json_lines(self) -> None:
        for values, kind in (
            ([LARGE, None], "Int64"),
            ([2**64 - 1, None], "UInt64"),
            ([-1, 2**63, None], "object"),
            ([LARGE, 0.5], "object"),
            ([1, 0.5, None], "float64"),
            ([1, 2], "int64"),
        ):
            rows = [{"x": value, "y": 0} if value is not None else {"y": 0} for value in values]
            with self.subTest(values):
                column = shaped(rows, "pandas")["x"]
                self.assertEqual(str(column.dtype), kind)
                whole = [value for value in column.tolist() if isinstance(value, int)]
                self.assertTrue(set(whole) <= set(values))
                self.assertEqual(
                    len(whole), sum(isinstance(value, int) for value in values) if kind != "float64" else 0
                )

    @unittest.skipUnless(importlib.util.find_spec("pyarrow"), "pyarrow is not installed")
    def test_columns_of_parquet(self) -> None:
        arrow: Any = importlib.import_module("pyarrow")
        table = arrow.table(
            {
                "lacking": arrow.array([LARGE, None], arrow.int64()),
                "unsigned": arrow.array([2**64 - 1, None], arrow.uint64()),
                "small": arrow.array([7, None], arrow.int8()),
                "whole": arrow.array([LARGE, 1], arrow.int64()),
                "text": ["a", None],
            }
        )
        frame = _frame(table)
        kinds = [str(frame[name].dtype) for name in ("lacking", "unsigned", "small", "whole")]
        self.assertEqual(kinds, ["Int64", "UInt64", "Int8", "int64"])
        self.assertEqual((frame["lacking"][0], frame["unsigned"][0], frame["whole"][0]), (LARGE, 2**64 - 1, LARGE))
        self.assertEqual(list(frame.columns), table.column_names)


if __name__ == "__main__":
    unittest.main()
