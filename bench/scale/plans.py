"""Writes plans of any size, in the two shapes people make large ones in."""

from __future__ import annotations

from pathlib import Path

HEAD = """name = "scale"

[[stage]]
name = "work"
command = ["/bin/true"]
"""


def write(path: Path, jobs: int, shape: str) -> Path:
    """A plan of exactly `jobs` jobs. `list`: one long list of values; `grid`: a product of three short ones."""
    if shape == "list":
        axes = {"i": range(jobs)}
    elif shape == "grid":
        axes = dict(zip("abc", map(range, _sides(jobs))))
    else:
        raise ValueError(f"no shape {shape!r}")
    matrix = "".join(f"{key} = [{', '.join(map(str, values))}]\n" for key, values in axes.items())
    path.write_text(f"{HEAD}[stage.matrix]\n{matrix}")
    return path


def _sides(jobs: int) -> tuple[int, int, int]:
    """Three factors of `jobs`, as near to its cube root as they come."""
    first = max(side for side in range(1, round(jobs ** (1 / 3)) + 2) if jobs % side == 0)
    rest = jobs // first
    second = max(side for side in range(1, int(rest**0.5) + 1) if rest % side == 0)
    return first, second, rest // second
