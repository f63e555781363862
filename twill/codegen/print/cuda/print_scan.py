"""Scans: every line of a tile by one warp, from shared memory and back.

A lane combines a run of neighbours, the lanes of a warp meet by shuffles, and each lane goes through its run again from
what is before it: the same order in every launch. Floats are combined in blocks of a lane's run: what is before a block
is added once to what its elements have by themselves, so that small numbers meet small ones first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from twill import exc
from twill.codegen.print.cuda.context import PrintContext
from twill.codegen.print.cuda.elements import BYTES, value_type
from twill.codegen.print.cuda.places import inside, owner
from twill.codegen.print.cuda.print_elementwise import Computed
from twill.codegen.print.cuda.print_rearrange import number_of
from twill.codegen.print.cuda.print_reduce import combined, neutral, widened, working_element
from twill.codegen.print.cuda.print_registers import assign
from twill.codegen.warp.layout import elements_of, shape_of
from twill.codegen.warp.program import Scan

_LANES = 32
_UNROLLED = 8  # elements of a lane
_BLOCK = 8  # elements of a lane that are combined before what is before them comes in, at most


def print_scan(stmt: Scan, ctx: PrintContext) -> None:
    """All write their elements, each warp scans every fourth line, all read theirs."""
    operand, out = ctx.fragment(stmt.operand), ctx.out
    element = working_element(operand.element)
    kind, size, shape = value_type(element), BYTES[element], shape_of(operand.layout)
    room, buffer = math.prod(shape) * size, ctx.program.buffers[stmt.scratch]
    if room > buffer.bytes:
        raise exc.UnsupportedInKernel(f"'{buffer.name}' has {buffer.bytes} bytes for a scan that needs {room}")
    sync = ctx.barrier("sync", stmt.barrier)
    with out.block():
        out.line(f"const u32 scratch = smem + {ctx.shared.buffers[stmt.scratch]};")
        mine = " && ".join(part for part in (owner(operand.layout), inside(operand.layout)) if part)
        with out.unrolled(f"i32 i = 0; i < {elements_of(operand.layout)}; ++i"):
            value = ctx.value(stmt.operand, "i")
            value = widened(stmt, operand.element, value) if element == "i32" != operand.element else f"({kind}){value}"
            store = f"write_shared(scratch + {number_of(operand.layout, 'i')} * {size}, {value});"
            out.line(f"if ({mine}) {store}" if mine else store)
        out.line(sync)
        _lines(stmt, shape, element, ctx)
        out.line(sync)
        there, final = inside(operand.layout), value_type(ctx.fragment(stmt.result).element)

        def scanned(i: str) -> Computed:
            text = f"read_shared<{kind}>(scratch + {number_of(operand.layout, i)} * {size})"
            condition = inside(operand.layout, i)
            return Computed(f"({final})({condition} ? {text} : ({kind})0)" if there else f"({final}){text}")

        assign(stmt.result, scanned, ctx)


def _lines(stmt: Scan, shape: tuple[int, ...], element: str, ctx: PrintContext) -> None:
    """The lines of a warp, one after the other."""
    out, kind, size = ctx.out, value_type(element), BYTES[element]
    length, step = shape[stmt.axis], math.prod(shape[stmt.axis + 1 :])
    run, lines = -(-length // _LANES), math.prod(shape) // length
    there = f"lane * {run} + j < {length}" if run * _LANES != length else ""
    with out.block(f"for (i32 line = warp; line < {lines}; line += {ctx.group.threads // _LANES})"):
        start = f"(line / {step} * {length * step} + line % {step})" if step > 1 else f"line * {length}"
        first = f"({length - 1} - lane * {run} - j)" if stmt.reverse else f"(lane * {run} + j)"
        place = f"scratch + ({start} + {first} * {step}) * {size}"
        read = f"read_shared<{kind}>({place})"
        one = f"const {kind} one = {f'{there} ? {read} : {neutral(stmt, element)}' if there else read};"
        head = f"i32 j = 0; j < {run}; ++j"
        loop = out.unrolled if run <= _UNROLLED else lambda head: out.block(f"for ({head})")
        if element in ("f32", "f64") and stmt.combine not in ("max", "min"):
            block = next(size for size in range(min(run, _BLOCK), 0, -1) if run % size == 0)
            _rounded(stmt, element, place, there, (run // block, block), ctx)
            return
        out.line(f"{kind} before, other;")
        with loop(head):
            out.line(one)
            out.line(f"before = j == 0 ? one : {combined(stmt, element, 'before', 'one')};")
        with out.unrolled(f"i32 d = 1; d < {_LANES}; d *= 2"):
            out.line("other = shuffle_up(before, d);")  # by all lanes: the combination may branch
            out.line(f"if (lane >= d) before = {combined(stmt, element, 'other', 'before')};")
        out.line("before = shuffle_up(before, 1);")
        with loop(head):
            out.line(one)
            out.line(f"before = lane == 0 && j == 0 ? one : {combined(stmt, element, 'before', 'one')};")
            store = f"write_shared({place}, before);"
            out.line(f"if ({there}) {store}" if there else store)


def _rounded(stmt: Scan, element: str, place: str, there: str, runs: tuple[int, int], ctx: PrintContext) -> None:
    """One line of floats. place, there: of element `j` of a lane's run. runs: how many blocks, and of how many
    elements."""
    out, kind, (blocks, size) = ctx.out, value_type(element), runs

    def combine(before: str, one: str) -> str:
        return combined(stmt, element, before, one)

    @contextmanager
    def elements() -> Iterator[None]:
        """Each element of a block, combined into `part`."""
        read = f"read_shared<{kind}>({place})"
        with out.unrolled(f"i32 e = 0; e < {size}; ++e"):
            out.line(f"const i32 j = b * {size} + e;")
            out.line(f"const {kind} one = {f'{there} ? {read} : {neutral(stmt, element)}' if there else read};")
            out.line(f"part = e == 0 ? one : {combine('part', 'one')};")
            yield

    each = f"i32 b = 0; b < {blocks}; ++b"
    out.line(f"{kind} part, before, done, other;")
    with out.block(f"for ({each})"):
        with elements():
            pass
        out.line(f"before = b == 0 ? part : {combine('before', 'part')};")
    with out.unrolled(f"i32 d = 1; d < {_LANES}; d *= 2"):
        out.line("other = shuffle_up(before, d);")
        out.line(f"if (lane >= d) before = {combine('other', 'before')};")
    out.line("before = other = shuffle_up(before, 1);")
    with out.block(f"for ({each})"):
        with elements():
            value = f"lane == 0 && b == 0 ? part : {combine('other', 'part')}"
            store = f"write_shared({place}, {value});"
            out.line(f"if ({there}) {store}" if there else store)
        if blocks > 1:
            out.line(f"done = b == 0 ? part : {combine('done', 'part')};")
            out.line(f"other = lane == 0 ? done : {combine('before', 'done')};")
