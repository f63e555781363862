"""Tensors that a launch must find in different memory, because the code loads one ahead of a store to the other.

A tensor's elements lie between its first and its last byte; two that lie in alternating columns of the same rows
(slices of one matrix) share none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twill import exc
from twill.runtime.tensor import ELEMENT_BYTES, TensorView, is_torch


@dataclass(frozen=True)
class OverlapPair:
    """Two values of a call, by position, and the bytes from the first of a tensor to behind its last."""

    positions: tuple[int, int]
    bytes: tuple[int, int]

    def apart(self, values: Sequence[Any]) -> bool:
        """Whether PyTorch tensors of the same shapes lie apart elsewhere, too; False also if that is not known."""
        bases = [_base(values[position]) for position in self.positions]
        if not all(map(is_torch, bases)):
            return False
        first, second = (base.data_ptr() for base in bases)
        return bool(first + self.bytes[0] <= second or second + self.bytes[1] <= first)


def check_apart(pairs: Sequence[tuple[str, str]], tensors: Mapping[str, TensorView]) -> None:
    """Errors: OverlappingTensors."""
    for written, loaded in pairs:
        if meet(tensors[written], tensors[loaded]):
            raise exc.OverlappingTensors(written, loaded)


def pairs_of(
    pairs: Sequence[tuple[str, str]], names: Sequence[str], tensors: Mapping[str, TensorView]
) -> tuple[OverlapPair, ...]:
    """The same pairs for launches that differ in addresses alone. names: of the values, in order."""
    return tuple(OverlapPair((names.index(a), names.index(b)), (span(tensors[a]), span(tensors[b]))) for a, b in pairs)


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
