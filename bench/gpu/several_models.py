#!/usr/bin/env python3
"""Several models on one GPU: `gpulane.concurrent` beside calling them in turn, streams, and graphs made by hand.

    bench/gpu/several_models.py [FILE.json] [--no-tests] [--only TEXT] [--tune]

Needs torch and torchvision; weights are those of chance, nothing is fetched. Takes less than four minutes. Every check
prints a line, a table comes after them, all numbers go to FILE.json; the last line is `N failed`, as the exit code.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

import torch  # noqa: E402
import torchvision  # noqa: E402

import gpulane  # noqa: E402

ROUNDS = 7
ROUND_S = 0.12
"""How long one round of one contestant takes, about."""
WARM_UP = 5

failures: List[str] = []


def check(name: str, holds: bool, seen: object = "") -> None:
    print(f"{'ok  ' if holds else 'FAIL'} {name}  {seen}", flush=True)
    if not holds:
        failures.append(name)


class Contest(NamedTuple):
    """Four models at one batch size, and how many times quicker than in turn they must be."""

    name: str
    architectures: List[str]
    batch: int
    times: float


DIFFERENT = ["resnet18", "mobilenet_v3_large", "efficientnet_b0", "vit_b_16"]
CONTESTS = [
    Contest("4 x ResNet-18, batch 1", ["resnet18"] * 4, 1, 10.0),
    Contest("4 x ResNet-18, batch 8", ["resnet18"] * 4, 8, 6.0),
    Contest("4 x ResNet-50, batch 8", ["resnet50"] * 4, 8, 5.0),
    Contest("4 x ResNet-50, batch 64", ["resnet50"] * 4, 64, 1.1),
    Contest("four different, batch 8", DIFFERENT, 8, 1.1),
]


def network(architecture: str, seed: int, dtype: torch.dtype) -> torch.nn.Module:
    """With weights of chance. Batch norm takes its statistics from one batch: half precision would overflow without."""
    torch.manual_seed(seed)
    net = getattr(torchvision.models, architecture)(weights=None).cuda().train()
    for layer in net.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.momentum = 1.0
    net(pictures(8, torch.float32))
    return net.eval().to(dtype, memory_format=torch.channels_last)


def pictures(count: int, dtype: torch.dtype) -> torch.Tensor:
    made = torch.rand(count, 3, 224, 224, device="cuda")
    return made.to(dtype, memory_format=torch.channels_last)


def apart(got: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference, as a part of the largest number."""
    got, expected = got.double(), expected.double()
    if not bool(torch.isfinite(expected).all()):
        return float("inf")
    return float((got - expected).abs().max() / expected.abs().max().clamp_min(1e-12))


# Contestants ------------------------------------------------------------------------------------------------------


def in_turn(models: List[Any], x: torch.Tensor) -> Callable[[], Any]:
    return lambda: [model(x) for model in models]


def by_streams(models: List[Any], x: torch.Tensor) -> Callable[[], Any]:
    streams = [torch.cuda.Stream() for _ in models]

    def call() -> List[Any]:
        here = torch.cuda.current_stream()
        answers = []
        for model, stream in zip(models, streams):
            stream.wait_stream(here)
            with torch.cuda.stream(stream):
                answers.append(model(x))
        for stream in streams:
            here.wait_stream(stream)
        return answers

    return call


class ByHand:
    """Graphs with nothing around them: no copies, no checks. What is possible, with one stream for all or one each."""

    def __init__(self, models: List[Any], x: torch.Tensor) -> None:
        self.streams = [torch.cuda.Stream() for _ in models]
        self.graphs = [torch.cuda.CUDAGraph() for _ in models]
        self.answers = []
        for model, stream, graph in zip(models, self.streams, self.graphs):
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(3):
                    model(x)
            with torch.cuda.graph(graph, stream=stream):
                self.answers.append(model(x))

    def in_turn(self) -> None:
        for graph in self.graphs:
            graph.replay()

    def at_once(self) -> None:
        here = torch.cuda.current_stream()
        for graph, stream in zip(self.graphs, self.streams):
            stream.wait_stream(here)
            with torch.cuda.stream(stream):
                graph.replay()
        for stream in self.streams:
            here.wait_stream(stream)


def seconds(call: Callable[[], Any], times: int, each: bool) -> float:
    """Per call; with `each`, the host waits for every one, as if it needed the answer."""
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(times):
        call()
        if each:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) / times


