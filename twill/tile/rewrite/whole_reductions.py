"""A tile that is flattened to be reduced to one number is reduced along one axis after the other.

::

    f = reshape(x)                 of 64 x 128 to 8192, becomes    r = reduce(x, axis=1)      of 64
    s = reduce(f, axis=0)                                          s = reduce(r, axis=0)

Triton writes `tl.sum(x)` of all elements so. To flatten a matrix, threads would exchange all of it through shared
memory, where its rows are reduced in registers. The order of sums is none that the kernel says, as of any reduction.
"""

from __future__ import annotations

from dataclasses import replace

from twill.tile.program import Op, TileProgram, TileType
from twill.tile.rewrite.op_rewriter import OpRewriter
from twill.tile.vocabulary import REDUCE


def reduce_axis_by_axis(program: TileProgram) -> TileProgram:
    """The program with such reductions; the same one if there are none."""
    return _Reducer(program).rewritten()


class _Reducer(OpRewriter):
    def instead(self, op: Op) -> list[Op]:
        """An operation, or what the reduction of a flattened tile becomes."""
        flat = self.write.makers.get(op.operands[0]) if op.kind in REDUCE and len(op.operands) == 1 else None
        if flat is None or flat.kind != "reshape" or len(op.results) != 1:
            return [op]
        value = flat.operands[0]
        whole, result = self.program.type_of(value), self.program.type_of(op.results[0])
        longer = [axis for axis, extent in enumerate(whole.shape) if extent > 1]
        if result.shape or len(longer) < 2 or whole.element != result.element:
            return [op]
        for axis in reversed(range(1, len(whole.shape))):
            shorter = TileType(whole.shape[:axis], result.element)
            value = self.write.op(op.kind, (value,), shorter, op.line, op.name, **{**dict(op.attributes), "axis": axis})
        return [*self.write.made, replace(op, operands=(value,))]
