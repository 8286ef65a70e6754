"""What a cleanup brought back, and how it is said."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Optional, Tuple

__all__ = ["Freed", "Library", "in_words"]


@dataclass
class Library:
    """What one library held and gave back, by its own counters, in bytes."""

    name: str
    """As a person writes it."""
    freed: int = 0
    """GPU memory given back to the GPU."""
    held: int = 0
    """GPU memory it still has: live arrays, and what they keep from being given back."""
    pinned: int = 0
    """Pinned memory of the host given back, where the library counts it."""
    failures: List[str] = field(default_factory=list)
    """Steps that raised, and what."""


@dataclass(frozen=True)
class Freed:
    """What `gpulane.cleanup()` brought back. `str()` of it is one line for a person."""

    libraries: Tuple[Library, ...] = ()
    """What torch, CuPy and JAX gave back, those that use the GPU."""
    measured: Optional[int] = None
    """GPU memory this process gave back as the driver sees it; None where the driver cannot tell."""
    context: Optional[int] = None
    """GPU memory the process has beyond what its libraries hold: the CUDA context, which ends with the process.
    None where the driver cannot tell."""
    device: Optional[int] = None
    """GPU memory of all processes together on this process's GPUs, where the driver tells no more than that."""
    failures: Tuple[str, ...] = ()
    """What went wrong on the way, as warned of."""

    @property
    def freed(self) -> int:
        """Bytes of GPU memory that came back."""
        counted = sum(library.freed for library in self.libraries)
        return counted if self.measured is None else max(counted, self.measured)

    @property
    def held(self) -> int:
        """Bytes of GPU memory that the libraries still hold."""
        return sum(library.held for library in self.libraries)

    @property
    def pinned(self) -> int:
        """Bytes of pinned host memory that came back, as far as the libraries count them."""
        return sum(library.pinned for library in self.libraries)

    @property
    def by_library(self) -> Dict[str, int]:
        """Bytes of GPU memory that came back, by library."""
        return {library.name: library.freed for library in self.libraries}

    def __str__(self) -> str:
        if not self.libraries:
            return "no GPU memory to free (neither torch, CuPy nor JAX uses a GPU here)"
        shares = [f"{each.name} {each.freed / 1e9:.1f}" for each in self.libraries if each.freed >= 50_000_000]
        said = [f"GPU memory freed: {in_words(self.freed)}" + (f" ({', '.join(shares)})" if shares else "")]
        if self.pinned:
            said.append(f"pinned host memory freed: {in_words(self.pinned)}")
        still = [f"{each.name} {in_words(each.held)}" for each in self.libraries if each.held]
        if still:
            said.append(f"still in use: {', '.join(still)}")
        if self.context:
            said.append(f"{in_words(self.context)} held by the CUDA context until the process ends")
        elif self.device is not None:
            said.append(f"{in_words(self.device)} of the GPU in use by all processes together")
        return ", ".join(said)


def in_words(size: int) -> str:
    """Bytes as people read them."""
    return f"{size / 1e9:.2f} GB" if size >= 10_000_000 else f"{size / 1e6:.1f} MB"
