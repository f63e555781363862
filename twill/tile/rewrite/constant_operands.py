"""Operands of products all of whose elements are one number become tiles that threads compute.

A tensor core reads tiles that somebody made. A constant is made nowhere (`tl.dot(tl.full((16, 16), 1.0), x)` sums up
rows of x), so it is computed of its negative, which is exact::

    %c = dot %ones %x                 %m = constant -1;  %n = neg %m;  %c = dot %n %x
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from twill.tile.program import Items, Loop, Op, TileProgram
from twill.tile.rewrite.writer import OpWriter
from twill.tile.vocabulary import MMA, VIEWS

OPERANDS = 2  # A and B, which a tensor core reads; an addend may be any


def compute_constants(program: TileProgram) -> TileProgram:
    """The program with such operands computed in front of their products; the same one if there are none."""
    writer = _Constants(program, OpWriter(program))
    body = writer.block(program.body)
    return replace(program, body=body, values=tuple(writer.write.values)) if writer.changed else program


def is_lowest(op: Op, element: str) -> bool:
    """Whether an operation makes the lowest of all integers of its type, which has no negative."""
    number = dict(op.attributes).get("value")
    return isinstance(number, int) and element[0] in "iu" and number == -(1 << int(element[1:]) - 1)


@dataclass
class _Constants:
    program: TileProgram
    write: OpWriter
    changed: bool = False

    def block(self, items: Items) -> Items:
        """The items with what is computed for their products in front of them."""
        found: list[Op | Loop] = []
        for item in items:
            if isinstance(item, Loop):
                found.append(replace(item, body=self.block(item.body)))
                continue
            self.write.made = []
            made = self.product(item) if item.kind in MMA else item
            found += [*self.write.made, made]
        return tuple(found)

    def product(self, op: Op) -> Op:
        """The product of operands that are made."""
        operands = (*(self.made(op, value) for value in op.operands[:OPERANDS]), *op.operands[OPERANDS:])
        self.changed |= operands != op.operands
        return replace(op, operands=operands)

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
