"""What people load images with today: `peers.py NAME FOLDER ITEMS PROCESSES`. Prints images and CPU-seconds as JSON.

CPU-seconds are user + system of this process and its children, from the start; who wants the cost of an image takes the difference of two runs.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

SIDE = 224
BATCH = 64


def cpu_of_tree() -> float:
    """User + system seconds of this process and everything below it, the dead included, as /proc has it."""
    tick = os.sysconf("SC_CLK_TCK")
    parents: dict[int, tuple[int, float]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            fields = Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        # utime, stime, and those of reaped children.
        parents[int(entry)] = (int(fields[1]), sum(int(fields[at]) for at in (11, 12, 13, 14)) / tick)
    total, wanted = 0.0, {os.getpid()}
    grown = True
    while grown:
        grown = False
        for pid, (parent, _) in parents.items():
            if parent in wanted and pid not in wanted:
                wanted.add(pid)
                grown = True
    for pid in wanted:
        total += parents.get(pid, (0, 0.0))[1]
    return total


def say(images: int) -> None:
    """All the CPU-seconds this process and its children have had."""
    print(json.dumps({"images": images, "cpu_seconds": cpu_of_tree()}), flush=True)


def paths(folder: str, items: int) -> list[str]:
    files = sorted(str(path) for path in Path(folder).iterdir() if path.suffix)
    return [files[at % len(files)] for at in range(items)]


def load_opencv(path: str, antialiased: bool = False):
    import cv2

    cv2.setNumThreads(0)
    how = cv2.INTER_AREA if antialiased else cv2.INTER_LINEAR
    return cv2.resize(cv2.cvtColor(cv2.imread(path), cv2.COLOR_BGR2RGB), (SIDE, SIDE), interpolation=how)


def load_opencv_area(path: str):
    return load_opencv(path, True)


def load_pil(path: str):
    import numpy as np
    from PIL import Image

    return np.asarray(Image.open(path).convert("RGB").resize((SIDE, SIDE), Image.BILINEAR))


def load_pil_draft(path: str):
    """As `load_pil`, with a JPEG decoded at a smaller size where its inverse DCT can do that."""
    import numpy as np
    from PIL import Image

    image = Image.open(path)
    image.draft("RGB", (SIDE, SIDE))
    return np.asarray(image.convert("RGB").resize((SIDE, SIDE), Image.BILINEAR))


def load_torchvision(path: str):
    """GIFs come as frames; formats it does not know raise."""
    import torch
    from torchvision.io import ImageReadMode, decode_image, read_file
    from torchvision.transforms.v2.functional import resize

    torch.set_num_threads(1)
    image = decode_image(read_file(path), ImageReadMode.RGB)
    image = image[0] if image.ndim == 4 else image
    return resize(image, [SIDE, SIDE], antialias=True).permute(1, 2, 0).numpy()


def in_a_loop(load, files: list[str]) -> None:
    """One process, one image after the other into a batch: what the library takes, and nothing around it."""
    import numpy as np

    batch = np.empty((BATCH, SIDE, SIDE, 3), np.uint8)
    for at, path in enumerate(files):
        batch[at % BATCH] = load(path)
    say(len(files))


def dataloader(load, files: list[str], processes: int) -> None:
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Photos(Dataset):
        def __len__(self) -> int:
            return len(files)

        def __getitem__(self, at: int):
            return torch.from_numpy(load(files[at]))

    say(sum(len(batch) for batch in DataLoader(Photos(), batch_size=BATCH, num_workers=processes, prefetch_factor=4)))


def ray_data(files: list[str], processes: int, by_itself: bool) -> None:
    """By Ray's own reader of images, or by OpenCV in a map over paths."""
    import ray

    ray.init(num_cpus=processes, include_dashboard=False, log_to_driver=False, logging_level="error")
    ray.data.DataContext.get_current().enable_progress_bars = False

    def decode(row):
        return {"image": load_opencv(row["path"])}

    blocks = max(16, processes * 8)
    if by_itself:
        data = ray.data.read_images(files, size=(SIDE, SIDE), mode="RGB", override_num_blocks=blocks)
    else:
        data = ray.data.from_items([{"path": path} for path in files], override_num_blocks=blocks).map(decode)
    say(sum(len(batch["image"]) for batch in data.iter_batches(batch_size=BATCH)))


LOADS = {
    "opencv": load_opencv,
    "opencv-area": load_opencv_area,
    "pil": load_pil,
    "pil-draft": load_pil_draft,
    "torchvision": load_torchvision,
}


def main() -> None:
    name, folder, items, processes = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    files = paths(folder, items)
    around, _, load = name.partition("-")
    if around == "ray":
        ray_data(files, processes, load == "images")
    elif around == "dataloader" and load in LOADS:
        dataloader(LOADS[load], files, processes)
    elif around == "loop" and load in LOADS:
        in_a_loop(LOADS[load], files)
    else:
        sys.exit(f"no such peer: {name}")


if __name__ == "__main__":
    main()
