"""Fragments computed from fragments: loops over the registers of a thread."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

from twill import exc
from twill.codegen.print.cuda.byte_operands import print_byte_operand
from twill.codegen.print.cuda.context import PrintContext, is_simple
from twill.codegen.print.cuda.elements import SMALL, is_packed, rounded
from twill.codegen.print.cuda.index_fragments import lane, spread_constant
from twill.codegen.print.cuda.multiples import base_multiple
from twill.codegen.print.cuda.places import indices
from twill.codegen.print.cuda.print_assembly import print_assembly
from twill.codegen.print.cuda.print_elementwise import Computed, ElementwiseOperation, print_elementwise
from twill.codegen.print.cuda.print_exponentials import print_exponentials
from twill.codegen.print.cuda.print_halves import is_halves, print_halves
from twill.codegen.print.cuda.print_pairs import print_pairs
from twill.codegen.warp.expression import PerGroup
from twill.codegen.warp.layout import Accumulator, Blocked, Layout, columns_of, elements_of
from twill.codegen.warp.program import PAIRS, POLYNOMIAL, WARP_VOTE, Compute, Copy, Fill, Fragment, Operand, Range, Reg


def assign(result: int, element_at: Callable[[str], Computed], ctx: PrintContext, pack: str = "") -> None:
    """A loop over all registers of `result`; element_at: the value of register `i`, in C. pack: what makes two of them
    one register, if not the rounding of floats."""
    fragment, name, out = ctx.fragment(result), ctx.fragments[result], ctx.out
    count = elements_of(fragment.layout)
    if is_packed(fragment.element, fragment.layout):
        pack = pack or f"pack_{SMALL[fragment.element]}"
        with out.unrolled(f"i32 i = 0; i < {count}; i += 2"):
            out.line(f"{name}[i / 2] = {pack}({element_at('i').text}, {element_at('(i + 1)').text});")
    elif count == 1:
        out.line(f"{name}[0] = {_value(fragment.element, element_at('0'))};")
    else:
        with out.elementwise(f"i32 i = 0; i < {count}; ++i", fragment.layout):
            out.line(f"{name}[i] = {_value(fragment.element, element_at('i'))};")


def _value(element: str, computed: Computed) -> str:
    return computed.text if computed.exact else rounded(element, computed.text)


def print_fill(stmt: Fill, ctx: PrintContext) -> None:
    """Every register gets the same value."""
    value = ctx.expression(stmt.value)
    if stmt.result in ctx.indices:
        ctx.out.line(f"{ctx.fragments[stmt.result]} = {value};")
        return
    assign(stmt.result, lambda i: Computed(value), ctx)


def print_range(stmt: Range, ctx: PrintContext) -> None:
    """start + the index of the element."""
    layout = ctx.fragment(stmt.result).layout
    start = f" + {ctx.expression(stmt.start) if isinstance(stmt.start, PerGroup) else stmt.start}" if stmt.start else ""
    if stmt.result in ctx.indices:
        ctx.out.line(f"{ctx.fragments[stmt.result]} = {lane(layout, ctx.indices[stmt.result])}{start};")
        return
    assign(stmt.result, lambda i: Computed(indices(layout, i)[0].text() + start), ctx)


def print_compute(stmt: Compute, ctx: PrintContext) -> None:
    """One operation for each element. Scalars are computed once, before the loop."""
    result = ctx.fragment(stmt.result)
    elements = tuple(ctx.element_of(operand) for operand in stmt.operands)
    if stmt.result in ctx.indices:
        bases = tuple(_base(operand, ctx) for operand in stmt.operands)
        base = print_elementwise(ElementwiseOperation(stmt.kind, bases, elements, "i32", dict(stmt.attributes)))
        ctx.out.line(f"{ctx.fragments[stmt.result]} = {base.text};")
        return
    if stmt.kind == "compare" and _compares_indices(stmt, ctx):
        _print_index_comparison(stmt, ctx)
        return
    with nullcontext() if all(map(is_simple, stmt.operands)) else ctx.out.block():
        inner = ctx.inside()
        operands = [inner.hoisted(operand) for operand in stmt.operands]
        if stmt.kind == "inline_asm":
            print_assembly(stmt, operands, inner)
            return

        if stmt.result in ctx.byte_operands:
            print_byte_operand(replace(stmt, operands=tuple(operands)), inner)
            return

        pack = _pack_of_bytes(stmt, elements, result)

        def element_at(i: str) -> Computed:
            texts = tuple(inner.operand(operand, result.layout, i) for operand in operands)
            if pack:
                return Computed(texts[0])
            return print_elementwise(
                ElementwiseOperation(stmt.kind, texts, elements, result.element, dict(stmt.attributes))
            )

        if POLYNOMIAL in dict(stmt.attributes):
            print_exponentials(stmt, lambda i: inner.operand(operands[0], result.layout, i), inner)
            return

        with ctx.out.block(_vote(stmt, ctx)) if WARP_VOTE in dict(stmt.attributes) else nullcontext():
            if PAIRS in dict(stmt.attributes) and not is_packed(result.element, result.layout):
                print_pairs(stmt, operands, lambda i: _value(result.element, element_at(i)), elements, inner)
            elif is_halves(stmt, elements, inner):
                print_halves(stmt, operands, inner)
            else:
                assign(stmt.result, element_at, inner, pack)


def _pack_of_bytes(stmt: Compute, elements: tuple[str, ...], result: Fragment) -> str:
    """What converts two bytes to a packed pair of floats; "" for anything else."""
    if stmt.kind != "cast" or elements != ("i8",) or not is_packed(result.element, result.layout):
        return ""
    return f"pack_{result.element}_{'signed' if dict(stmt.attributes).get('signed', 1) else 'unsigned'}"


def _vote(stmt: Compute, ctx: PrintContext) -> str:
    """C: whether any thread of the warp has a factor other than 1."""
    factor = next(o for o in stmt.operands if isinstance(o, Reg) and o.fragment != stmt.result)
    count = elements_of(ctx.fragment(factor.fragment).layout)
    others = (f"{ctx.value(factor.fragment, str(i))} != 1.0f" for i in range(count))
    return f"if (warp_any({' || '.join(others)}))"


def _base(operand: Operand, ctx: PrintContext) -> str:
    """C: the part of an index or a scalar that is the same for all registers."""
    return ctx.fragments[operand.fragment] if isinstance(operand, Reg) else ctx.expression(operand)


def _compares_indices(stmt: Compute, ctx: PrintContext) -> bool:
    """Whether both operands are indices or scalars, as signed numbers; at least one an index."""
    regs = [operand for operand in stmt.operands if isinstance(operand, Reg)]
    signed = dict(stmt.attributes).get("signed", 1)
    return bool(signed and regs and all(reg.fragment in ctx.indices for reg in regs))


def _print_index_comparison(stmt: Compute, ctx: PrintContext) -> None:
    """The difference of the bases once, then with a constant for each register."""
    layout, inner = ctx.fragment(stmt.result).layout, ctx.inside()
    left, right = (_base(operand, ctx) for operand in stmt.operands)
    with ctx.out.block():
        ctx.out.line(f"const i32 apart = bound((i64){left} - (i64){right});")
        run = _alike(stmt, layout, ctx)

        def element_at(i: str) -> Computed:
            i = f"({i} / {run} * {run})" if run > 1 else i
            less, more = (_constant(operand, layout, i, ctx) for operand in stmt.operands)
            pair = ("apart", f"({more}) - ({less})")
            return print_elementwise(ElementwiseOperation("compare", pair, ("i32", "i32"), "i1", dict(stmt.attributes)))

        assign(stmt.result, element_at, inner)


def _alike(stmt: Compute, layout: Layout, ctx: PrintContext) -> int:
    """How many neighbouring registers have the same answer: with x a multiple of r and 0 <= e < r, x + e < 0 says the
    same as x < 0. The run of a vector if one operand counts its elements, the other is the same for all of them, and
    both bases are multiples of r."""
    if not isinstance(layout, Blocked) or len(layout.shape) != 1:
        return 1
    counts = [isinstance(o, Reg) and ctx.indices[o.fragment] == (1,) for o in stmt.operands]
    still = [not isinstance(o, Reg) or ctx.indices[o.fragment] == (0,) for o in stmt.operands]
    left, right = counts[0] and still[1], still[0] and counts[1]
    if dict(stmt.attributes)["predicate"] not in (("lt", "ge") if left else ("gt", "le") if right else ()):
        return 1
    same = all(base_multiple(operand, ctx) % layout.run == 0 for operand in stmt.operands)
    return layout.run if same else 1


def _constant(operand: Operand, layout: Layout, i: str, ctx: PrintContext) -> str:
    """C: the part of an index that the register decides."""
    if not isinstance(operand, Reg):
        return "0"
    own = ctx.fragment(operand.fragment).layout
    return spread_constant(layout, own, operand.axes, ctx.indices[operand.fragment], i)


def print_copy(stmt: Copy, ctx: PrintContext) -> None:
    """Register by register."""
    if stmt.columns is not None:
        _print_columns(stmt, stmt.columns, ctx)
        return
    if stmt.result in ctx.indices:
        ctx.out.line(f"{ctx.fragments[stmt.result]} = {ctx.fragments[stmt.source]};")
        return
    source, result = ctx.fragment(stmt.source), ctx.fragment(stmt.result)
    if (source.element, source.layout) != (result.element, result.layout):
        raise exc.UnsupportedInKernel(f"'{source.name}' and '{result.name}' are not spread alike")
    together = 4 if stmt.source in ctx.byte_operands else 2 if is_packed(source.element, source.layout) else 1
    count = elements_of(source.layout) // together
    packed = count < elements_of(source.layout)
    with ctx.out.unrolled(f"i32 i = 0; i < {count}; ++i"):
        value = f"{ctx.fragments[stmt.source]}[i]" if packed else ctx.value(stmt.source, "i")
        ctx.out.line(f"{ctx.fragments[stmt.result]}[i] = {value};")


def _print_columns(stmt: Copy, columns: tuple[int, int], ctx: PrintContext) -> None:
    """The registers of some columns, of every row block."""
    source, result = ctx.fragment(stmt.source), ctx.fragment(stmt.result)
    if (source.element, columns_of(source.layout, columns)) != (result.element, result.layout):
        raise exc.UnsupportedInKernel(f"'{result.name}' is not spread as columns of '{source.name}'")
    assert isinstance(source.layout, Accumulator)
    together = 2 if is_packed(source.element, source.layout) else 1
    width = (columns[1] - columns[0]) // 2 // together
    whole, first = source.layout.columns // 2 // together, columns[0] // 2 // together
    with ctx.out.unrolled(f"i32 i = 0; i < {elements_of(result.layout) // together}; ++i"):
        place = f"i / {width} * {whole} + {first} + i % {width}"
        ctx.out.line(f"{ctx.fragments[stmt.result]}[i] = {ctx.fragments[stmt.source]}[{place}];")
