"""A product of one row or one column is a sum of products along an axis.

::

    y = dot(a, b)      of 128 x 64 and 64 x 1, becomes      y = sum(a * b^T, axis=1)[:, None]

The tensor core has no results of fewer than eight columns, and a sum is what threads do as fast. Products of 8- and
16-bit numbers are exact in the type of the sum, which is at least f32; those of f32 are rounded as f32, whatever the
precision that the kernel asks for.
"""

from __future__ import annotations

from dataclasses import replace

from twill.tile.program import Op, TileProgram, TileType
from twill.tile.rewrite.op_rewriter import OpRewriter

RANK = 2


def sum_vector_products(program: TileProgram) -> TileProgram:
    """The program with such sums; the same one if there are none."""
    return _Summer(program).rewritten()


class _Summer(OpRewriter):
    def instead(self, op: Op) -> list[Op]:
        """An operation, or the sum that a product is."""
        if op.kind != "dot":
            return [op]
        result = self.program.type_of(op.results[0])
        if len(result.shape) != RANK or 1 not in result.shape:
            return [op]
        column = result.shape[1] == 1
        a, b = op.operands[:2]
        whole, vector = (a, b) if column else (b, a)
        shape = self.program.type_of(whole).shape
        wide = "f32" if result.element in ("f16", "bf16") else result.element
        line = (1, shape[1]) if column else (shape[0], 1)
        spread = self.made("reshape", vector, line, self.program.type_of(vector).element, op)
        spread = self.made("broadcast", self.made("cast", spread, line, wide, op), shape, wide, op)
        product = self.made("mul", self.made("cast", whole, shape, wide, op), shape, wide, op, spread)
        axis = 1 if column else 0
        total = self.write.op(
            "reduce", (product,), TileType((shape[1 - axis],), wide), op.line, op.name, axis=axis, combine="add"
        )
        total = self.write.op("expand_dims", (total,), TileType(result.shape, wide), op.line, op.name, axis=axis)
        if len(op.operands) > RANK:
            before = self.made("cast", op.operands[2], result.shape, wide, op)
            total = self.made("add", before, result.shape, wide, op, total)
        last = replace(op, kind="cast", operands=(total,), attributes=())
        return [*self.write.made, last]

    def made(self, kind: str, value: int, shape: tuple[int, ...], element: str, op: Op, *more: int) -> int:
        """What an operation makes of a value; a conversion to the type that it has is none."""
        if kind == "cast" and self.write.values[value].type.element == element:
            return value
        return self.write.op(kind, (value, *more), TileType(shape, element), op.line, op.name)
