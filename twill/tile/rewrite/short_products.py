"""Products of fewer rows than the tensor core has are transposed, where their columns are as many rows as it has.

::

    s = dot(q, k)      of 16 x 64, becomes      sT = dot(k^T, q^T)      of 64 x 16

An instruction into tensor memory has 128 rows or 64, and columns in 16s. A group of query heads that share a key, or a
chunk of a sequence, are 16 or 32 rows. What follows of the product is computed transposed, too, up to where it is
stored; products that read it take it transposed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from twill.tile.program import Op, TileProgram
from twill.tile.rewrite.computed_operands import GRAIN, Exchange
from twill.tile.vocabulary import ELEMENTWISE

PRODUCT, RANK = "dot", 2


def transpose_short(program: TileProgram, has_rows: Callable[[int], bool]) -> TileProgram:
    """The program with such products transposed; the same one if there are none, or if something of them is used in
    another way than element by element, reduced along an axis, carried, multiplied or stored. has_rows: whether the
    tensor core has results of so many rows."""
    return _ShortExchange(program, alike=(*ELEMENTWISE, "update"), has_rows=has_rows).rewritten()


@dataclass
class _ShortExchange(Exchange):
    """has_rows: as above."""

    has_rows: Callable[[int], bool] = bool

    def chosen(self) -> set[int]:
        """Products of too few rows, whose columns are enough."""
        found = set()
        for op in self.program.ops():
            shape = self.program.type_of(op.results[0]).shape if op.kind == PRODUCT else ()
            if len(shape) == RANK and not self.has_rows(shape[0]) and self.has_rows(shape[1]):
                found |= {op.id} if shape[0] % GRAIN == 0 and shape[0] < shape[1] else set()
        return found

    def fits(self, op: Op) -> bool:
        """Whether an operation can take what is made transposed; products take any of it, as it is or as a view."""
        if op.kind == PRODUCT:
            return op.id in self.products or not self.across & {*op.operands[2:], *op.results}
        return super().fits(op)
