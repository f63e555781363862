"""Operands of products all of whose elements are one number become tiles that threads compute.

A tensor core reads tiles that somebody made. A constant is made nowhere (`tl.dot(tl.full((16, 16), 1.0), x)` sums up
rows of x), so it is computed of its negative, which is exact::

    %c = dot %ones %x                 %m = constant -1;  %n = neg %m;  %c = dot %n %x
"""

from __future__ import annotations

from dataclasses import replace

from twill.tile.program import Op, TileProgram
from twill.tile.rewrite.op_rewriter import OpRewriter
from twill.tile.vocabulary import MMA, VIEWS

OPERANDS = 2  # A and B, which a tensor core reads; an addend may be any


def compute_constants(program: TileProgram) -> TileProgram:
    """The program with such operands computed in front of their products; the same one if there are none."""
    return _Constants(program).rewritten()


def is_lowest(op: Op, element: str) -> bool:
    """Whether an operation makes the lowest of all integers of its type, which has no negative."""
    number = dict(op.attributes).get("value")
    return isinstance(number, int) and element[0] in "iu" and number == -(1 << int(element[1:]) - 1)


class _Constants(OpRewriter):
    def instead(self, op: Op) -> list[Op]:
        """The operation; a product behind what is computed for it."""
        if op.kind not in MMA:
            return [op]
        operands = (*(self.made(op, value) for value in op.operands[:OPERANDS]), *op.operands[OPERANDS:])
        return [op] if operands == op.operands else [*self.write.made, replace(op, operands=operands)]

    def made(self, op: Op, value: int) -> int:
        """The operand, or the tile that is computed for it."""
        maker = self.write.makers.get(value)
        while maker is not None and maker.kind in VIEWS and len(maker.operands) == 1:
            maker = self.write.makers.get(maker.operands[0])
        kind = self.program.type_of(value)
        if maker is None or maker.kind not in ("constant", "splat") or is_lowest(maker, kind.element):
            return value
        name = maker.name
        if maker.kind == "splat":
            turned = self.write.op("neg", (value,), kind, op.line, name)
        else:
            number = maker.attribute("value")
            assert isinstance(number, int | float)
            turned = self.write.op("constant", (), kind, op.line, name, value=-number)
        return self.write.op("neg", (turned,), kind, op.line, name)