def race(contestants: Dict[str, Callable[[], Any]], each: bool) -> Dict[str, float]:
    """The median seconds of each, taken in turn so that all see the same machine."""
    times, found = {}, {}
    for name, call in contestants.items():
        for _ in range(WARM_UP):
            call()
        times[name] = max(3, min(500, round(ROUND_S / seconds(call, 3, each))))
        found[name] = []
    for _ in range(ROUNDS):
        for name, call in contestants.items():
            found[name].append(seconds(call, times[name], each))
    return {name: statistics.median(measured) for name, measured in found.items()}


def reserved() -> int:
    """Memory torch cannot give back: in use, or in graphs."""
    torch.cuda.synchronize()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    return torch.cuda.memory_reserved()


# Contests ---------------------------------------------------------------------------------------------------------


def run(contest: Contest, dtype: torch.dtype) -> Dict[str, Any]:
    kind = str(dtype).replace("torch.", "")
    name = f"{contest.name}, {kind}"
    models = [network(each, seed, dtype) for seed, each in enumerate(contest.architectures)]
    x = pictures(contest.batch, dtype)
    before = reserved()
    begun = time.perf_counter()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        fast = gpulane.concurrent(models, x)
    made = time.perf_counter() - begun
    held = torch.cuda.memory_reserved() - before
    check(f"{name}: all are graphs", fast.how == ["graph"] * 4, [str(each.message) for each in said])
    worst = max(compare(fast, models, pictures(contest.batch, dtype)) for _ in range(5))
    check(f"{name}: answers as in turn, within 2e-2", worst <= 2e-2, f"{worst:.1e}")
    hand = ByHand(models, x)
    contestants: Dict[str, Callable[[], Any]] = {
        "in turn": in_turn(models, x),
        "streams": by_streams(models, x),
        "graphs in turn, by hand": hand.in_turn,
        "graphs at once, by hand": hand.at_once,
        "gpulane": lambda: fast(x),
        "gpulane, copy=False": lambda: fast(x, copy=False),
    }
    measured = race(contestants, each=False)
    chosen = {key: contestants[key] for key in ("in turn", "gpulane")}
    latency = race(chosen, each=True)
    gain = measured["in turn"] / measured["gpulane"]
    check(f"{name}: {contest.times:g} times as quick as in turn", gain >= contest.times, f"{gain:.2f}")
    del hand, contestants, chosen
    fast.close()
    left = reserved() - before
    check(f"{name}: memory is back after close", left <= 64 << 20, f"{left >> 20} MiB left of {held >> 20} MiB")
    return {
        "name": contest.name,
        "dtype": kind,
        "ms": {key: round(value * 1e3, 4) for key, value in measured.items()},
        "ms_with_wait": {key: round(value * 1e3, 4) for key, value in latency.items()},
        "times": {key: round(measured["in turn"] / value, 3) for key, value in measured.items()},
        "apart": worst,
        "graphs_mib": held >> 20,
        "made_s": round(made, 2),
    }


def compare(fast: Any, models: List[Any], x: torch.Tensor) -> float:
    """Fresh data, so that nothing left from the capture can pass for an answer."""
    return max(apart(answer, model(x)) for answer, model in zip(fast(x), models))


def sizes(dtype: torch.dtype) -> None:
    """Batches that were not captured: filled up and split."""
    models = [network("resnet18", seed, dtype) for seed in range(2)]
    with gpulane.concurrent(models, pictures(1, dtype), batches=[1, 8, 16]) as fast:
        worst = {count: compare(fast, models, pictures(count, dtype)) for count in (1, 3, 8, 11, 16, 17, 40)}
    check("batches filled up and split, within 5e-2", max(worst.values()) <= 5e-2, worst)


