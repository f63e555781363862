"""Fragments computed from fragments: loops over the registers of a thread."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

from twill import exc
from twill.codegen.aref import Compute, Copy, Fill, Range
from twill.codegen.cuda.context import Context, is_simple
from twill.codegen.cuda.elements import SMALL, is_packed, rounded
from twill.codegen.cuda.places import indices
from twill.codegen.cuda.print_elementwise import Computed, Operation, print_elementwise
from twill.codegen.layout import elements_of


def assign(result: int, element_at: Callable[[str], Computed], ctx: Context) -> None:
    """A loop over all registers of `result`; element_at: the value of register `i`, in C."""
    fragment, name, out = ctx.fragment(result), ctx.fragments[result], ctx.out
    count = elements_of(fragment.layout)
    if is_packed(fragment.element, fragment.layout):
        pack = f"pack_{SMALL[fragment.element]}"
        with out.unrolled(f"i32 i = 0; i < {count}; i += 2"):
            out.line(f"{name}[i / 2] = {pack}({element_at('i').text}, {element_at('(i + 1)').text});")
    elif count == 1:
        out.line(f"{name}[0] = {_value(fragment.element, element_at('0'))};")
    else:
        with out.unrolled(f"i32 i = 0; i < {count}; ++i"):
            out.line(f"{name}[i] = {_value(fragment.element, element_at('i'))};")


def _value(element: str, computed: Computed) -> str:
    return computed.text if computed.exact else rounded(element, computed.text)


def print_fill(stmt: Fill, ctx: Context) -> None:
    """Every register gets the same value."""
    value = ctx.expression(stmt.value)
    assign(stmt.result, lambda i: Computed(value), ctx)


def print_range(stmt: Range, ctx: Context) -> None:
    """start + the index of the element."""
    layout = ctx.fragment(stmt.result).layout
    start = f" + {stmt.start}" if stmt.start else ""
    assign(stmt.result, lambda i: Computed(indices(layout, i)[0].text() + start), ctx)


def print_compute(stmt: Compute, ctx: Context) -> None:
    """One operation for each element. Scalars are computed once, before the loop."""
    result = ctx.fragment(stmt.result)
    elements = tuple(ctx.element_of(operand) for operand in stmt.operands)
    with nullcontext() if all(map(is_simple, stmt.operands)) else ctx.out.block():
        inner = ctx.inside()
        operands = [inner.hoisted(operand) for operand in stmt.operands]

        def element_at(i: str) -> Computed:
            texts = tuple(inner.operand(operand, result.layout, i) for operand in operands)
            return print_elementwise(Operation(stmt.kind, texts, elements, result.element, dict(stmt.attributes)))

        assign(stmt.result, element_at, inner)


def print_copy(stmt: Copy, ctx: Context) -> None:
    """Register by register."""
    source, result = ctx.fragment(stmt.source), ctx.fragment(stmt.result)
    if (source.element, source.layout) != (result.element, result.layout):
        raise exc.LayoutConflict(f"'{source.name}' and '{result.name}' are not spread alike")
    count = elements_of(source.layout) // (2 if is_packed(source.element, source.layout) else 1)
    with ctx.out.unrolled(f"i32 i = 0; i < {count}; ++i"):
        ctx.out.line(f"{ctx.fragments[stmt.result]}[i] = {ctx.fragments[stmt.source]}[i];")
