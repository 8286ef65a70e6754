"""Whether two answers are the same, and inputs that tell a right graph from one that only looks right."""

from __future__ import annotations

import math
from typing import Any, List, Optional

__all__ = ["difference", "says", "varied"]

TOLERANCE = {2: 2e-2, 4: 1e-4, 8: 1e-8}
"""By the bytes of a number: how far answers may be apart, as a part of the largest one. The kernels are the same, so
that they are usually equal; some add up in an order that changes."""

LOOSE = {2: 5e-2, 4: 1e-2, 8: 1e-6}
"""For a batch of another size, where libraries choose other algorithms (and TF32). Items that see each other differ by
more."""


def difference(torch: Any, got: Any, expected: Any) -> float:
    """How far two tensors are apart at most, as a part of the largest number expected. Infinite: not comparable."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return math.inf
    if torch.equal(got, expected):
        return 0.0
    if got.is_complex():
        got, expected = torch.view_as_real(got), torch.view_as_real(expected)
    if not got.is_floating_point() or not torch.equal(got.isnan(), expected.isnan()):
        return math.inf
    # Infinite numbers become the largest: equal where both are, far apart where one is.
    got, expected = got.double().nan_to_num(), expected.double().nan_to_num()
    apart = float((got - expected).abs().max().item())
    scale = float(expected.abs().max().item())
    return apart / scale if scale > 0 else (math.inf if apart > 0 else 0.0)


def says(
    torch: Any, got: List[Any], expected: List[Any], tolerance: Optional[float], loose: bool = False
) -> Optional[str]:
    """What is wrong with an answer, or nothing."""
    if len(got) != len(expected):
        return f"{len(got)} tensors instead of {len(expected)}"
    for one, other in zip(got, expected):
        allowed = tolerance
        if allowed is None:
            known = LOOSE if loose else TOLERANCE
            allowed = known.get(other.element_size() // (2 if other.is_complex() else 1), known[2])
        apart = difference(torch, one, other)
        if not apart <= allowed:
            seen = "altogether" if math.isinf(apart) else f"by {apart:.1e} of the largest number"
            return f"{seen} ({allowed:.0e} is allowed)"
    return None


def varied(torch: Any, leaf: Any, batched: bool) -> Any:
    """Other data of the same kind: turned round, and numbers moved, each item by another amount."""
    turned = leaf.flip(tuple(range(len(leaf.shape)))) if len(leaf.shape) else leaf.clone()
    if not leaf.is_floating_point():
        return turned
    turned = turned * 0.75 + 0.125
    if not batched:
        return turned
    rows = leaf.shape[0]
    steps = torch.arange(rows, dtype=leaf.dtype, device=leaf.device) * (0.25 / rows)
    return turned + steps.reshape((rows,) + (1,) * (len(leaf.shape) - 1))