def tickets(dtype: torch.dtype) -> Dict[str, float]:
    """Many under way; each must have the answer to its own input."""
    models = [network("resnet18", seed, dtype) for seed in range(4)]
    inputs = [pictures(8, dtype) for _ in range(8)]
    expected = [[model(x) for model in models] for x in inputs]
    found: Dict[str, float] = {}
    for depth in (1, 2, 4):
        with gpulane.concurrent(models, inputs[0], depth=depth) as fast:
            under_way = [(number % 8, fast.submit(inputs[number % 8] * 1.0)) for number in range(200)]
            worst = max(
                apart(answer, right)
                for number, ticket in under_way
                for answer, right in zip(ticket.result(), expected[number])
            )
            check(f"200 tickets, depth {depth}: every one its own answer", worst <= 2e-2, f"{worst:.1e}")
            del under_way
            found[f"depth {depth}"] = statistics.median(
                seconds(lambda: fast.submit(inputs[0]), 200, False) for _ in range(ROUNDS)
            )
            if depth == 2:
                worst = max(asyncio.run(awaited(fast, inputs, expected)))
                check("64 awaited together: every one its own answer", worst <= 2e-2, f"{worst:.1e}")
    return {name: round(value * 1e3, 4) for name, value in found.items()}


async def awaited(fast: Any, inputs: List[Any], expected: List[Any]) -> List[float]:
    async def one(number: int) -> float:
        answers = await fast.submit(inputs[number % 8])
        return max(apart(answer, right) for answer, right in zip(answers, expected[number % 8]))

    return await asyncio.gather(*(one(number) for number in range(64)))


def tests() -> None:
    """Those that need a GPU, in a process of their own."""
    command = [sys.executable, "-B", "-m", "unittest", "-v", "tests.test_concurrent_gpu"]
    ended = subprocess.run(command, cwd=ROOT / "python", capture_output=True, text=True)
    skipped = "skipped" in ended.stderr
    check("tests/test_concurrent_gpu.py", ended.returncode == 0 and not skipped, "" if not skipped else "skipped")
    if ended.returncode:
        print(ended.stderr[-6000:], flush=True)


def table(found: List[Dict[str, Any]]) -> None:
    names = list(found[0]["ms"])
    print(f"\n{'ms per call of all four':42}" + "".join(f"{name:>26}" for name in names))
    for each in found:
        cells = (f"{each['ms'][name]:.3f} ({each['times'][name]:.2f}x)" for name in names)
        print(f"{each['name'] + ', ' + each['dtype']:42}" + "".join(f"{cell:>26}" for cell in cells))
    print(f"\n{'':42}{'in turn, waited for':>26}{'gpulane, waited for':>26}{'apart':>12}{'MiB':>8}{'made, s':>10}")
    for each in found:
        waited = [f"{each['ms_with_wait'][name]:.3f}" for name in ("in turn", "gpulane")]
        print(
            f"{each['name'] + ', ' + each['dtype']:42}{waited[0]:>26}{waited[1]:>26}"
            f"{each['apart']:>12.1e}{each['graphs_mib']:>8}{each['made_s']:>10}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, help="where all numbers go, as JSON")
    parser.add_argument("--no-tests", action="store_true", help="leave out the tests that need a GPU")
    parser.add_argument("--only", default="", help="only contests with this in their name")
    parser.add_argument("--tune", action="store_true", help="have cuDNN measure its algorithms")
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = options.tune
    begun = time.perf_counter()
    device = torch.cuda.get_device_name()
    print(f"     {device}, torch {torch.__version__}, torchvision {torchvision.__version__}", flush=True)
    found: Dict[str, Any] = {"device": device, "torch": torch.__version__, "tuned": options.tune, "contests": []}
    if not options.no_tests:
        tests()
    with torch.no_grad():
        for dtype in (torch.bfloat16, torch.float16):
            for contest in CONTESTS:
                if options.only in contest.name:
                    attempt(lambda contest=contest, dtype=dtype: found["contests"].append(run(contest, dtype)))
        if not options.only:
            attempt(lambda: sizes(torch.bfloat16))
            attempt(lambda: found.update(tickets_ms=tickets(torch.bfloat16)))
    if found["contests"]:
        table(found["contests"])
    if "tickets_ms" in found:
        print(f"\nms per submit, 4 x ResNet-18, batch 8: {found['tickets_ms']}")
    found["seconds"] = round(time.perf_counter() - begun, 1)
    found["failures"] = failures
    if options.file:
        options.file.write_text(json.dumps(found, indent=1))
    print(f"\n{found['seconds']} s")
    print(f"{len(failures)} failed")
    return len(failures)


def attempt(part: Callable[[], Optional[object]]) -> None:
    """One part that breaks does not take the others with it."""
    try:
        part()
    except Exception as error:
        check(f"{type(error).__name__}: {error}", False)


if __name__ == "__main__":
    sys.exit(main())
