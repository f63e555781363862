"""Runs a tile program with raw accesses on NumPy arrays: the meaning that the vocabulary has.

Tensors are flat float32 arrays (bf16 values are float32 values that bf16 can hold). A pointer is
(tensor name, offsets in elements), a descriptor (tensor name, shape, strides, block).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from twill.tile.program import Loop, Op, TileProgram, TileType

NUMPY = {
    "f32": np.float32, "f16": np.float32, "bf16": np.float32, "f8e4m3": np.float32, "i1": np.bool_, "i32": np.int32,
    "i64": np.int64,
}  # fmt: skip
UNARY: dict[str, Any] = {
    "exp": np.exp, "exp2": np.exp2, "log2": np.log2, "log": np.log, "sqrt": np.sqrt, "neg": np.negative,
    "abs": np.abs, "erf": np.vectorize(math.erf, otypes=[np.float32]),
}  # fmt: skip
BINARY: dict[str, Any] = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.fmax, "min": np.fmin,
          "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}  # fmt: skip
COMPARE = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
           "ne": np.not_equal}  # fmt: skip


@dataclass(frozen=True)
class Pointer:
    """A tile of addresses in one tensor."""

    tensor: str
    offsets: np.ndarray


@dataclass(frozen=True)
class Descriptor:
    """A tensor of known shape and strides, seen block by block."""

    tensor: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def bf16(values: np.ndarray) -> np.ndarray:
    """Rounded to the nearest bf16, ties to even (NaN not handled)."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> np.uint64(16)) & np.uint64(1))) & np.uint64(0xFFFF0000)
    return rounded.astype(np.uint32).view(np.float32).reshape(np.shape(values))


def run(program: TileProgram, grid: Sequence[int], tensors: dict[str, np.ndarray], values: Mapping[str, Any]) -> None:
    """Every program instance of the grid, one after the other; stores go to `tensors`.

    values: scalar arguments, and for a descriptor argument the shape of its tensor (row-major).
    """
    for index in itertools.product(*map(range, grid)):
        _Instance(program, index, grid, tensors).run(values)


