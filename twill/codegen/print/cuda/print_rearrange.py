"""Rearrangements and histograms: every thread stores what it holds to shared memory, or counts it there, waits for the
others, and loads what it needs."""

from __future__ import annotations

import math
from itertools import accumulate

from twill.codegen.print.cuda.context import PrintContext
from twill.codegen.print.cuda.elements import BYTES, from_memory, memory_type, to_memory
from twill.codegen.print.cuda.places import indices, inside, owner
from twill.codegen.print.cuda.print_elementwise import Computed
from twill.codegen.print.cuda.print_registers import assign
from twill.codegen.warp.layout import Layout, elements_of, shape_of
from twill.codegen.warp.ownership import register_moves
from twill.codegen.warp.program import Histogram, Rearrange
from twill.tile.digits import Digits


def print_rearrange(stmt: Rearrange, ctx: PrintContext) -> None:
    """Element by element: right for every layout."""
    if stmt.scratch is None or stmt.barrier is None:
        print_moves(stmt, ctx)
        return
    out, result = ctx.out, ctx.fragment(stmt.result)
    kind, size = memory_type(result.element), BYTES[result.element]
    with out.block():
        out.line(f"const u32 scratch = smem + {ctx.shared.buffers[stmt.scratch]};")
        first = 0
        for operand in stmt.operands:
            layout = ctx.fragment(operand).layout
            mine = " && ".join(part for part in (owner(layout), inside(layout)) if part)
            with out.unrolled(f"i32 i = 0; i < {elements_of(layout)}; ++i"):
                place = f"scratch + ({number_of(layout, 'i')} + {first}) * {size}"
                value = to_memory(result.element, ctx.value(operand, "i"))
                store = f"write_shared({place}, ({kind}){value});"
                out.line(f"if ({mine}) {store}" if mine else store)
            first += math.prod(shape_of(layout))
        out.line(ctx.barrier("sync", stmt.barrier))

        def element_at(i: str) -> Computed:
            number = _source(stmt, number_of(result.layout, i))
            if stmt.index is not None:
                wide = "u64" if ctx.fragment(stmt.index).element == "i64" else "u32"
                picked = f"min(({wide}){ctx.value(stmt.index, i)}, ({wide}){stmt.extent - 1})"
                number = f"({number} + (i32){picked} * {stmt.along})"
            place = f"scratch + {number} * {size}"
            text = from_memory(result.element, f"read_shared<{kind}>({place})")
            there = inside(result.layout, i)
            return Computed(f"({there} ? {text} : 0)" if there else text)

        assign(stmt.result, element_at, ctx)


def print_histogram(stmt: Histogram, ctx: PrintContext) -> None:
    """Every thread writes its share of the zeros, waits for the others, adds one for each of its elements, waits, and
    loads the counts that it has."""
    out, operand, result = ctx.out, ctx.fragment(stmt.operand), ctx.fragment(stmt.result)
    threads, bins = ctx.program.barriers[stmt.barrier].threads, math.prod(shape_of(result.layout))
    sync = ctx.barrier("sync", stmt.barrier)
    wide = "u64" if operand.element == "i64" else "u32"
    with out.block():
        out.line(f"const u32 scratch = smem + {ctx.shared.buffers[stmt.scratch]};")
        out.line(f"for (i32 bin = thread; bin < {bins}; bin += {threads}) write_shared(scratch + bin * 4, 0);")
        out.line(sync)
        with out.unrolled(f"i32 i = 0; i < {elements_of(operand.layout)}; ++i"):
            value = f"({wide}){ctx.value(stmt.operand, 'i')}"
            counted = "" if stmt.mask is None else ctx.value(stmt.mask, "i")
            mine = [part for part in (owner(operand.layout), inside(operand.layout), counted) if part]
            condition = " && ".join([*mine, f"{value} < {bins}u"])
            out.line(f"if ({condition}) add_shared(scratch + (u32){value} * 4);")
        out.line(sync)

        def count_at(i: str) -> Computed:
            text = f"read_shared<i32>(scratch + {number_of(result.layout, i)} * 4)"
            there = inside(result.layout, i)
            return Computed(f"({there} ? {text} : 0)" if there else text)

        assign(stmt.result, count_at, ctx)


def print_moves(stmt: Rearrange, ctx: PrintContext) -> None:
    """Register by register: every thread has what it needs."""
    layouts = [ctx.fragment(operand).layout for operand in stmt.operands]
    moves = register_moves(layouts, ctx.fragment(stmt.result).layout, (stmt.first, stmt.extents, stmt.steps))
    assert moves is not None
    starts = [0, *accumulate(map(elements_of, layouts))]

    def element_at(i: str) -> Computed:
        number, text = number_by(moves, i), ""
        for operand, first, end in reversed([*zip(stmt.operands, starts, starts[1:], strict=False)]):
            shown = ctx.value(operand, f"({number} - {first})" if first else number)
            text = f"({number} < {end} ? {shown} : {text})" if text else shown
        return Computed(text)

    assign(stmt.result, element_at, ctx)


def number_of(layout: Layout, i: str) -> str:
    """C: the number of the element in register `i`, row by row."""
    shape = shape_of(layout)
    parts = []
    for axis, index in enumerate(indices(layout, i)):
        below = math.prod(shape[axis + 1 :])
        parts.append(index.text() if below == 1 else f"{index.text()} * {below}")
    return f"({' + '.join(parts) or '0'})"


def _source(stmt: Rearrange, number: str) -> str:
    """C: the number of the operands' element that the result's element `number` is."""
    return number_by((stmt.first, stmt.extents, stmt.steps), number)


def number_by(digits: Digits, number: str) -> str:
    """C: first + Σ digit · step, with the digits of a number."""
    first, extents, steps = digits
    parts = [str(first)] if first or not extents else []
    for at, (extent, step) in enumerate(zip(extents, steps, strict=True)):
        below = math.prod(extents[at + 1 :])
        digit = number if below == 1 else f"{number} / {below}"
        parts += [f"{digit} * {step}" if at == 0 else f"{digit} % {extent} * {step}"] if step else []
    return f"({' + '.join(parts) or '0'})"
