"""What operations on whole tiles give that are neither elementwise nor reductions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from twill.tile.interpret.arithmetic import HELD, Array, rounded
from twill.tile.interpret.arrays import np
from twill.tile.program import TileType


@dataclass(frozen=True)
class Pointer:
    """A tile of addresses in one tensor."""

    tensor: str
    offsets: Array


@dataclass(frozen=True)
class Descriptor:
    """A tensor of known shape and strides, seen block by block. origin: of its first element; pad: what is outside."""

    tensor: str
    origin: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    pad: float = 0.0


@lru_cache(maxsize=64)
def constant(kind: TileType, spelled: str, value: float) -> Array:
    """A tile of one value. spelled: the value, of which 0 and -0 or 1 and True are not the same."""
    tile = rounded(np.full(kind.shape, value), kind.element)
    tile.flags.writeable = False
    return tile


def cut_off(tile: Array) -> Array:
    """Numbers of f32 as tf32, cut off."""
    return (np.asarray(tile, np.float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def dot(operands: Sequence[Array], element: str) -> Array:
    """a·b [+ c]: integers exactly, wrapping round, floats in the type of the sums (f16: in f32, rounded once)."""
    left, right, *more = operands
    floats = left.dtype.kind == "f"
    wide = HELD[element] if floats else np.float64  # exact up to 2^53
    product = np.matmul(left.astype(wide), right.astype(wide)).astype(wide if floats else np.int64, copy=False)
    return rounded(product + more[0] if more else product, element)


def view(kind: str, operand: Any, result: TileType, attributes: Mapping[str, Any]) -> Any:
    """The same elements in another shape, of numbers or of addresses."""
    if isinstance(operand, Pointer):
        return Pointer(operand.tensor, view(kind, operand.offsets, result, attributes))
    if kind == "transpose":
        return np.transpose(operand, attributes["order"])
    if kind in ("splat", "broadcast"):
        return operand if np.shape(operand) == result.shape else np.broadcast_to(operand, result.shape)
    return np.reshape(operand, result.shape)
