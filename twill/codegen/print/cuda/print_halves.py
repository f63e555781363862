"""Work on 16-bit floats that one instruction does for the two of a register (`halves.cuh`)."""

from __future__ import annotations

from collections.abc import Sequence

from twill.codegen.print.cuda.context import PrintContext
from twill.codegen.print.cuda.elements import SMALL, is_packed
from twill.codegen.warp.layout import Layout, elements_of
from twill.codegen.warp.program import Compute, Operand, Reg
from twill.tile.vocabulary import MINUS

KINDS = ("add", "sub", "mul", "fma")


def is_halves(stmt: Compute, elements: Sequence[str], ctx: PrintContext) -> bool:
    """Whether there is such an instruction. elements: types of the operands."""
    result = ctx.fragment(stmt.result)
    return stmt.kind in KINDS and is_packed(result.element, result.layout) and set(elements) == {result.element}


def print_halves(stmt: Compute, operands: Sequence[Operand], ctx: PrintContext) -> None:
    """A loop over the registers of the result. operands: their expressions are simple."""
    fragment, name = ctx.fragment(stmt.result), ctx.fragments[stmt.result]
    words = [_word(operand, fragment.layout, fragment.element, ctx) for operand in operands]
    minus = {"product": 0, "summand": 2}.get(str(dict(stmt.attributes).get(MINUS)))
    if minus is not None:
        words[minus] = f"halves_neg({words[minus]})"
    with ctx.out.unrolled(f"i32 i = 0; i < {elements_of(fragment.layout)}; i += 2"):
        ctx.out.line(f"{name}[i / 2] = halves_{stmt.kind}_{SMALL[fragment.element]}({', '.join(words)});")


def _word(operand: Operand, layout: Layout, element: str, ctx: PrintContext) -> str:
    """C: two neighbouring values of an operand in one register."""
    if isinstance(operand, Reg) and operand.fragment not in ctx.indices:
        source = ctx.fragment(operand.fragment)
        if source.layout == layout:
            return f"{ctx.fragments[operand.fragment]}[i / 2]"
    both = (ctx.operand(operand, layout, i) for i in ("i", "(i + 1)"))
    return f"pack_{SMALL[element]}({', '.join(both)})"
