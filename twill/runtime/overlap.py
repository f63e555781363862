"""Tensors that a launch must find in different memory, because the code loads one ahead of a store to the other.

A tensor's elements lie between its first and its last byte; two that lie in alternating columns of the same rows
(slices of one matrix) share none. Some pairs may be one tensor, from the first element on, where numbers say that the
kernel goes through both alike (`sy==sx`, `sy>=n`, `sy>=64`): then each element is stored by whom it was loaded,
afterwards (`twill.codegen.aliasing`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from twill import exc
from twill.runtime.tensor import ELEMENT_BYTES, TensorView, is_torch, torch_view


@dataclass(frozen=True)
class NumberCondition:
    """Of two numbers of a call, by position, or of one and `limit`: equal, or no less."""

    equal: bool
    left: int
    right: int
    limit: int = 0

    def positioned(self, positions: Sequence[int]) -> NumberCondition:
        """The same for values of which the first is at `positions[0]`, and so on."""
        return replace(self, left=positions[self.left], right=positions[self.right] if self.right >= 0 else -1)

    def holds(self, values: Sequence[Any]) -> bool:
        """Whether it is so."""
        left, right = values[self.left], values[self.right] if self.right >= 0 else self.limit
        return bool(left == right if self.equal else left >= right)


def read_condition(text: str, names: Sequence[str]) -> NumberCondition:
    """What `twill.codegen.aliasing` wrote. names: of the values, in order."""
    operator = "==" if "==" in text else ">="
    left, right = text.split(operator)
    if right.isdecimal():
        return NumberCondition(operator == "==", names.index(left), -1, int(right))
    return NumberCondition(operator == "==", names.index(left), names.index(right))


@dataclass(frozen=True)
class OverlapPair:
    """Two tensors of a call, by position. alike: what has to hold where they may be one tensor; () if they must not."""

    positions: tuple[int, int]
    alike: tuple[NumberCondition, ...] = ()

    def positioned(self, positions: Sequence[int]) -> OverlapPair:
        """The same for values of which the first is at `positions[0]`, and so on."""
        first, second = self.positions
        alike = tuple(one.positioned(positions) for one in self.alike)
        return replace(self, positions=(positions[first], positions[second]), alike=alike)

    def right(self, values: Sequence[Any]) -> bool | None:
        """Whether a launch may have these values; None if that is not known, of tensors that are not PyTorch's."""
        first, second = (_base(values[position]) for position in self.positions)
        if not (is_torch(first) and is_torch(second)):
            return None
        if first.data_ptr() == second.data_ptr() and self.alike:
            return all(one.holds(values) for one in self.alike)
        here, there = first.untyped_storage(), second.untyped_storage()
        begin, other = here.data_ptr(), there.data_ptr()
        if begin + here.nbytes() <= other or other + there.nbytes() <= begin:
            return True
        return not meet(torch_view(first), torch_view(second))


MOST_SEEN = 512  # that are remembered


class PairsOfLaunch:
    """The pairs of a prepared launch. What was found right once, tensors of the same addresses, sizes and strides, is
    not looked at again. reaches: by position, where values say at which address a tensor begins, and behind that how
    many bytes are left of its storage: tensors that lie apart so need no look."""

    def __init__(self, pairs: Sequence[OverlapPair], reaches: Mapping[int, int] | None = None) -> None:
        self.pairs = tuple(pairs)
        told = reaches or {}
        places = [tuple(told.get(position, -1) for position in pair.positions) for pair in pairs]
        self.quick = tuple(places) if all(min(both) >= 0 for both in places) else ()
        self.tensors = sorted({position for pair in pairs for position in pair.positions})
        conditions = [one for pair in pairs for one in pair.alike]
        self.numbers = sorted({place for one in conditions for place in (one.left, one.right) if place >= 0})
        self.seen: set[Any] = set()

    def right(self, values: Sequence[Any]) -> bool | None:
        """Whether a launch may have these values; None if that is not known, of tensors that are not PyTorch's."""
        for left, right in self.quick:
            first, second = values[left], values[right]
            if first + values[left + 1] > second and second + values[right + 1] > first:
                break
        else:
            if self.quick:
                return True
        return self.looked_at(values)

    def looked_at(self, values: Sequence[Any]) -> bool | None:
        """The same, element by element."""
        bases = [_base(values[position]) for position in self.tensors]
        try:
            key = (
                *[(base.data_ptr(), base.shape, base.stride()) for base in bases],
                *[values[position] for position in self.numbers],
            )
        except AttributeError:  # none of PyTorch's
            return None
        if key in self.seen:
            return True
        for pair in self.pairs:
            right = pair.right(values)
            if not right:
                return right
        if len(self.seen) >= MOST_SEEN:
            self.seen.clear()
        self.seen.add(key)
        return True


def overlapping(
    apart: Sequence[tuple[str, ...]], tensors: Mapping[str, TensorView], numbers: Mapping[str, Any]
) -> exc.OverlappingTensors | None:
    """What is wrong with tensors and numbers of a call, if anything is. apart: as of a manifest."""
    for written, loaded, *alike in apart:
        same = tensors[written].pointer == tensors[loaded].pointer and bool(alike)
        if same and all(read_condition(one, list(numbers)).holds(list(numbers.values())) for one in alike):
            continue
        if meet(tensors[written], tensors[loaded]):
            return exc.OverlappingTensors(written, loaded)
    return None


def pairs_of(apart: Sequence[tuple[str, ...]], names: Sequence[str]) -> tuple[OverlapPair, ...]:
    """The same pairs for later launches. names: of the values, in order."""
    return tuple(
        OverlapPair(
            (names.index(written), names.index(loaded)),
            tuple(read_condition(one, names) for one in alike),
        )
        for written, loaded, *alike in apart
    )


def span(tensor: TensorView) -> int:
    """Bytes from a tensor's first element to behind its last; 0 for one without elements."""
    if 0 in tensor.shape:
        return 0
    steps = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.strides, strict=True))
    return (1 + steps) * ELEMENT_BYTES[tensor.dtype]


def meet(left: TensorView, right: TensorView) -> bool:
    """Whether two tensors may share an element."""
    first, second = (left, right) if left.pointer <= right.pointer else (right, left)
    if not span(first) or not span(second) or first.pointer + span(first) <= second.pointer:
        return False
    rows, columns = _rows(first), _rows(second)
    if rows is None or columns is None or rows[0] != columns[0]:
        return True
    begin = (second.pointer - first.pointer) % rows[0]
    return begin < rows[1] or begin + columns[1] > rows[0]


def _rows(tensor: TensorView) -> tuple[int, int] | None:
    """Bytes from row to row along the axis of the largest stride, and of one row; None if rows overlap."""
    size = ELEMENT_BYTES[tensor.dtype]
    axes = sorted(((stride * size, extent) for extent, stride in zip(tensor.shape, tensor.strides, strict=True)))
    if not axes:
        return None
    step, width = axes[-1][0], size + sum((extent - 1) * stride for stride, extent in axes[:-1])
    return (step, width) if 0 < width <= step else None


def _base(value: Any) -> Any:
    return value.base if hasattr(value, "block_shape") else value
