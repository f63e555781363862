"""Exponentials of which some are polynomials: pairs of registers, of each 16 the first few (`exponentials.cuh`)."""

from __future__ import annotations

from collections.abc import Callable

from twill.codegen.print.cuda.context import PrintContext
from twill.codegen.print.cuda.elements import is_packed
from twill.codegen.warp.layout import elements_of
from twill.codegen.warp.program import POLYNOMIAL, SUBNORMAL, Compute
from twill.graph.exponentials import GROUP

LOG2_E = "1.4426950408889634f"


def print_exponentials(stmt: Compute, operand: Callable[[str], str], ctx: PrintContext) -> None:
    """operand: the value of a register, in C. The result is f32, of a multiple of 16 registers."""
    fragment, name = ctx.fragment(stmt.result), ctx.fragments[stmt.result]
    assert fragment.element == "f32" and not is_packed(fragment.element, fragment.layout)
    attributes = dict(stmt.attributes)
    suffix = "_subnormal" if attributes.get(SUBNORMAL) else ""
    factor = f" * {LOG2_E}" if stmt.kind == "exp" else ""
    first, second = (f"{operand(i)}{factor}" for i in ("i", "(i + 1)"))
    count, polynomials = elements_of(fragment.layout), attributes[POLYNOMIAL]
    with ctx.out.unrolled(f"i32 i = 0; i < {count}; i += 2"):
        with ctx.out.block(f"if (i % {GROUP} < {polynomials})"):
            ctx.out.line(f"ex2_polynomial{suffix}({name}[i], {name}[i + 1], {first}, {second});")
        with ctx.out.block("else"):
            ctx.out.line(f"{name}[i] = ex2{suffix}({first});")
            ctx.out.line(f"{name}[i + 1] = ex2{suffix}({second});")
