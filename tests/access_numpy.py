"""Runs tile programs with tile accesses on NumPy arrays; raw accesses as `tile_numpy` does."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.tile_numpy import _Instance
from twill.tile.affine import Polynomial
from twill.tile.program import Access, Op, TileProgram, TileType


def run(program: TileProgram, grid: Sequence[int], tensors: dict[str, np.ndarray], values: Mapping[str, Any]) -> None:
    """Every program instance of the grid, one after the other; stores go to `tensors`."""
    for index in itertools.product(*map(range, grid)):
        TileInstance(program, index, grid, tensors).run(values)


@dataclass(frozen=True)
class MadeDescriptor:
    """A descriptor made in the kernel: its access as a whole tensor."""

    tensor: str
    origin: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class TileInstance(_Instance):
    """One program instance."""

    def evaluate(self, op: Op, operands: list[Any], kind: TileType, attributes: dict[str, Any]) -> Any:
        if op.kind == "shl":
            return np.left_shift(*operands)
        if op.kind == "make_descriptor":
            numbers = [int(number) for number in operands[1:]]
            rank = len(numbers) // 2
            origin = int(operands[0].offsets)
            return MadeDescriptor(operands[0].tensor, origin, tuple(numbers[:rank]), tuple(numbers[rank:]))
        if op.kind.startswith("descriptor_") and isinstance(operands[0], MadeDescriptor):
            return self.block_of_made(op, operands, kind)
        if op.access is None:
            return super().evaluate(op, operands, kind, attributes)
        address, inside = self.elements(op.access)
        first = int(op.kind != "tile_load")
        for number, index in enumerate(op.access.indices):  # operands behind the tile that is stored
            view = [axis.extent if place in index.axes else 1 for place, axis in enumerate(op.access.axes)]
            address = address + operands[first + number].reshape(view) * self.number(index.scale)
        operands = [*operands[:first], *operands[first + len(op.access.indices) :]]
        tensor = self.tensors[op.access.base]
        if op.kind == "tile_load":
            inside = inside & operands[0] if operands else inside
            return np.where(inside, tensor[np.where(inside, address, 0)], np.float32(op.access.pad))
        inside = inside & operands[1] if len(operands) > 1 else inside
        assert operands[0].shape == address.shape
        if op.kind == "tile_store":
            tensor[address[inside]] = operands[0][inside]
        else:
            assert op.kind == "tile_reduce" and attributes["combine"] == "add"
            np.add.at(tensor, address[inside], operands[0][inside])
        return None

    def block_of_made(self, op: Op, operands: list[Any], kind: TileType) -> Any:
        """Loads, stores or adds a block of a descriptor, whose tile may lack leading axes of extent 1."""
        desc, first = operands[0], 1 if op.kind == "descriptor_load" else 2
        block = self.program.type_of(op.operands[0]).shape
        index = np.meshgrid(
            *(np.arange(e) + int(o) for e, o in zip(block, operands[first:], strict=True)), indexing="ij"
        )
        inside = np.logical_and.reduce([(i >= 0) & (i < size) for i, size in zip(index, desc.shape, strict=True)])
        address = desc.origin + sum(i * stride for i, stride in zip(index, desc.strides, strict=True))
        tensor = self.tensors[desc.tensor]
        if op.kind == "descriptor_load":
            return np.where(inside, tensor[np.where(inside, address, 0)], 0).astype(np.float32).reshape(kind.shape)
        value = operands[1].reshape(block)
        if op.kind == "descriptor_store":
            tensor[address[inside]] = value[inside]
        else:
            np.add.at(tensor, address[inside], value[inside])
        return None

    def elements(self, access: Access) -> tuple[np.ndarray, np.ndarray]:
        """The address of each element, and whether it is within the bounds."""
        shape = tuple(axis.extent for axis in access.axes)
        address, inside = np.full(shape, self.number(access.constant)), np.full(shape, True)
        for number, axis in enumerate(access.axes):
            index = self.number(axis.offset) + np.arange(axis.extent)
            within = np.full(axis.extent, True)
            if axis.lower is not None:
                within &= index >= self.number(axis.lower)
            if axis.upper is not None:
                within &= index < self.number(axis.upper)
            view = [1] * len(shape)
            view[number] = axis.extent
            address = address + (index * self.number(axis.stride)).reshape(view)
            inside = inside & within.reshape(view)
        return address, inside

    def number(self, polynomial: Polynomial) -> int:
        """The value of a polynomial here and now."""
        return polynomial.evaluate({symbol: int(self.values[symbol]) for symbol in polynomial.symbols()})
