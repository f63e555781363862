"""Elements of flat tensors that a tile is read from or written to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from twill.tile.interpret.arrays import np
from twill.tile.interpret.block_scales import unpacked
from twill.tile.interpret.conversions import HELD, Array, rounded, unsigned
from twill.tile.program import TileType
from twill.tile.vocabulary import UNPACKED

Elements = tuple[Array, Array]
"""Addresses of a tile's elements, and which of them may be touched."""


def spread(index: Array, axes: Sequence[int], shape: Sequence[int]) -> Array:
    """A tile of integers in 64 bits: its axis a along axis `axes[a]` of a tile of that shape, repeated along others."""
    index = np.asarray(index).astype(np.int64)
    index = np.transpose(index, np.argsort(np.asarray(axes, np.int64)))
    across = [1] * len(shape)
    for axis in axes:
        across[axis] = shape[axis]
    return np.broadcast_to(index.reshape(across), tuple(shape))


Axis = tuple[int, int, int, int | None, int | None]
KEPT, LARGEST = 128, 1 << 14  # windows that are kept, and elements of one of them at most


def window(constant: int, axes: Sequence[Axis]) -> Elements:
    """Addresses constant + Σ stride·(offset + i), and where lower <= offset + i < upper; neither can be written.

    axes: (extent, stride, offset, lower, upper) of each.
    """
    made = _kept_window if math.prod(axis[0] for axis in axes) <= LARGEST else _window
    return made(constant, tuple(axes))


def _window(constant: int, axes: tuple[Axis, ...]) -> Elements:
    shape = tuple(axis[0] for axis in axes)
    address: Array = np.int64(constant)
    inside: Array = np.True_
    for number, (extent, stride, offset, lower, upper) in enumerate(axes):
        index = offset + np.arange(extent, dtype=np.int64)
        across = [1] * len(shape)
        across[number] = extent
        address = address + (index * stride).reshape(across)
        if lower is not None and offset < lower:
            inside = inside & (index >= lower).reshape(across)
        if upper is not None and offset + extent > upper:
            inside = inside & (index < upper).reshape(across)
    return np.broadcast_to(address, shape), np.broadcast_to(inside, shape)


_kept_window = lru_cache(KEPT)(_window)
"""A launch is run several times, by several programs, which access the same tiles."""


def loaded(tile: Array, kind: TileType) -> Array:
    """A tile from memory in its type: truth values are read as bytes."""
    return np.asarray(tile).astype(HELD[kind.element], copy=False)


class OutsideOfTensor(IndexError):
    """An instance accesses elements that a tensor does not have: from `least` to `most`, of a tensor of `size`."""

    def __init__(self, least: int, most: int, tensor: Array) -> None:
        super().__init__(f"elements {least} to {most} of a tensor of {tensor.size}")
        self.least, self.most, self.size, self.tensor = least, most, int(tensor.size), tensor

    def is_of(self, tensor: Array) -> bool:
        """Whether it is that tensor, or it as elements of another type; of an empty one that can't be told."""
        return bool(np.shares_memory(self.tensor, tensor)) if tensor.size else not self.size


def check_inside(tensor: Array, address: Array) -> None:
    """Raises OutsideOfTensor if one of the addresses is none of a flat tensor's elements."""
    if not address.size:
        return
    least, most = int(address.min()), int(address.max())
    if least < 0 or most >= tensor.size:
        raise OutsideOfTensor(least, most, tensor)


def seen_as(tensor: Array, element: str) -> Array:
    """A flat tensor as elements of a type of the same width; of bytes, as the two e2m1 of each."""
    if element == UNPACKED:
        return unpacked(tensor, element).astype(HELD[element])
    held = np.dtype(HELD[element])
    return tensor.view(held) if {held.kind, tensor.dtype.kind} == {"f", "i"} else tensor


def gather(tensor: Array, elements: Elements, pad: float) -> Array:
    """The elements of a flat tensor; `pad` where they may not be touched. Errors: OutsideOfTensor."""
    address, inside = elements
    if np.shape(address) == np.shape(inside) and inside.all():
        check_inside(tensor, address)
        return np.asarray(tensor.take(address))
    touched = np.broadcast_to(address, np.shape(inside))[inside]
    check_inside(tensor, touched)
    tile = np.full(np.shape(inside), np.asarray(pad).astype(tensor.dtype))
    tile[inside] = tensor[touched]
    return tile


def scatter(tensor: Array, elements: Elements, value: Array, combine: str, element: str) -> None:
    """Writes (combine "") or combines a tile into a flat tensor. combine: as `combining` says.

    Errors: OutsideOfTensor.
    """
    address, inside = elements
    spread_out = np.broadcast_to(value, np.shape(inside))
    everywhere = np.shape(address) == np.shape(inside) and inside.all()
    address, chosen = (address.ravel(), spread_out.ravel()) if everywhere else (address[inside], spread_out[inside])
    check_inside(tensor, address)
    if combine in ("", "xchg"):
        tensor[address] = chosen
        return
    whole = {"add": np.add, "max": np.fmax, "min": np.fmin, "and": np.bitwise_and, "or": np.bitwise_or,
             "xor": np.bitwise_xor}[combine.removeprefix("u")]  # fmt: skip
    given = chosen.astype(tensor.dtype)
    if combine.startswith("u"):
        whole.at(unsigned(tensor), address, unsigned(given))
        return
    whole.at(tensor, address, given)
    tensor[address] = rounded(tensor[address], element)


def empty(element: str, size: int) -> Array:
    """A flat tensor of zeros of an element type."""
    return np.zeros(size, HELD[element])
