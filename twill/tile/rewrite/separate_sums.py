"""What threads have is added to a product by threads.

::

    q = select(...);  r = dot(a, b, q)      becomes      t = dot(a, b);  r = q + t

A product into tensor memory adds to what products have left there, not to what threads hold in registers. A product of
f32 that is made of several (`twill.tile.rewrite.precision`) has such a sum: threads look at what the smaller products
have come to before the largest one is added.
"""

from __future__ import annotations

from dataclasses import replace

from twill.tile.program import Op, TileProgram
from twill.tile.rewrite.op_rewriter import OpRewriter
from twill.tile.rewrite.precision import is_changed

MADE_BY_THREADS = "select"  # what stands in front of the last product


def separate_sums(program: TileProgram) -> TileProgram:
    """The program in which such products add to nothing; the same one if there are none."""
    return _Separator(program).rewritten()


class _Separator(OpRewriter):
    def instead(self, op: Op) -> list[Op]:
        """The operation, or the product and the sum that it is."""
        maker = self.write.makers.get(op.operands[2]) if is_changed(op) and len(op.operands) > 2 else None
        if maker is None or maker.kind != MADE_BY_THREADS:
            return [op]
        product = self.write.value_like(op.results[0])
        added = Op(self.write.fresh(), "add", (op.operands[2], product), op.results, (), op.line, op.name)
        return [replace(op, operands=op.operands[:2], results=(product,)), added]
