"""Products of an 8-bit operand A whose columns are rearranged to where threads hold them: no element moves.

::

    %b = cast %a                    (f8, for the rearrangement alone)
    %c = rearrange %b               (`twill.tile.operand_order`)
    %d = dot %c %v %acc      becomes      %d = dot %b %v %acc quads=1
"""

from __future__ import annotations

from dataclasses import replace

from twill.tile.dead_code import compact
from twill.tile.operand_order import QUADS, is_in_quads
from twill.tile.program import Op, TileProgram

ELEMENTS = ("f8e4m3", "f8e5m2")


def multiply_in_quads(program: TileProgram) -> TileProgram:
    """The program with such products; the same one if there are none."""
    makers, readers = program.makers, [value for op in program.ops() for value in op.operands]

    def changed(op: Op) -> Op:
        maker = makers.get(op.operands[0]) if op.kind == "dot" else None
        kind = program.type_of(op.operands[0]) if maker is not None else None
        if maker is None or kind is None or kind.element not in ELEMENTS or not is_in_quads(maker, kind.shape):
            return op
        base = maker.operands[0]
        if program.type_of(base).shape != kind.shape or makers[base].kind != "cast" or readers.count(base) != 1:
            return op
        attributes = (*op.attributes, (QUADS, 1))
        return replace(op, operands=(base, *op.operands[1:]), attributes=attributes)

    made = program.with_ops(changed)
    return program if made == program else compact(made)
