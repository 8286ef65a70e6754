"""What people use today, each at its best: a rate in images per second, files to results, after warming up."""

from __future__ import annotations

import io
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, Iterator, List

import numpy as np
import torch
from PIL import Image

from .resnet import BATCH, network

SECONDS = float(os.environ.get("BENCH_SECONDS", "8"))
"""Each is measured for about so long."""


def by_pil(path: str) -> torch.Tensor:
    with open(path, "rb") as file:
        image = Image.open(io.BytesIO(file.read())).convert("RGB").resize((224, 224), Image.BILINEAR)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def by_torchvision(path: str) -> torch.Tensor:
    import torchvision
    import torchvision.transforms.v2

    image = torchvision.io.decode_jpeg(torchvision.io.read_file(path), torchvision.io.ImageReadMode.RGB)
    return torchvision.transforms.v2.functional.resize(image, [224, 224], antialias=True)


def by_opencv(path: str) -> torch.Tensor:
    import cv2

    cv2.setNumThreads(0)
    image = cv2.resize(cv2.imread(path), (224, 224), interpolation=cv2.INTER_LINEAR)
    return torch.from_numpy(cv2.cvtColor(image, cv2.COLOR_BGR2RGB)).permute(2, 0, 1)


class Files(torch.utils.data.Dataset):
    """Paths, read by one of the above; goes round for ever."""

    def __init__(self, paths: List[str], read: Callable[[str], torch.Tensor]) -> None:
        self.paths, self.read = paths, read

    def __len__(self) -> int:
        return 1 << 30

    def __getitem__(self, at: int) -> torch.Tensor:
        return self.read(self.paths[at % len(self.paths)])


def measured(batches: Iterator[torch.Tensor], work: Callable[[torch.Tensor], Any], warm: int, seconds: float) -> float:
    """Images per second once `warm` batches are through."""
    count, begun = 0, 0.0
    for number, batch in enumerate(batches):
        work(batch)
        if number + 1 == warm:
            torch.cuda.synchronize()
            begun = time.monotonic()
        elif number >= warm:
            count += len(batch)
            if time.monotonic() - begun > seconds:
                break
    torch.cuda.synchronize()
    return count / (time.monotonic() - begun)


def data_loader(
    paths: List[str], read: Callable[[str], torch.Tensor], workers: int, net: Any, batch_size: int = BATCH, ahead: int = 4
) -> float:
    """Smaller batches, fewer ahead, where an image takes long: what is loaded while the workers start is waited for first."""
    loader = torch.utils.data.DataLoader(
        Files(paths, read),
        batch_size=batch_size,
        num_workers=workers,
        pin_memory=True,
        prefetch_factor=ahead,
        in_order=False,
    )

    @torch.inference_mode()
    def work(batch: torch.Tensor) -> None:
        net(batch.cuda(non_blocking=True).contiguous(memory_format=torch.channels_last)).cpu()

    batches = iter(loader)
    try:
        # More than was loaded ahead while the workers started.
        return measured(batches, work, ahead * workers + 8, SECONDS)
    finally:
        batches._shutdown_workers()  # type: ignore[attr-defined]


def thread_pool(paths: List[str], net: Any) -> float:
    pool = ThreadPoolExecutor(16)

    def batches() -> Iterator[torch.Tensor]:
        for start in range(0, 1 << 30, BATCH):
            chosen = [paths[(start + at) % len(paths)] for at in range(BATCH)]
            yield torch.stack(list(pool.map(by_pil, chosen)))

    @torch.inference_mode()
    def work(batch: torch.Tensor) -> None:
        net(batch.cuda().contiguous(memory_format=torch.channels_last)).cpu()

    return measured(batches(), work, 2, SECONDS)


def one_by_one(paths: List[str], net: Any) -> float:
    @torch.inference_mode()
    def work(batch: torch.Tensor) -> None:
        net(batch.cuda()).cpu()

    return measured((by_pil(path)[None] for path in paths), work, 50, SECONDS / 2)


def model_alone(net: Any) -> float:
    resident = torch.randint(0, 256, (BATCH, 224, 224, 3), dtype=torch.uint8, device="cuda").permute(0, 3, 1, 2)

    def batches() -> Iterator[torch.Tensor]:
        while True:
            yield resident

    count = [0]

    @torch.inference_mode()
    def work(batch: torch.Tensor) -> None:
        net(batch)
        count[0] += 1
        if count[0] % 8 == 0:
            torch.cuda.synchronize()

    return measured(batches(), work, 20, SECONDS / 2)


def run(paths: List[str]) -> Dict[str, float]:
    """All of them; one that cannot be run is not in the answer."""
    found: Dict[str, float] = {}

    def note(name: str, measure: Callable[[], float]) -> None:
        try:
            found[name] = measure()
            print(f"     {name:40} {found[name]:8.0f} images/s", flush=True)
        except Exception as error:  # Whatever is missing or breaks is shown as such.
            print(f"     {name:40} {type(error).__name__}: {error}", flush=True)

    net = network(False)
    note("model alone, eager", lambda: model_alone(net))
    note("one by one", lambda: one_by_one(paths, net))
    note("thread pool, then infer", lambda: thread_pool(paths, net))
    for name, read in (("PIL", by_pil), ("torchvision", by_torchvision), ("OpenCV", by_opencv)):
        for workers in (12, 15, 16) if name == "OpenCV" else (15, 16):
            note(f"DataLoader, {name}, {workers} workers", lambda: data_loader(paths, read, workers, net))
    compiled = network(True)
    note("model alone, compiled", lambda: model_alone(compiled))
    del net, compiled
    torch.cuda.empty_cache()
    return found
