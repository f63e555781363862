"""Operands A of 8-bit floats in registers: four elements a register, in the order that products want.

A product's result and its 16-bit operand A lie alike; an 8-bit operand A does not: of 32 columns a lane has 4
neighbours twice, where of a result it has 2 neighbours four times (PTX ISA, "Register Fragments for
wgmma.mma_async.m64nNk32"). The cast that makes such an operand brings its bytes there, among the four lanes of a row:
for 8 elements two shuffles, two selections and two permutations of bytes (`exchange_bytes` in `fragment.cuh`); or none
where the kernel has K in the order of a result (`twill.tile.operand_order`).
"""

from __future__ import annotations

from twill import exc
from twill.codegen.print.cuda.context import PrintContext
from twill.codegen.print.cuda.elements import SMALL
from twill.codegen.warp.layout import elements_of
from twill.codegen.warp.program import Compute, Copy, Multiply, WarpGroup

ELEMENTS = ("f8e4m3", "f8e5m2")
RUN = 4  # registers of a result from those of eight columns to those of the next eight
STEP = 4 * RUN  # of a result, 32 columns of a row and of the one 8 below it, that become 4 of an operand


def find_byte_operands(group: WarpGroup) -> dict[int, bool]:
    """The fragments of a group that are such operands, and those that they are copied from or to; whether products take
    them in quads, as threads hold them. Errors: UnsupportedInKernel for one that is wanted in both ways."""
    elements = {fragment.id: fragment.element for fragment in group.fragments}
    copies = [(stmt.source, stmt.result) for stmt in group.stmts if isinstance(stmt, Copy)]
    found: dict[int, bool] = {}
    for stmt in group.stmts:
        if not isinstance(stmt, Multiply) or not isinstance(stmt.a, int) or elements[stmt.a] not in ELEMENTS:
            continue
        alike = {stmt.a}
        while added := {number for pair in copies if alike & {*pair} for number in pair} - alike:
            alike |= added
        if any(found.get(number, stmt.quads) != stmt.quads for number in alike):
            raise exc.UnsupportedInKernel("an operand of 8 bits is multiplied in two orders", line=stmt.line)
        found |= dict.fromkeys(alike, stmt.quads)
    return found


def print_byte_operand(stmt: Compute, ctx: PrintContext) -> None:
    """The cast of floats that makes one. Errors: UnsupportedInKernel for any other operation."""
    result, name = ctx.fragment(stmt.result), ctx.fragments[stmt.result]
    if stmt.kind != "cast" or dict(stmt.attributes).get("rounding"):
        raise exc.UnsupportedInKernel(f"'{result.name}', an operand of 8 bits, is made by {stmt.kind}")
    pack = f"operand_{SMALL[result.element]}"

    def word(first: int, apart: int) -> str:
        """Of two of the four runs of eight columns, so many registers apart."""
        places = (first, first + 1, first + apart, first + apart + 1)
        return f"{pack}({', '.join(ctx.operand(stmt.operands[0], result.layout, f'(i + {at})') for at in places)})"

    with ctx.out.unrolled(f"i32 i = 0; i < {elements_of(result.layout)}; i += {STEP}"):
        for row, first in enumerate((0, 2)):
            low, high = (f"{name}[i / 4 + {row + half}]" for half in (0, 2))
            if ctx.byte_operands[stmt.result]:
                ctx.out.line(f"{low} = {word(first, RUN)};")
                ctx.out.line(f"{high} = {word(first + 2 * RUN, RUN)};")
            else:
                ctx.out.line(f"exchange_bytes({word(first, 2 * RUN)}, {word(first + RUN, 2 * RUN)}, {low}, {high});")
