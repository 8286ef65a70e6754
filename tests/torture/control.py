"""What stands between gpulane and the machine: the library of preload.c (clock, syncs) and fake GPUs."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("preload.c")


def build_preload(base: Path) -> Path | None:
    """The library, built; None where there is no C compiler."""
    library = base / "preload.so"
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    words = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE)]
    return library if subprocess.run(words, capture_output=True, check=False).returncode == 0 else None


def find_nvml(binary: Path) -> Path | None:
    """The fake driver library beside the binary, as cargo builds it."""
    places = [
        binary.parent,
        binary.parent / "deps",
        *(SOURCE.parents[2] / "target" / kind for kind in ("debug", "release")),
    ]
    return next((place / "libfake_nvml.so" for place in places if (place / "libfake_nvml.so").exists()), None)


@dataclass
class Control:
    """The control file of one round."""

    path: Path
    clock: int = 0
    sync_delay: int = 0
    sync_errno: int = 0

    def write(self) -> None:
        """Holds at once for everybody who has it mapped."""
        with open(self.path, "r+b" if self.path.exists() else "wb") as file:
            file.write(struct.pack("3q", self.clock, self.sync_delay, self.sync_errno))

    def variables(self, library: Path) -> dict[str, str]:
        """What makes a process follow it."""
        self.write()
        return {"LD_PRELOAD": str(library), "TORTURE_CONTROL": str(self.path)}


class FakeGpus:
    """Fake GPUs and the script they follow."""

    def __init__(self, folder: Path, library: Path, count: int) -> None:
        self.folder = folder
        (folder / "claims").mkdir(parents=True)
        shutil.copy(library, folder / "libnvidia-ml.so.1")
        gpus = [{"uuid": f"GPU-fa4e0000-0000-4000-8000-{index:012}", "total": "24GiB"} for index in range(count)]
        self.script: dict[str, Any] = {"gpus": gpus, "claims": str(folder / "claims")}
        self.write()

    def write(self) -> None:
        """Replaces the script at once: nobody ever reads half of it."""
        aside = self.folder / "script.tmp"
        aside.write_text(json.dumps(self.script))
        os.replace(aside, self.folder / "script.json")

    def set(self, **changes: object) -> None:
        """Changes the script."""
        self.script.update(changes)
        self.write()

    def set_gpu(self, index: int, **changes: object) -> None:
        """Changes what is said of one GPU."""
        self.script["gpus"][index % len(self.script["gpus"])].update(changes)
        self.write()

    def variables(self) -> dict[str, str]:
        """What makes a process see these GPUs, and lets jobs claim memory on them."""
        return {
            "LD_LIBRARY_PATH": str(self.folder),
            "FAKE_NVML": str(self.folder / "script.json"),
            "FAKE_VRAM": str(self.folder / "claims"),
        }