class _Instance:
    def __init__(
        self, program: TileProgram, index: Sequence[int], grid: Sequence[int], tensors: dict[str, Any]
    ) -> None:
        self.program, self.index, self.grid, self.tensors = program, index, grid, tensors
        self.values: dict[int, Any] = {}

    def run(self, values: Mapping[str, Any]) -> None:
        for argument in self.program.arguments:
            name, kind = argument.name, argument.type
            if kind.element.startswith("ptr:"):
                self.values[argument.value] = Pointer(name, np.zeros((), np.int64))
            elif kind.element.startswith("desc:"):
                shape = tuple(values[name])
                strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
                self.values[argument.value] = Descriptor(name, shape, strides)
            elif name in values:
                self.values[argument.value] = NUMPY[kind.element](values[name])
        self.block(self.program.body)

    def block(self, items: Sequence[Op | Loop]) -> None:
        for item in items:
            if isinstance(item, Loop):
                self.loop(item)
            else:
                self.op(item)

    def loop(self, loop: Loop) -> None:
        carried = [self.values[carry.init] for carry in loop.carried]
        for index in range(*(int(self.values[value]) for value in (loop.lower, loop.upper, loop.step))):
            self.values[loop.induction] = np.int32(index)
            self.values.update(zip((carry.argument for carry in loop.carried), carried, strict=True))
            self.block(loop.body)
            carried = [self.values[carry.yielded] for carry in loop.carried]
        self.values.update(zip((carry.result for carry in loop.carried), carried, strict=True))

    def op(self, op: Op) -> None:
        operands = [self.values[operand] for operand in op.operands]
        kind = self.program.type_of(op.results[0]) if op.results else TileType((), "i32")
        with np.errstate(all="ignore"):
            result = self.evaluate(op, operands, kind, dict(op.attributes))
        if isinstance(result, np.ndarray | np.generic):
            result = np.asarray(result, NUMPY[kind.element])
            assert result.shape == kind.shape, (op, result.shape)
        for value in op.results:
            self.values[value] = result

    def evaluate(self, op: Op, operands: list[Any], kind: TileType, attributes: dict[str, Any]) -> Any:
        match op.kind:
            case "constant":
                return np.full(kind.shape, attributes["value"], NUMPY[kind.element])
            case "program_id":
                return np.int32(self.index[attributes["axis"]])
            case "num_programs":
                return np.int32(self.grid[attributes["axis"]])
            case "range":
                return np.arange(attributes["start"], attributes["end"], dtype=np.int32)
            case "splat" | "broadcast" | "expand_dims" | "reshape" | "transpose":
                return self.view(op.kind, operands[0], kind, attributes)
            case "add_pointer":
                return Pointer(operands[0].tensor, operands[0].offsets + operands[1].astype(np.int64))
            case "div" | "rem":
                return divide(op.kind, *operands)
            case "select":
                return np.where(*operands)
            case "compare":
                return COMPARE[attributes["predicate"]](*operands)
            case "cast":
                return bf16(operands[0]) if kind.element == "bf16" else operands[0].astype(NUMPY[kind.element])
            case "reduce":
                return BINARY[attributes["combine"]].reduce(operands[0], axis=attributes["axis"])
            case "dot":
                return operands[0] @ operands[1] + operands[2]
        if op.kind in UNARY:
            return UNARY[op.kind](operands[0])
        if op.kind in BINARY:
            return BINARY[op.kind](*operands)
        return self.memory(op.kind, operands, kind)

    def view(self, kind: str, operand: Any, result: TileType, attributes: dict[str, Any]) -> Any:
        if isinstance(operand, Pointer):
            return Pointer(operand.tensor, self.view(kind, operand.offsets, result, attributes))
        if kind == "transpose":
            return np.transpose(operand, attributes["order"])
        if kind in ("splat", "broadcast"):
            return np.broadcast_to(operand, result.shape)
        return np.reshape(operand, result.shape)

    def memory(self, kind: str, operands: list[Any], result: TileType) -> Any:
        if kind.startswith("descriptor_"):
            address, inside = block(operands[0], operands[2 if kind != "descriptor_load" else 1 :],
                                    result.shape if kind == "descriptor_load" else operands[1].shape)  # fmt: skip
            tensor, value = self.tensors[operands[0].tensor], None if kind == "descriptor_load" else operands[1]
        else:
            address, tensor = operands[0].offsets, self.tensors[operands[0].tensor]
            value = None if kind == "load" else operands[1]
            masks = operands[1:] if kind == "load" else operands[2:]
            inside = np.broadcast_to(masks[0] if masks else np.True_, np.shape(address))
        if value is None:
            other = operands[2] if kind == "load" and len(operands) > 2 else np.float32(0)
            return np.where(inside, tensor[np.where(inside, address, 0)], other)
        address, value = address[inside], np.broadcast_to(value, np.shape(inside))[inside]
        if kind in ("store", "descriptor_store"):
            tensor[address] = value
        else:
            assert kind in ("descriptor_reduce", "atomic_add")
            np.add.at(tensor, address, value)
        return None


def divide(kind: str, left: Any, right: Any) -> Any:
    """Floats as usual, integers towards zero."""
    if np.issubdtype(np.asarray(left).dtype, np.floating):
        return left / right
    quotient = np.trunc(np.asarray(left, np.float64) / right).astype(np.int64)
    return quotient if kind == "div" else left - quotient * right


def block(desc: Descriptor, start: Sequence[Any], shape: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Addresses of a block that begins at index `start`, and which of them are inside of the tensor. The tile may lack
    leading axes of the block, which have one element."""
    whole = (*(1 for _ in range(len(start) - len(shape))), *shape)
    index = [np.arange(extent, dtype=np.int64) + int(first) for extent, first in zip(whole, start, strict=True)]
    grid = np.meshgrid(*index, indexing="ij")
    inside = np.logical_and.reduce([(axis >= 0) & (axis < size) for axis, size in zip(grid, desc.shape, strict=True)])
    address = np.add.reduce([axis * stride for axis, stride in zip(grid, desc.strides, strict=True)])
    return address.reshape(shape), inside.reshape(shape)
