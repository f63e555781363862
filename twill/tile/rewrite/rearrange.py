"""Views that move elements between threads become operations of their own: rearrangements.

Tiles are spread over threads along their axes. A view that keeps the axes, leaves out or repeats one, or exchanges the
two of a matrix costs nothing, or its reader converts it. What takes axes apart or brings them together (`reshape`),
orders three and more anew (`permute`), picks or stacks tiles (`split`, `join`), or spreads a tile over three axes makes
every thread need elements that others have. A chain of such views is one "rearrange": its elements are those of its
operands, counted through row by row and tile by tile, and where they come from is said in digits
(`twill.tile.digits`). It is work in the dependence graph, and lowering passes it through shared memory.

A reduction of a tile of three axes and more becomes one along the last axis of a matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from twill.reach import reach
from twill.tile.digits import Array, digits_of
from twill.tile.interpret.arrays import np
from twill.tile.program import Op, TileProgram, TileType
from twill.tile.rewrite.op_rewriter import OpRewriter
from twill.tile.uniformity import classify

FOLLOWED = ("broadcast", "expand_dims", "reshape", "transpose", "slice", "join")


def rearrange_tiles(program: TileProgram) -> TileProgram:
    """The program with such views as rearrangements; the same one if there are none."""
    if not any(op.kind in FOLLOWED or op.kind == "reduce" for op in program.ops()):
        return program
    return _Rearranging(program).rewritten()


def _core(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(extent for extent in shape if extent > 1)


@dataclass(frozen=True)
class _Shown:
    """The elements of a tile: `index` of its shape counts through the tiles `bases`."""

    bases: tuple[int, ...]
    index: Array


@dataclass
class _Rearranging(OpRewriter):
    shown: dict[int, _Shown] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.uniformity = classify(self.program)
        self.indices = self.index_arithmetic()

    def index_arithmetic(self) -> set[int]:
        """What is made of the grid and ranges and goes into an address or mask."""
        accesses = [op for op in self.program.ops() if op.access is not None]
        asked = [op.operands[p] for op in accesses for p in (*op.index_operands, op.mask_operand) if p is not None]
        makers, pure = self.program.makers, self.uniformity.pure
        return reach(
            pure.intersection(asked), lambda of: pure.intersection(makers[of].operands) if of in makers else ()
        )

    def shape(self, value: int) -> tuple[int, ...]:
        return self.write.values[value].type.shape

    def instead(self, op: Op) -> list[Op]:
        """The operation, or a rearrangement and what is computed for it."""
        last = self.replaced(op)
        return [*self.write.made, last]

    def replaced(self, op: Op) -> Op:
        """The operation, or the rearrangement that it is."""
        if op.kind == "reduce":
            return self.reduction(op)
        if op.kind not in FOLLOWED or not self.is_followed(op):
            return op
        shown = self.view(op, [self.of(value) for value in op.operands])
        if digits_of(shown.index) is None:  # of views of views that differ, as in a join of parts of one tile
            shown = self.view(op, [self.itself(value) for value in op.operands])
        if not self.moves(op):
            self.shown[op.results[0]] = shown
            return op
        made = self.rearrangement(op, shown)
        if made is None:
            return op
        self.shown[op.results[0]] = shown
        return made

    def is_followed(self, op: Op) -> bool:
        """Whether it shows data: pointers are no elements, and index arithmetic is made where it is used, unless a
        thread does not have the axes that it is made along."""
        if self.program.type_of(op.results[0]).element.startswith(("ptr:", "desc:")):
            return False
        if any(value in self.uniformity.uniform for value in op.operands):
            return False
        return op.kind != "broadcast" or op.results[0] not in self.indices

    def moves(self, op: Op) -> bool:
        """Whether threads need elements that others have."""
        below, here = self.shape(op.operands[0]), self.shape(op.results[0])
        match op.kind:
            case "reshape":
                return _core(below) != _core(here)
            case "broadcast":
                return len(_core(here)) > 2 and 0 < len(_core(below)) < len(_core(here))
            case "transpose":
                order = op.attribute("order")
                assert isinstance(order, tuple)
                retained = [axis for axis in order if below[axis] > 1]
                return len(retained) > 2 and retained != sorted(retained)
            case "expand_dims":
                return False
        return True

    def of(self, value: int) -> _Shown:
        """What a value shows; itself, if it is no view."""
        return self.shown.get(value) or self.itself(value)

    def itself(self, value: int) -> _Shown:
        """A value as no view of anything."""
        shape = self.shape(value)
        return _Shown((value,), np.arange(prod(shape)).reshape(shape))

    def view(self, op: Op, operands: Sequence[_Shown]) -> _Shown:
        """What a view shows, of what its operands show."""
        inner, shape = operands[0], self.shape(op.results[0])
        attributes: dict[str, Any] = dict(op.attributes)
        match op.kind:
            case "transpose":
                return _Shown(inner.bases, inner.index.transpose(attributes["order"]))
            case "broadcast":
                return _Shown(inner.bases, np.broadcast_to(inner.index, shape))
            case "slice":
                return _Shown(inner.bases, np.take(inner.index, attributes["index"], axis=attributes["axis"]))
            case "join":
                return self.joined(inner, operands[1])
        return _Shown(inner.bases, inner.index.reshape(shape))

    def joined(self, left: _Shown, right: _Shown) -> _Shown:
        """Two tiles side by side in a new last axis."""
        if left.bases == right.bases:
            return _Shown(left.bases, np.stack((left.index, right.index), axis=-1))
        before = sum(prod(self.shape(base)) for base in left.bases)
        return _Shown((*left.bases, *right.bases), np.stack((left.index, right.index + before), axis=-1))

    def rearrangement(self, op: Op, shown: _Shown) -> Op | None:
        """The view as an operation on tiles that are no views; None where its places have no digits."""
        found = digits_of(shown.index)
        if found is None:
            return None
        first, extents, steps = found
        attributes = (("first", first), ("extents", extents), ("steps", steps))
        return Op(self.write.fresh(), "rearrange", shown.bases, op.results, attributes, op.line, op.name)

    def reduction(self, op: Op) -> Op:
        """A reduction that leaves a matrix or more, as one of rows."""
        shape, axis = self.shape(op.operands[0]), int(str(op.attribute("axis")))
        retained = [a for a, extent in enumerate(shape) if extent > 1 and a != axis]
        if len(retained) < 2 or shape[axis] == 1:
            return op
        element = self.write.values[op.operands[0]].type.element
        result = self.write.values[op.results[0]].type
        order = [a for a in range(len(shape)) if a != axis] + [axis]
        inner = self.of(op.operands[0])
        rows = prod(shape) // shape[axis]
        index = inner.index.transpose(order).reshape(rows, shape[axis])
        found = digits_of(index)
        if found is None:
            return op
        first, extents, steps = found
        matrix = self.write.op("rearrange", inner.bases, TileType((rows, shape[axis]), element), op.line, op.name,
                               first=first, extents=extents, steps=steps)  # fmt: skip
        said = {name: value for name, value in op.attributes if name != "axis"}
        line = self.write.op("reduce", (matrix,), TileType((rows,), result.element), op.line, op.name, axis=1, **said)
        self.shown[op.results[0]] = _Shown((line,), np.arange(rows).reshape(result.shape))
        attributes = (("first", 0), ("extents", (rows,)), ("steps", (1,)))
        return Op(self.write.fresh(), "rearrange", (line,), op.results, attributes, op.line, op.name)
