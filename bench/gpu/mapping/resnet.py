"""The model of the race: ResNet-50 in bf16 with weights of chance (nothing is fetched), eager and compiled."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch
import torchvision

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python"))
import gpulane  # noqa: E402

BATCH = 256


def network(compiled: bool) -> torch.nn.Module:
    """Takes uint8 N×3×H×W."""
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    inner = (
        torchvision.models.resnet50(weights=None).cuda().eval().to(torch.bfloat16, memory_format=torch.channels_last)
    )
    net = Normalised(inner)
    return torch.compile(net) if compiled else net


class Normalised(torch.nn.Module):
    """Brings pixels to what the network was made for."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.register_buffer("mean", torch.tensor([123.7, 116.3, 103.5], device="cuda").view(1, 3, 1, 1).bfloat16())
        self.register_buffer("scale", torch.tensor([58.4, 57.1, 57.4], device="cuda").view(1, 3, 1, 1).bfloat16())

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.inner((pixels.bfloat16() - self.mean) / self.scale).argmax(1)


class Eager(gpulane.Model):
    """Notes when it was set up and when each call began, so that rates are seen from the inside."""

    decode = "rgb:224x224"
    batch = BATCH
    compiled = False

    def setup(self) -> None:
        self.net = network(self.compiled)
        blank = torch.zeros(BATCH, 224, 224, 3, dtype=torch.uint8, device="cuda").permute(0, 3, 1, 2)
        with torch.inference_mode():
            for _ in range(3):
                self.net(blank)
        torch.cuda.synchronize()
        path = os.environ.get("BENCH_STAMPS")
        self.stamps = open(path, "a", encoding="utf-8") if path else None
        self.stamp("setup", 0)

    def stamp(self, what: str, count: int) -> None:
        if self.stamps:
            self.stamps.write(f"{what} {time.time()} {count}\n")
            self.stamps.flush()

    @torch.inference_mode()
    def predict_batch(self, batch: torch.Tensor) -> dict:
        self.stamp("call", len(batch))
        if len(batch) < BATCH:  # The last one: filled up, since a compiled model would be compiled anew.
            whole = torch.zeros(BATCH, 224, 224, 3, dtype=torch.uint8, device="cuda").permute(0, 3, 1, 2)
            whole[: len(batch)] = batch
            return {"top": self.net(whole)[: len(batch)], "mean": batch.float().mean((1, 2, 3))}
        return {"top": self.net(batch), "mean": batch.float().mean((1, 2, 3))}


class Compiled(Eager):
    """The same by torch.compile."""

    compiled = True
