"""Places for run directories: a plain folder, a small tmpfs that can be filled, an ext4 image whose power can be cut.

Whatever is mounted is unmounted again, also after Ctrl-C; `forget_all` is the last resort.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

# _IOR('X', 125, __u32): the file system takes no write any more; 2: not even what its own log still has to write.
EXT4_IOC_SHUTDOWN = (2 << 30) | (4 << 16) | (ord("X") << 8) | 125
NO_LOG_FLUSH = 2

_mounted: set[Path] = set()


def _call(*words: str | Path) -> bool:
    done = subprocess.run([str(word) for word in words], capture_output=True, timeout=60, check=False)
    return done.returncode == 0


def available() -> dict[str, bool]:
    """Which kinds can be had here: mounting needs root."""
    root = os.geteuid() == 0
    return {"plain": True, "small": root, "image": root and Path("/dev/loop-control").exists()}


@dataclass
class Disk:
    """A place for one run directory."""

    kind: str
    at: Path
    options: str = ""
    image: Path = field(init=False)

    def __post_init__(self) -> None:
        self.image = self.at.with_suffix(".img")

    def make(self, size: int) -> bool:
        """Makes it; false: it cannot be had."""
        self.at.mkdir(mode=0o700)
        if self.kind == "plain":
            return True
        if self.kind == "small":
            return self._mount("-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs")
        with open(self.image, "wb") as file:
            file.truncate(max(size, 24 << 20))
        if not _call("mkfs.ext4", "-q", "-F", "-O", "^metadata_csum_seed", self.image):
            return False
        mounted = self._mount("-o", f"loop,{self.options}", self.image)
        if mounted:
            os.chmod(self.at, 0o700)
        return mounted

    def _mount(self, *words: str | Path) -> bool:
        mounted = _call("mount", *words, self.at)
        if mounted:
            _mounted.add(self.at)
        return mounted

    def cut(self) -> None:
        """The power fails: nothing more reaches the image."""
        handle = os.open(self.at, os.O_RDONLY)
        try:
            fcntl.ioctl(handle, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(handle)

    def power_on(self) -> bool:
        """Mounts what had reached the image, from a copy of it: only that has survived."""
        self._unmount()
        survived = self.image.with_suffix(".survived")
        with contextlib.suppress(FileNotFoundError):
            survived.unlink()
        if not _call("cp", "--sparse=always", self.image, survived):
            return False
        os.replace(survived, self.image)
        return self._mount("-o", f"loop,{self.options}", self.image)

    def fill(self) -> None:
        """Takes all the space there is."""
        with open(self.at / "ballast", "ab", buffering=0) as file, contextlib.suppress(OSError):
            # By steps: a write takes milliseconds where many rounds share an interpreter.
            for size in (1 << 20, 1 << 16, 1 << 12, 1 << 6, 1):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(b"\0" * size)

    def free(self) -> None:
        """Gives the space back."""
        with contextlib.suppress(OSError):
            (self.at / "ballast").unlink()

    def _unmount(self) -> None:
        if self.at not in _mounted:
            return
        deadline = time.monotonic() + 10
        while not _call("umount", self.at):
            if time.monotonic() > deadline:
                _call("umount", "-l", self.at)
                break
            time.sleep(0.1)
        _mounted.discard(self.at)

    def remove(self) -> None:
        """Unmounts it. The folder itself goes with the round's."""
        self._unmount()
        with contextlib.suppress(OSError):
            self.image.unlink()


def forget_all() -> None:
    """Unmounts whatever is still mounted."""
    for path in list(_mounted):
        _call("umount", "-l", path)
        _mounted.discard(path)
