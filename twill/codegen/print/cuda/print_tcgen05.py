"""Products in tensor memory, and tensor memory into registers.

A product of 128 x n and depth k becomes a loop over k in steps of 32 bytes, as on Hopper; operands are described and
moved in the same way (`twill.codegen.print.cuda.print_wgmma`). A warp reads its quarter of the lanes in two halves of
16, by the form of tcgen05.ld (16x256b) whose registers are those of an accumulator.
"""

from __future__ import annotations

from collections.abc import Iterator

from twill import exc
from twill.codegen.print.cuda.context import PrintContext
from twill.codegen.print.cuda.elements import BYTES
from twill.codegen.print.cuda.print_wgmma import OPERANDS, STEP_BYTES, side_of
from twill.codegen.print.cuda.tcgen05_descriptors import OPERANDS as KINDS
from twill.codegen.print.cuda.tcgen05_descriptors import instruction_descriptor
from twill.codegen.warp.layout import Accumulator
from twill.codegen.warp.program import LoadAccumulator, TensorMultiply

_ROWS, _HALF, _MOST = 128, 16, 64  # of a product; lanes of one load; columns of one load
_GROUP = 8  # columns for each of a load's repetitions: four registers of a thread


def print_tensor_multiply(stmt: TensorMultiply, ctx: PrintContext) -> None:
    """All multiplies of one product, issued by this thread."""
    operand = OPERANDS[stmt.operand]
    rows, columns = ctx.buffer(stmt.target).shape
    a = side_of(stmt.a, stmt.a_transposed, stmt.operand, ctx)
    b = side_of(stmt.b, not stmt.b_transposed, stmt.operand, ctx)
    pair = any(ring.pair and stmt.target.buffer in ring.buffers for ring in ctx.program.arefs)
    try:
        instruction = instruction_descriptor(
            2 * rows if pair else rows, columns, "f32", operand, operand,
            a_mn_major=a.mn_major, b_mn_major=b.mn_major, pair=pair,
        )  # fmt: skip
    except ValueError as error:
        raise exc.UnsupportedInKernel(str(error)) from error
    step = STEP_BYTES // BYTES[stmt.operand]
    if rows != _ROWS or stmt.depth % step:
        raise exc.UnsupportedInKernel(f"a product of {rows} x {columns} over {stmt.depth} {stmt.operand}")
    with ctx.out.block():
        for name, side in (("desc_a", a), ("desc_b", b)):
            offset = ctx.part(side.ref) if side.mn_major else side.offset
            at = ctx.slot(side.ref) + (f" + {offset}" if offset else "")
            ctx.out.line(f"const u64 {name} = tensor_descriptor({side.descriptor(at)});")
        ctx.out.line(f"const bool more = {ctx.expression(stmt.accumulate)};")
        with ctx.out.unrolled(f"u32 ks = 0; ks < {stmt.depth // step}; ++ks"):
            inputs = f"descriptor_advance(desc_a, {a.advance(0)}), descriptor_advance(desc_b, {b.advance(0)})"
            name = f"tensor_multiply_{'pair_' if pair else ''}{KINDS[operand][0]}"
            ctx.out.line(f"{name}({ctx.slot(stmt.target)}, {inputs}, {instruction:#010x}, more || ks != 0);")


def print_load_accumulator(stmt: LoadAccumulator, ctx: PrintContext) -> None:
    """A slot, or some of its columns, into the registers of an accumulator; every thread waits for its own part."""
    fragment, name = ctx.fragment(stmt.result), ctx.fragments[stmt.result]
    layout = fragment.layout
    if not isinstance(layout, Accumulator) or layout.warp_rows != 2 * _HALF or fragment.element != "f32":
        raise exc.UnsupportedInKernel(f"'{fragment.name}' is not what tensor memory is read into")
    with ctx.out.block():
        first = (stmt.source.columns or (0, 0))[0]
        at = f"{ctx.slot(stmt.source)}{f' + {first}' if first else ''}"
        ctx.out.line(f"const u32 at = {at} + (warp * {2 * _HALF} << 16);")
        for half in range(2):
            for column, columns in _pieces(layout.columns):
                first = half * layout.columns // 2 + column // 2
                at = f"at + {(half * _HALF << 16) + column}"
                ctx.out.line(f"tensor_load_x{columns // _GROUP}({name} + {first}, {at});")
        ctx.out.line("tensor_wait_loads();")
        ctx.out.line(f"pin({name});")


def _pieces(columns: int) -> Iterator[tuple[int, int]]:
    """First column and number of columns of each load: powers of two."""
    first = 0
    while first < columns:
        width = min(_MOST, 1 << (columns - first).bit_length() - 1)
        yield first, width
        first += width
