"""Reductions: over the registers of a thread, over lanes by shuffles, over warps through shared memory.

Every result is made in the same order in every launch, and is equal in all threads that hold it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from twill import exc
from twill.codegen.print.cuda.alone import alone
from twill.codegen.print.cuda.context import PrintContext
from twill.codegen.print.cuda.elements import BYTES, SMALL, is_float, rounded, value_type
from twill.codegen.print.cuda.places import inside
from twill.codegen.print.cuda.print_elementwise import ElementwiseOperation, print_elementwise
from twill.codegen.print.cuda.print_expression import literal
from twill.codegen.print.cuda.print_pairs import paired
from twill.codegen.warp.layout import (
    Accumulator,
    Along,
    Blocked,
    Layout,
    Slice,
    Uniform,
    as_matrix,
    crosses_warps,
    elements_of,
)
from twill.codegen.warp.program import PAIRS, Reduce, Scan

_CHAINS = 4  # sums side by side in a thread, where nothing else hides the latency of one
_ACROSS_COLUMNS, _ACROSS_ROWS, _ALL_LANES = (1, 2), (4, 8, 16), (16, 8, 4, 2, 1)


@dataclass(frozen=True)
class _Plan:
    """Result register r combines operand registers first + offset(i) + chain, i = 0 ... items - 1, for each chain (C).

    lanes: what lane numbers are changed by to meet the other lanes. warps: whether warps hold different parts.
    lane_slots: lanes of a warp that hold different results. together, apart: so many warps (0: all), that far from one
    another, hold parts of one result.
    """

    first: str
    offset: str
    items: int
    chains: int
    lanes: tuple[int, ...]
    warps: bool
    lane_slots: int = 1
    together: int = 0
    apart: int = 1


def _plan(operand: Layout, result: Layout, axis: int) -> _Plan:
    count = elements_of(operand)
    match operand, result:
        case Accumulator(rows, columns), Along(parent, 1) if axis == 1 and parent.rows == rows:
            first = "r * 2" if rows <= 64 else f"r / 2 * {columns // 2} + r % 2 * 2"
            return _Plan(first, "i * 4", columns // 8, 2, () if result.parts else _ACROSS_COLUMNS, warps=False)
        case Along(_, 1, True), Along(_, 1, False):
            return _Plan("r", "0", 1, 1, _ACROSS_COLUMNS, warps=False)
        case Accumulator(rows, columns), Along(parent, 0) if axis == 0 and parent.columns == columns:
            offset = f"i / 2 * {columns // 2} + i % 2 * 2"
            return _Plan("r / 2 * 4 + r % 2", offset, max(2, rows // 32), 1, _ACROSS_ROWS, warps=True, lane_slots=4)
        case Blocked(), Uniform():
            return _Plan("0", "i", count, 1, _ALL_LANES, warps=True)
        case Blocked(), Slice(parent) if as_matrix(operand, axis) == parent and result.axis == (1 if axis else 0):
            return _of_rows(result) if result.axis == 1 else _of_columns(result)
        case Slice(_, 1), Uniform() if operand.is_long:
            return _Plan("0", "i", count, 1, (), warps=False)
        case Slice(_, 1), Uniform():
            lanes = tuple(n for n in _ALL_LANES if n >= operand.sharing)
            return _Plan(
                "0",
                "i",
                count,
                1,
                lanes,
                warps=True,
                together=operand.parent.threads // 32 // max(1, operand.sharing // 32),
                apart=max(1, operand.sharing // 32),
            )
        case Slice(), Uniform() if operand.is_long:
            return _Plan("0", "i", count, 1, _ALL_LANES, warps=True)
        case Slice(), Uniform():
            lanes, warps = tuple(n for n in _ALL_LANES if n < operand.sharing), max(1, operand.sharing // 32)
            return _Plan("0", "i", count, 1, lanes, warps=warps > 1, together=warps)
        case Along(_, 1), Uniform():
            return _Plan("0", "i", count, 1, _ACROSS_ROWS, warps=True)
        case Along(), Uniform():
            return _Plan("0", "i", count, 1, _ACROSS_COLUMNS, warps=False)
    raise exc.UnsupportedInKernel(f"no CUDA for a reduction of {operand} along axis {axis} to {result}")


def _of_rows(result: Slice) -> _Plan:
    """Of a blocked matrix, along its rows."""
    if result.is_long:
        each = result.parent.shape[1] // result.parent.threads
        return _Plan(f"r * {each}", "i", each, 1, _ALL_LANES, warps=True)
    run, warps = result.parent.run, max(1, result.sharing // 32)
    lanes = tuple(n for n in _ALL_LANES if n < result.sharing)
    return _Plan(f"r * {run}", "i", run, 1, lanes, warps=warps > 1, together=warps)


def _of_columns(result: Slice) -> _Plan:
    """Of a blocked matrix, along its columns."""
    each = elements_of(result)
    if result.is_long:
        return _Plan("r", f"i * {each}", result.parent.shape[0], 1, (), warps=False)
    lanes, warps = tuple(n for n in _ALL_LANES if n >= result.sharing), max(1, result.sharing // 32)
    rounds = elements_of(result.parent) // result.parent.run
    return _Plan(
        "r", f"i * {each}", rounds, 1, lanes, True, min(32, result.sharing), result.parent.threads // 32 // warps, warps
    )


def print_reduce(stmt: Reduce, ctx: PrintContext) -> None:
    """Registers, lanes, warps."""
    operand, result, out = ctx.fragment(stmt.operand), ctx.fragment(stmt.result), ctx.out
    plan = _plan(operand.layout, result.layout, stmt.axis)
    if alone(ctx.program) and plan.offset == "i" and plan.chains == 1 and plan.items % _CHAINS == 0:
        plan = replace(plan, offset=f"i * {_CHAINS}", items=plan.items // _CHAINS, chains=_CHAINS)
    if plan.warps != crosses_warps(operand.layout, result.layout, stmt.axis):
        raise exc.UnsupportedInKernel(
            f"a reduction of {operand.layout} to {result.layout} over other warps than theirs"
        )
    element = working_element(operand.element)
    kind, count = value_type(element), elements_of(result.layout)
    with out.block():
        out.line(f"{kind} whole[{count}];")
        with out.unrolled(f"i32 r = 0; r < {count}; ++r"):
            _over_registers(stmt, plan, element, ctx)
            if plan.lanes:
                out.line(f"{kind} other;")
            for lanes in plan.lanes:
                out.line(f"other = shuffle_xor(whole[r], {lanes});")  # once, by all lanes: the combination may branch
                out.line(f"whole[r] = {combined(stmt, element, 'whole[r]', 'other')};")
        if plan.warps:
            _over_warps(stmt, plan, count, element, ctx)
        final = "whole[r]" if element == result.element else f"({value_type(result.element)})whole[r]"
        with out.unrolled(f"i32 r = 0; r < {count}; ++r"):
            out.line(f"{ctx.fragments[stmt.result]}[r] = {rounded(result.element, final)};")


def _over_registers(stmt: Reduce, plan: _Plan, element: str, ctx: PrintContext) -> None:
    """Independent chains, then their combination."""
    operand, out = ctx.fragment(stmt.operand), ctx.out

    def value(chain: int) -> str:
        place = " + ".join(part for part in (plan.first, plan.offset, str(chain)) if part != "0")
        unpadded = inside(operand.layout, place if place == "i" else f"({place})")
        text = ctx.value(stmt.operand, place)
        text = widened(stmt, operand.element, text) if element == "i32" != operand.element else text
        return f"({unpadded} ? {text} : {neutral(stmt, element)})" if unpadded else text

    if PAIRS in dict(stmt.attributes) and not plan.chains % 2:
        _over_pairs(plan, value, ctx)
        return
    chains = [f"chain{chain}" for chain in range(plan.chains)]
    out.line(f"{value_type(element)} {', '.join(chains)};")
    with out.unrolled(f"i32 i = 0; i < {plan.items}; ++i"):
        for number, chain in enumerate(chains):
            one = value(number)
            out.line(f"{chain} = i == 0 ? {one} : {combined(stmt, element, chain, one)};")
    total = chains[0]
    for chain in chains[1:]:
        total = combined(stmt, element, total, chain)
    out.line(f"whole[r] = {total};")


def _over_pairs(plan: _Plan, value: Callable[[int], str], ctx: PrintContext) -> None:
    """Sums of two chains by one instruction."""
    out, pairs = ctx.out, [f"chains{first}" for first in range(0, plan.chains, 2)]
    out.line(f"u64 {', '.join(pairs)};")
    with out.unrolled(f"i32 i = 0; i < {plan.items}; ++i"):
        for number, pair in enumerate(pairs):
            one = f"pair_of({value(2 * number)}, {value(2 * number + 1)})"
            out.line(f"{pair} = i == 0 ? {one} : {paired('add', (pair, one), ctx)};")
    total = pairs[0]
    for pair in pairs[1:]:
        total = paired("add", (total, pair), ctx)
    out.line("float first, second;")
    out.line(f"parts_of(first, second, {total});")
    out.line("whole[r] = first + second;")


def _over_warps(stmt: Reduce, plan: _Plan, count: int, element: str, ctx: PrintContext) -> None:
    """Each warp writes what it has, all read all of it in the same order."""
    if stmt.scratch is None or stmt.barrier is None:
        raise exc.UnsupportedInKernel("a reduction over warps without scratch memory or a barrier of its own")
    out, kind, size = ctx.out, value_type(element), BYTES[element]
    warps = ctx.group.threads // 32
    together = plan.together or warps
    room, buffer = warps * count * plan.lane_slots * size, ctx.program.buffers[stmt.scratch]
    if room > buffer.bytes:
        raise exc.UnsupportedInKernel(f"'{buffer.name}' has {buffer.bytes} bytes for a reduction that needs {room}")
    out.line(f"const u32 scratch = smem + {ctx.shared.buffers[stmt.scratch]} + lane % {plan.lane_slots} * {size};")
    row = plan.lane_slots * size
    with out.block(f"if (lane < {plan.lane_slots})"), out.unrolled(f"i32 r = 0; r < {count}; ++r"):
        out.line(f"write_shared(scratch + (warp * {count} + r) * {row}, whole[r]);")
    out.line(ctx.barrier("sync", stmt.barrier))
    first = ""
    if together < warps:
        first = f"warp % {plan.apart}" if plan.apart > 1 else f"warp / {together} * {together}"
        first = f"({first}) * {count * row} + "
    with out.unrolled(f"i32 r = 0; r < {count}; ++r"):
        out.line(f"whole[r] = read_shared<{kind}>(scratch + {first}r * {row});")
        with out.unrolled(f"i32 w = 1; w < {together}; ++w"):
            next_ = f"w * {plan.apart}" if plan.apart > 1 else "w"
            other = f"read_shared<{kind}>(scratch + {first}({next_} * {count} + r) * {row})"
            out.line(f"const {kind} other = {other};")
            out.line(f"whole[r] = {combined(stmt, element, 'whole[r]', 'other')};")


def working_element(element: str) -> str:
    """What is shuffled and combined: predicates and short integers as i32, small floats as f32."""
    if element in SMALL:
        return "f32"
    return "i32" if element in ("i1", "i8", "i16") else element


def widened(stmt: Reduce | Scan, operand: str, text: str) -> str:
    """A predicate or short integer as i32, with the order that it has among its own."""
    if _signed(stmt):
        return f"(i32){text}"
    return f"(i32)({_UNSIGNED.get(operand, 'u32')}){text}"


_UNSIGNED = {"i8": "u8", "i16": "u16"}


def _signed(stmt: Reduce | Scan) -> bool:
    return bool(dict(stmt.attributes).get("signed", 1))


def combined(stmt: Reduce | Scan, element: str, left: str, right: str) -> str:
    """What two elements become."""
    operation = ElementwiseOperation(stmt.combine, (left, right), (element, element), element, dict(stmt.attributes))
    return print_elementwise(operation).text


def neutral(stmt: Reduce | Scan, element: str) -> str:
    """The element that changes nothing. Maxima and minima that do not propagate NaN leave it out, so NaN is neutral to
    them; an infinity is not, since of NaN alone they are NaN."""
    if is_float(element) and stmt.combine in ("max", "min") and not dict(stmt.attributes).get("propagate_nan"):
        return literal(math.nan, element)
    if is_float(element):
        return literal({"add": 0.0, "mul": 1.0, "max": float("-inf"), "min": float("inf")}[stmt.combine], element)
    bits = 8 * BYTES[element]
    least, most = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if _signed(stmt) else (0, -1)
    return literal({"add": 0, "mul": 1, "max": least, "min": most, "and": -1, "or": 0, "xor": 0}[stmt.combine], element)
