"""What goes into a model: one tensor, a tuple of them or a dict of them, and which of it is the batch."""

from __future__ import annotations

from typing import Any, Callable, List, NamedTuple, Optional, Tuple

__all__ = ["Form"]


class Leaf(NamedTuple):
    """One tensor of an example."""

    name: str
    """As a person would say it in an error."""
    rest: Tuple[int, ...]
    """Its sides, without the batch if it has one."""
    dtype: Any
    batched: bool
    """Whether its first side is the batch; otherwise it belongs to all items and must keep its shape."""


class Form:
    """The shape of a model's input, taken from its example. Inputs must have it; only the batch may differ.

    The batch is the first side of the first tensor. Other tensors with the same first side share it; the rest (a
    temperature, a table) go along whole. What has no shape at all, such as a number, is passed on unlooked at.
    """

    def __init__(self, example: Any, whose: str) -> None:
        self._whose = whose
        self._keys: Optional[Tuple[Any, ...]] = tuple(example) if isinstance(example, dict) else None
        self._count: Optional[int] = len(example) if isinstance(example, tuple) else None
        leaves = self.leaves(example)
        names = self._names(len(leaves))
        self.shaped = bool(leaves) and all(_is_shaped(leaf) for leaf in leaves)
        """Whether it is made of tensors only, so that batches can be told."""
        self.rows = 0
        """The example's batch."""
        self._leaves: List[Leaf] = []
        if not self.shaped:
            return
        first = tuple(leaves[0].shape)
        if not first:
            raise ValueError(f"{names[0]} of {whose} has no sides: the first side of an example is its batch")
        self.rows = first[0]
        for name, leaf in zip(names, leaves):
            shape = tuple(leaf.shape)
            batched = bool(shape) and shape[0] == self.rows
            self._leaves.append(Leaf(name, shape[1:] if batched else shape, leaf.dtype, batched))
        if self.rows < 1:
            raise ValueError(f"the example of {whose} is empty: give at least one item")

    def _names(self, count: int) -> List[str]:
        if self._keys is not None:
            return [f"`{key}`" for key in self._keys]
        return ["the input"] if self._count is None else [f"tensor {number}" for number in range(count)]

    def leaves(self, given: Any) -> List[Any]:
        """The tensors of an input, in the example's order."""
        if self._keys is not None:
            if not isinstance(given, dict) or set(given) != set(self._keys):
                seen = f"the keys {sorted(map(str, given))}" if isinstance(given, dict) else f"a {type(given).__name__}"
                raise ValueError(
                    f"{self._whose} takes a dict with {sorted(map(str, self._keys))} as in its example, not {seen}"
                )
            return [given[key] for key in self._keys]
        if self._count is not None:
            if not isinstance(given, tuple) or len(given) != self._count:
                seen = f"{len(given)} of them" if isinstance(given, tuple) else f"a {type(given).__name__}"
                raise ValueError(f"{self._whose} takes a tuple of {self._count} as in its example, not {seen}")
            return list(given)
        if isinstance(given, (tuple, dict)):
            raise ValueError(f"{self._whose} takes one tensor as in its example, not a {type(given).__name__}")
        return [given]

    def call(self, model: Callable[..., Any], leaves: List[Any]) -> Any:
        """The model's own answer: a tuple is its arguments, a dict its keyword arguments."""
        if self._keys is not None:
            return model(**dict(zip(self._keys, leaves)))
        return model(*leaves)

    def batch_of(self, leaves: List[Any]) -> int:
        """How many items an input holds; says what is wrong if it does not look like the example."""
        if not self.shaped:
            return 0
        rows = -1
        for leaf, expected in zip(leaves, self._leaves):
            if not _is_shaped(leaf):
                raise ValueError(f"{expected.name} of {self._whose} must be a tensor, not a {type(leaf).__name__}")
            shape = tuple(leaf.shape)
            if leaf.dtype != expected.dtype:
                seen = f"{expected.name} of {self._whose} is {leaf.dtype}, its example {expected.dtype}"
                way = f"`.to({expected.dtype})`" if hasattr(leaf, "to") else "`torch.as_tensor`"
                raise ValueError(f"{seen}: convert it with {way}")
            if not expected.batched:
                if shape != expected.rest:
                    raise ValueError(self._other_shape(expected, shape))
                continue
            if not shape or shape[1:] != expected.rest:
                raise ValueError(self._other_shape(expected, shape))
            if rows not in (-1, shape[0]):
                raise ValueError(
                    f"{expected.name} of {self._whose} holds {shape[0]} items, what stands before it {rows}"
                )
            rows = shape[0]
        return rows

    def _other_shape(self, expected: Leaf, shape: Tuple[int, ...]) -> str:
        wanted = ", ".join((["batch"] if expected.batched else []) + [str(side) for side in expected.rest])
        hint = "only the batch may differ; resize or pad it, or make another `concurrent` for this shape"
        return f"{expected.name} of {self._whose} has shape {shape}, its example ({wanted}): {hint}"

    def batched(self, number: int) -> bool:
        """Whether the first side of that tensor is the batch."""
        return self._leaves[number].batched

    def part(self, leaves: List[Any], first: int, count: int) -> List[Any]:
        """So many items of an input, beginning with `first`."""
        return [
            leaf[first : first + count] if expected.batched else leaf for leaf, expected in zip(leaves, self._leaves)
        ]


def _is_shaped(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")
