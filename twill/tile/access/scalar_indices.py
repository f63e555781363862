"""Numbers in addresses that are computed from data become indices of their accesses, as tiles of them are.

    best = tl.argmax(x, 0)
    tl.load(rows + best * stride + columns)

Whoever computes an address ahead of everything else does not have `best`; the warp group that has it loads, or stores,
with it as one index for all elements. A number that bounds of a tile, or its strides, are made of stays where it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from twill.tile.affine import Polynomial
from twill.tile.program import Access, Axis, Index, Items, Loop, Op, TileProgram, reads
from twill.tile.uniformity import classify
from twill.tile.vocabulary import MMA

REASON = "its address is computed from data"


def index_by_scalars(program: TileProgram) -> TileProgram:
    """The program with such indices: of stores, and of loads where one warp group does everything, as in kernels
    without products."""
    kinds = {"tile_store", "tile_reduce"} | (set() if any(op.kind in MMA for op in program.ops()) else {"tile_load"})
    if not any(op.kind in kinds and set(reads(op)) - set(op.operands) for op in program.ops()):
        return program
    uniform = classify(program).uniform
    made = _Indexing(uniform, frozenset(kinds))
    body = made.block(program.body)
    return replace(program, body=body) if made.changed else program


@dataclass
class _Indexing:
    """uniform: numbers that everybody knows. kinds: of the accesses that may have indices."""

    uniform: frozenset[int]
    kinds: frozenset[str]
    changed: bool = False

    def block(self, items: Items) -> Items:
        """The items of a block."""
        return tuple(
            replace(item, body=self.block(item.body)) if isinstance(item, Loop) else self.op(item) for item in items
        )

    def op(self, op: Op) -> Op:
        """The operation, with indices for what its address has of data."""
        if op.access is None or op.kind not in self.kinds:
            return op
        for symbol in sorted(set(reads(op)) - set(op.operands) - self.uniform):
            moved = without(op.access, symbol)
            if moved is None:
                continue
            access, scale = moved
            place = len(op.operands) if op.mask_operand is None else op.mask_operand
            operands = (*op.operands[:place], symbol, *op.operands[place:])
            indices = (*access.indices, Index((), scale))
            made = replace(access, indices=indices, transport="plain", transport_reason=REASON, made=False)
            op, self.changed = replace(op, operands=operands, access=made), True
        return op


def without(access: Access, symbol: int) -> tuple[Access, Polynomial] | None:
    """The access whose address has not that number, and what it is multiplied with in it; None if it counts otherwise
    than once, or in what is no address."""
    scale, axes = Polynomial(), list[Axis]()
    for axis in access.axes:
        elsewhere = (axis.stride, axis.lower, axis.upper)
        if any(one is not None and symbol in one.symbols() for one in elsewhere):
            return None
        if symbol in axis.offset.symbols():
            if axis.lower is not None or axis.upper is not None:
                return None
            scale += axis.stride * axis.offset.coefficient_of(symbol)
            axis = replace(axis, offset=axis.offset.without(symbol))
        axes.append(axis)
    scale += access.constant.coefficient_of(symbol)
    made = replace(access, axes=tuple(axes), constant=access.constant.without(symbol))
    left = [made.constant, scale, *(axis.offset for axis in axes)]
    return None if any(symbol in one.symbols() for one in left) else (made, scale)
