"""Reductions and scans of several tiles by a function of the kernel's own (Welford's, a linear recurrence): in log2 n
steps, each the function on whole tiles.

A reduction combines neighbours, then neighbours of what that made, down to one. A scan combines, in step s, the upper
half of every block of 2^(s+1) elements with the last element of its lower half (Sklansky). Both hold the order of the
elements, so that the function need not be commutative; it has to be associative, as Triton asks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from math import prod

from twill.tile.digits import Array, digits_of
from twill.tile.interpret.arrays import np
from twill.tile.mlir import RawBlock, RawOp, RawValue
from twill.tile.program import TileType
from twill.tile.translate.builder import Literal, Made, ProgramBuilder

Translate = Callable[[RawOp, ProgramBuilder], None]
Tiles = tuple[int, ...]

_OUTSIDE = count(-1, -1)  # numbers of raw values that stand for one from outside of a region


def fold(op: RawOp, emitter: ProgramBuilder, translate: Translate) -> tuple[Made, ...] | None:
    """`tt.reduce` and `tt.scan` of any tiles by any function; None if an extent is no power of two or the function has
    control flow, or is none that Triton inlines."""
    shape, axis = emitter.type_of(op.operands[0]).shape, int(op.attributes["axis"])
    block = op.regions[0][0]
    calls = any(inner.regions or inner.name == "tt.call" for inner in block.operations)
    if shape[axis] & (shape[axis] - 1) or calls:
        return None
    function = _Function(op, block, emitter, translate)
    tiles = tuple(map(emitter.value, op.operands))
    if op.name == "tt.scan":
        return _scanned(function, tiles, shape, axis, bool(op.attributes["reverse"]))
    while shape[axis] > 1:
        places = np.arange(prod(shape)).reshape(shape)
        halves = [np.take(places, range(at, shape[axis], 2), axis) for at in (0, 1)]
        left, right = (tuple(moved(op, emitter, (tile,), half) for tile in tiles) for half in halves)
        shape = halves[0].shape
        tiles = function(left, right, shape)
    return tuple(
        emitter.emit(op, "reshape", (tile,), (result.type,))[0] for tile, result in zip(tiles, op.results, strict=True)
    )


def moved(op: RawOp, emitter: ProgramBuilder, tiles: Tiles, places: Array) -> int:
    """A tile of the elements of others, counted through row by row, one behind the other."""
    digits = digits_of(places)
    assert digits is not None, "extents are powers of two"
    kind = replace(emitter.kind(tiles[0]), shape=places.shape)
    first, extents, steps = digits
    attributes = (("first", first), ("extents", extents), ("steps", steps))
    return emitter.emit(op, "rearrange", tiles, (kind,), attributes)[0]


class _Function:
    """The function of a region, on tiles."""

    def __init__(self, op: RawOp, block: RawBlock, emitter: ProgramBuilder, translate: Translate) -> None:
        self.op, self.block, self.emitter, self.translate = op, block, emitter, translate
        self.inside = {argument.id for argument in block.arguments}
        self.inside |= {result.id for one in block.operations for result in one.results}

    def __call__(self, left: Tiles, right: Tiles, shape: tuple[int, ...]) -> Tiles:
        """What it makes of two tiles, or two of several, of one shape; those of `left` come first."""
        for argument, value in zip(self.block.arguments, (*left, *right), strict=True):
            self.emitter.bind(argument, value)
        *body, leave = self.block.operations
        for inner in body:
            results = tuple(self.widened(result, shape) for result in inner.results)
            operands = tuple(self.operand(operand, shape) for operand in inner.operands)
            self.translate(replace(inner, operands=operands, results=results), self.emitter)
        return tuple(self.emitter.value(self.operand(operand, shape)) for operand in leave.operands)

    @staticmethod
    def widened(result: RawValue, shape: tuple[int, ...]) -> RawValue:
        """A value of a scalar operation as one of an operation on tiles."""
        return replace(result, type=TileType(shape, result.type.element))

    def operand(self, operand: int, shape: tuple[int, ...]) -> int:
        """An operand of an operation on tiles: a scalar from outside is spread over one."""
        if operand in self.inside:
            return operand
        kind = TileType(shape, self.emitter.type_of(operand).element)
        made: Made
        if (literal := self.emitter.literal(operand)) is not None:
            made = Literal(literal.number, kind)
        else:
            made = self.emitter.emit(self.op, "splat", (self.emitter.value(operand),), (kind,))[0]
        spread = RawValue(next(_OUTSIDE), kind, self.op.line, "")
        self.emitter.bind(spread, made)
        return spread.id


def _scanned(
    function: _Function, tiles: Sequence[int], shape: tuple[int, ...], axis: int, reverse: bool
) -> tuple[Made, ...]:
    """As the top of this file says; backwards, lower halves with the first element of the upper one."""
    op, emitter, held = function.op, function.emitter, tuple(tiles)
    places, half = np.arange(prod(shape)).reshape(shape), 1
    while half < shape[axis]:
        block = np.arange(shape[axis]) // (2 * half) * (2 * half)
        before = np.take(places, block + (half if reverse else half - 1), axis)
        made = function(tuple(moved(op, emitter, (tile,), before) for tile in held), held, shape)
        upper = _upper(op, emitter, shape, axis, half)
        held = tuple(
            emitter.emit(op, "select", (upper, *((old, new) if reverse else (new, old))), (emitter.kind(old),))[0]
            for new, old in zip(made, held, strict=True)
        )
        half *= 2
    return held


def _upper(op: RawOp, emitter: ProgramBuilder, shape: tuple[int, ...], axis: int, half: int) -> int:
    """Whether an element is in the upper half of its block of 2 · half, as a tile."""
    extent = shape[axis]
    numbers, truths = TileType((extent,), "i32"), TileType((extent,), "i1")
    (number,) = emitter.emit(op, "range", (), (numbers,), (("start", 0), ("end", extent)))
    (bit,) = emitter.emit(op, "and", (number, emitter.constant(Literal(half, numbers))), (numbers,))
    none = emitter.constant(Literal(0, numbers))
    (upper,) = emitter.emit(op, "compare", (bit, none), (truths,), (("predicate", "ne"), ("signed", 1)))
    if len(shape) == 1:
        return upper
    line = TileType(tuple(extent if a == axis else 1 for a in range(len(shape))), "i1")
    (upper,) = emitter.emit(op, "reshape", (upper,), (line,))
    return emitter.emit(op, "broadcast", (upper,), (TileType(shape, "i1"),))[0]
