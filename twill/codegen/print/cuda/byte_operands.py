"""Operands A of 8-bit floats in registers: four elements a register, in the order that products want.

A product's result and its 16-bit operand A lie alike; an 8-bit operand A does not: of 32 columns a lane has 4
neighbours twice, where of a result it has 2 neighbours four times (PTX ISA, "Register Fragments for
wgmma.mma_async.m64nNk32"). The cast that makes such an operand brings its bytes there, among the four lanes of a row:
for 8 elements two shuffles, two selections and two permutations of bytes (`exchange_bytes` in `fragment.cuh`).
"""

from __future__ import annotations

from twill import exc
from twill.codegen.print.cuda.context import PrintContext
from twill.codegen.print.cuda.elements import SMALL
from twill.codegen.warp.layout import elements_of
from twill.codegen.warp.program import Compute, Copy, Multiply, WarpGroup

ELEMENTS = ("f8e4m3", "f8e5m2")
STEP = 16  # registers of a result, 32 columns of a row and of the one 8 below it, that become 4 registers of operand


def find_byte_operands(group: WarpGroup) -> frozenset[int]:
    """The fragments of a group that are such operands, and those that they are copied from or to."""
    elements = {fragment.id: fragment.element for fragment in group.fragments}
    products = [stmt for stmt in group.stmts if isinstance(stmt, Multiply)]
    found = {stmt.a for stmt in products if isinstance(stmt.a, int) and elements[stmt.a] in ELEMENTS}
    copies = [{stmt.source, stmt.result} for stmt in group.stmts if isinstance(stmt, Copy)]
    while added := {number for pair in copies if pair & found for number in pair} - found:
        found |= added
    return frozenset(found)


def print_byte_operand(stmt: Compute, ctx: PrintContext) -> None:
    """The cast of floats that makes one. Errors: UnsupportedInKernel for any other operation."""
    result, name = ctx.fragment(stmt.result), ctx.fragments[stmt.result]
    if stmt.kind != "cast" or dict(stmt.attributes).get("rounding"):
        raise exc.UnsupportedInKernel(f"'{result.name}', an operand of 8 bits, is made by {stmt.kind}")
    pack = f"operand_{SMALL[result.element]}"

    def word(first: int) -> str:
        places = (first, first + 1, first + 8, first + 9)
        return f"{pack}({', '.join(ctx.operand(stmt.operands[0], result.layout, f'(i + {at})') for at in places)})"

    with ctx.out.unrolled(f"i32 i = 0; i < {elements_of(result.layout)}; i += {STEP}"):
        for row, first in enumerate((0, 2)):
            words = f"{word(first)}, {word(first + 4)}"
            low, high = (f"{name}[i / 4 + {row + half}]" for half in (0, 2))
            ctx.out.line(f"exchange_bytes({words}, {low}, {high});")
