"""Products with scales of blocks: the ways of scales into tensor memory, and the products that read them there."""

from __future__ import annotations

from contextlib import nullcontext
from math import prod

from twill import exc
from twill.codegen.print.cuda.context import PrintContext
from twill.codegen.print.cuda.elements import vector_in_memory
from twill.codegen.print.cuda.places import indices, inside
from twill.codegen.print.cuda.print_wgmma import STEP_BYTES, side_of
from twill.codegen.print.cuda.tcgen05_descriptors import SCALED, scaled_instruction_descriptor
from twill.codegen.warp.layout import Blocked, elements_of
from twill.codegen.warp.program import CopyScales, SlotRef, StoreScales, TensorMultiply

CHUNK_ROWS, CHUNK_SCALES, CHUNK_BYTES, CHUNK_COLUMNS = 128, 4, 512, 4
"""Of 512 bytes of scales: rows, scales of each, columns of tensor memory (PTX ISA, "Scale Factor A Layout")."""
_LANES = 128
_STEPS = 4  # of a product that are unrolled: one word of scales of type e8m0 for e4m3


def print_copy_scales(stmt: CopyScales, ctx: PrintContext) -> None:
    """A copy for each chunk, issued by this thread."""
    source, target = ctx.buffer(stmt.source), ctx.buffer(stmt.target)
    chunks, high = prod(source.shape) // CHUNK_BYTES, stmt.rows // CHUNK_ROWS
    if chunks * CHUNK_BYTES != prod(source.shape) or high * CHUNK_ROWS != stmt.rows or chunks % high:
        raise exc.UnsupportedInKernel(f"`{source.name}` has no whole chunks of {CHUNK_BYTES} bytes of scales")
    if target.width != chunks * CHUNK_COLUMNS:
        raise exc.UnsupportedInKernel(f"`{target.name}` has {target.width} columns for {chunks} chunks of scales")
    for number in range(chunks):
        row, k = divmod(number, chunks // high)
        to = (k * high + row) * CHUNK_COLUMNS
        at, into = (
            f"{ctx.slot(ref)} + {more}" for ref, more in ((stmt.source, number * CHUNK_BYTES), (stmt.target, to))
        )
        ctx.out.line(f"tensor_copy_scales{_pair(stmt.target, ctx)}({into}, scales_descriptor({at}));")


def print_store_scales(stmt: StoreScales, ctx: PrintContext) -> None:
    """As many neighbours along K at a time as are in one word of a chunk."""
    held, buffer = ctx.fragment(stmt.operand), ctx.buffer(stmt.target)
    layout = held.layout
    if not isinstance(layout, Blocked) or len(layout.shape) != 2 or buffer.element != held.element:
        raise exc.UnsupportedInKernel(f"'{held.name}' are no scales that threads have in runs")
    rows, blocks = layout.shape
    if rows % CHUNK_ROWS or blocks % CHUNK_SCALES or prod(buffer.shape) != rows * blocks:
        raise exc.UnsupportedInKernel(
            f"`{buffer.name}` has no chunks of {CHUNK_BYTES} bytes for {rows} x {blocks} scales"
        )
    width = min(layout.run, CHUNK_SCALES)
    out, guard = ctx.out, inside(layout)
    with out.block():
        out.line(f"const u32 tile = {ctx.slot(stmt.target)};")
        with (
            out.unrolled(f"i32 i = 0; i < {elements_of(layout)}; i += {width}"),
            out.block(f"if ({guard})") if guard else nullcontext(),
        ):
            row, block = (index.text() for index in indices(layout))
            values = [ctx.value(stmt.operand, f"(i + {e})" if e else "i") for e in range(width)]
            kind, value = vector_in_memory(held.element, values)
            value = value if width > 1 else f"({kind}){value}"
            out.line(f"write_shared(scale_place<{blocks}>(tile, {row}, {block}), {value});")


def print_scaled_multiply(stmt: TensorMultiply, ctx: PrintContext) -> None:
    """All multiplies of one product with scales, issued by this thread: the instruction says which bytes of a word of
    scales are its own."""
    assert stmt.of_a is not None and stmt.of_b is not None
    rows, columns = ctx.buffer(stmt.target).shape
    a, b = (
        side_of(stmt.a, stmt.a_transposed, stmt.operand, ctx),
        side_of(stmt.b, not stmt.b_transposed, stmt.operand, ctx),
    )
    try:
        scale, of_b = ctx.buffer(stmt.of_a).element, ctx.buffer(stmt.b).element
        kind, count = SCALED[stmt.operand, scale, stmt.block]
        pair = _pair(stmt.target, ctx)
        m = rows * (2 if pair else 1)
        instruction = scaled_instruction_descriptor(m, columns, stmt.operand, scale, bool(pair), of_b)
    except (KeyError, ValueError) as error:
        what = f"{stmt.operand} in blocks of {stmt.block} with scales of {scale}"
        raise exc.UnsupportedInKernel(f"no product of {rows} x {columns} of {what}") from error
    if rows != _LANES or stmt.depth % STEP_BYTES or a.mn_major or b.mn_major:
        raise exc.UnsupportedInKernel(f"a product of {rows} x {columns} over {stmt.depth} bytes with scales")
    with ctx.out.block():
        for name, side in (("desc_a", a), ("desc_b", b)):
            at = ctx.slot(side.ref) + (f" + {side.offset}" if side.offset else "")
            ctx.out.line(f"const u64 {name} = tensor_descriptor({side.descriptor(at)});")
        ctx.out.line(f"const bool more = {ctx.expression(stmt.accumulate)};")
        with ctx.out.unrolled(f"u32 ks = 0; ks < {stmt.depth // STEP_BYTES}; ++ks", _STEPS):
            inputs = ", ".join(f"descriptor_advance({n}, {s.advance(0)})" for n, s in (("desc_a", a), ("desc_b", b)))
            first = f"ks * {count} % {CHUNK_SCALES}"
            said = f"{instruction:#010x} | ({first}) << 4 | ({first}) << 29"
            scales = ", ".join(
                _scales(ref, high, count, ctx) for ref, high in ((stmt.of_a, rows), (stmt.of_b, columns))
            )
            ctx.out.line(
                f"tensor_multiply{pair}_{kind}({ctx.slot(stmt.target)}, {inputs}, {said}, {scales}, more || ks != 0);"
            )


def _scales(ref: SlotRef, rows: int, count: int, ctx: PrintContext) -> str:
    """C of the column with the scales of step `ks`, of which it has `count`."""
    return f"{ctx.slot(ref)} + ks * {count} / {CHUNK_SCALES} * {-(-rows // CHUNK_ROWS) * CHUNK_COLUMNS}"


def _pair(ref: SlotRef, ctx: PrintContext) -> str:
    """In the name of what is done to a ring: whether two CTAs do it together."""
    return "_pair" if any(ring.pair and ref.buffer in ring.buffers for ring in ctx.program.arefs) else ""
