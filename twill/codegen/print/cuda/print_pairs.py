"""Work on f32 that one instruction does for two neighbouring registers (`pairs.cuh`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twill.codegen.print.cuda.context import PrintContext
from twill.codegen.warp.layout import elements_of
from twill.codegen.warp.program import PAIRED, Compute, Operand


def paired(kind: str, operands: Sequence[str], ctx: PrintContext) -> str:
    """C: an operation on pairs. Where products and sums may not be contracted, each is rounded by itself."""
    program = ctx.program.program
    suffix = "" if kind == "fma" or (program.fp_fusion and not program.strict) else "_rn"
    return f"pair_{kind}{suffix}({', '.join(operands)})"


def print_pairs(
    stmt: Compute, operands: Sequence[Operand], value: Callable[[str], str], elements: Sequence[str], ctx: PrintContext
) -> None:
    """A loop over pairs of registers of a result that has one element a register. operands: their expressions are
    simple. value: of the result's register, in C, where one instruction computes one; elements: of the operands."""
    fragment, name = ctx.fragment(stmt.result), ctx.fragments[stmt.result]
    with ctx.out.elementwise(f"i32 i = 0; i < {elements_of(fragment.layout)}; i += 2", fragment.layout):
        if stmt.kind in PAIRED and {fragment.element, *elements} == {"f32"}:
            both = [[ctx.operand(operand, fragment.layout, i) for i in ("i", "(i + 1)")] for operand in operands]
            pairs = [f"pair_of({', '.join(texts)})" for texts in both]
            ctx.out.line(f"parts_of({name}[i], {name}[i + 1], {paired(stmt.kind, pairs, ctx)});")
        else:
            ctx.out.line(f"{name}[i] = {value('i')};")
            ctx.out.line(f"{name}[i + 1] = {value('(i + 1)')};")
