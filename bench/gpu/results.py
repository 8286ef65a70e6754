#!/usr/bin/env python3
"""Results of torch and CuPy on a real GPU, of every element type: what the worker sends is what `tolist` gives.

    bench/gpu/results.py

Needs torch; CuPy's part is left out where it is not installed. Arrays and tensors on the GPU, stacked and not, of one length and of several, beside None, views with
the other sign in memory, sparse ones, and ones that need a gradient. Prints a line for each that differs; the exit code is their number.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python")]

from gpulane._results import Table  # noqa: E402
from gpulane._wire import Frame  # noqa: E402
from tests.fake_feeder import Answer  # noqa: E402


def sent(values, count):
    """What the feeder reads of a column."""
    answer = Table({"x": values}, count, False).answer()
    head = {"columns": answer.columns, "failed": answer.failed, "count": answer.rows}
    read = Answer(Frame(json.loads(json.dumps(head)), b"".join(bytes(part) for part in answer.body), None))
    return read.columns.get("x"), read.types.get("x"), read.failed


def same(given, read):
    if isinstance(given, list):
        return isinstance(read, list) and len(given) == len(read) and all(map(same, given, read))
    if isinstance(given, float) and math.isnan(given):
        return isinstance(read, float) and math.isnan(read)
    return type(given) is type(read) and given == read


def cases(torch):
    names = "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64".split()
    for name in [*names, "float8_e4m3fn", "float8_e5m2"]:
        dtype = getattr(torch, name, None)
        if dtype is None:
            continue
        base = torch.tensor([[0.0, 1.0], [0.1, 100.0], [1.0, 0.3]], device="cuda")
        values = (base.to(torch.int64) if not dtype.is_floating_point else base).to(dtype)
        listed = values.cpu().float().tolist() if "float8" in name else values.cpu().tolist()
        yield f"{name}", values, listed
        yield f"{name}, rows", list(values), listed
        yield f"{name}, beside None", [values[0], None, values[2]], [listed[0], None, listed[2]]
        yield f"{name}, lengths", [values[0], values[1][:1], values[2][:0]], [listed[0], listed[1][:1], []]
        yield f"{name}, scalars", list(values[:, 0]), [row[0] for row in listed]
    odd = torch.tensor([[math.nan, math.inf], [-math.inf, -0.0], [1e-40, 3e38]], device="cuda")
    yield "odd floats", odd, odd.cpu().tolist()
    imaginary = torch.tensor([1 + 2j, 3 - 4j, 5j], device="cuda").conj().imag
    yield "a negative view", imaginary, imaginary.cpu().tolist()
    yield "with a gradient", (odd[:, 1] * 1).requires_grad_(), odd[:, 1].cpu().tolist()
    yield "sparse", torch.eye(3, device="cuda").to_sparse(), torch.eye(3).tolist()
    yield "a transposed view", odd.t().contiguous().t(), odd.cpu().tolist()


def main():
    import torch

    wrong = 0
    for name, values, listed in cases(torch):
        read, kind, failed = sent(values, 3)
        if failed or kind == "json" or not same(listed, read):
            wrong += 1
            print(f"{name}: {listed} is sent as {kind} {read} {failed}")
    complex_ones = torch.ones(3, dtype=torch.complex64, device="cuda")
    if len(sent(complex_ones, 3)[2]) != 3:
        wrong += 1
        print("complex numbers do not fail")
    try:
        import cupy
    except ImportError:
        print("CuPy is not installed")
    else:
        for name in "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split():
            values = cupy.array([[0, 1], [2, 100], [1, 0]]).astype(name)
            listed = values.get().tolist()
            rows = [values[0], values[1][:1], None]
            for given, expected in ((values, listed), (list(values), listed), (rows, [listed[0], listed[1][:1], None])):
                read, kind, failed = sent(given, 3)
                if failed or kind == "json" or not same(expected, read):
                    wrong += 1
                    print(f"CuPy {name}: {expected} is sent as {kind} {read} {failed}")
    print(f"{wrong} differ")
    return wrong


if __name__ == "__main__":
    sys.exit(min(main(), 100))
