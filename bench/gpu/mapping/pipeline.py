"""The worker by itself: batches that lie ready in the ring, the model of the race, three batches ahead as the feeder sends
them. Shows what the worker can take when loading costs nothing."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Any, Dict, List

from gpulane._ring import ARRAY, JPEG, PLANES
from PIL import Image
from tests.fake_feeder import FakeFeeder

from .pictures import picture

HERE = Path(__file__).resolve().parent
SLOTS, BATCH = 6, 256
MODEL = f"""
import sys
sys.path.insert(0, {str(HERE)!r})
from resnet import Compiled, Eager
"""


def items() -> Dict[str, List[Any]]:
    """A batch by each road."""
    found: Dict[str, List[Any]] = {"pixels": [], "planes": [], "jpeg": []}
    for seed in range(BATCH):
        data = picture(seed)
        image = Image.open(io.BytesIO(data))
        small = image.convert("RGB").resize((224, 224), Image.BILINEAR)
        found["pixels"].append((ARRAY, 1, (224, 224, 3), small.tobytes()))
        luma, cb, cr = image.convert("YCbCr").split()
        half = (250, 188)
        planes = luma.resize((500, 376)).tobytes() + cb.resize(half).tobytes() + cr.resize(half).tobytes()
        found["planes"].append((PLANES, 1, (375, 500, 188, 250), planes, 1, 2))
        found["jpeg"].append((JPEG, 1, (375, 500, 0, 0), data, 1, 0))
    half_and_half = [found["jpeg" if at % 2 else "planes"][at] for at in range(BATCH)]
    return {**found, "planes and jpeg": half_and_half}


def pump(feeder: FakeFeeder, batches: List[Dict[str, Any]], count: int) -> Dict[str, Any]:
    """Sends `count` batches, three ahead; the rate after the first fifth."""
    sent = done = 0
    begun, spent = 0.0, {"wait": 0.0, "copy": 0.0, "model": 0.0, "fetch": 0.0}
    while done < count:
        while sent < count and sent - done < 3:
            feeder.send("batch", batch=sent, careful=False, **batches[sent % len(batches)])
            sent += 1
        assert feeder.connection is not None
        head = feeder.connection.receive().head
        if head["frame"] != "results":
            continue
        assert not head["failed"], head["failed"][:2]
        done += 1
        if done == count // 5:
            begun = time.monotonic()
        elif begun:
            for key in spent:
                spent[key] += head["seconds"][key]
    measured = count - count // 5
    rate = measured * BATCH / (time.monotonic() - begun)
    return {"images_per_s": round(rate), **{key: round(value / measured * 1e3, 2) for key, value in spent.items()}}


def run(models: tuple = ("Eager", "Compiled")) -> Dict[str, Any]:
    """Every road with every model."""
    roads, found = items(), {}  # type: ignore[var-annotated]
    largest = max(sum(-(-len(item[3]) // 64) * 64 for item in road) for road in roads.values())
    slot_bytes = -(-(largest + (1 << 20)) // 4096) * 4096
    for model in models:
        feeder = FakeFeeder(MODEL, target=model, slots=SLOTS, gpus="0", slot_bytes=slot_bytes)
        try:
            feeder.accept()
            assert feeder.socket is not None
            feeder.socket.settimeout(240)
            feeder.send("setup")
            frame = feeder.connection.receive().head  # type: ignore[union-attr]
            assert frame["frame"] == "ready", frame
            print(f"     {model}: set up in {frame['seconds']:.1f} s, accepts {frame['accepts']}", flush=True)
            feeder.socket.settimeout(20)
            feeder.give_ring("rgb:224x224")
            for road, batch in roads.items():
                fields = [feeder.fill(slot, batch, packed=road == "pixels") for slot in range(SLOTS)]
                found[f"{model}, {road}"] = pump(feeder, fields, 150)
                print(f"     worker alone, {model}, {road:16} {found[f'{model}, {road}']}", flush=True)
            feeder.bye()
        finally:
            print("".join(f"     | {line}\n" for line in feeder.said().splitlines()[-6:]), flush=True)
            feeder.close()
    return found
