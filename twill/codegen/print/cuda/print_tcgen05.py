"""Products in tensor memory, and tensor memory into registers.

A product of 128 x n, or 64 x n, and depth k becomes a loop over k in steps of 32 bytes, as on Hopper; operands are
described and moved in the same way (`twill.codegen.print.cuda.print_wgmma`). A warp reads its quarter of the lanes in
two halves of 16, by the form of tcgen05.ld (16x256b) whose registers are those of an accumulator; of 64 rows it has 16,
in the first half (CUTLASS, mma_traits_sm100: tensor memory of M = 64).
"""

from __future__ import annotations

from collections.abc import Iterator

from twill import exc
from twill.codegen.print.cuda.context import PrintContext
from twill.codegen.print.cuda.elements import BYTES
from twill.codegen.print.cuda.print_scales import print_scaled_multiply
from twill.codegen.print.cuda.print_wgmma import OPERANDS, STEP_BYTES, side_of
from twill.codegen.print.cuda.tcgen05_descriptors import OPERANDS as KINDS
from twill.codegen.print.cuda.tcgen05_descriptors import instruction_descriptor
from twill.codegen.warp.layout import LANES, Accumulator
from twill.codegen.warp.program import LoadAccumulator, SlotRef, StoreAccumulator, TensorMultiply
from twill.codegen.warp.resources import COLUMN_BITS

_ROWS, _HALF, _MOST = (128, 64), 16, 64  # of a product; lanes of one load; columns of one load
_STEPS = 4  # of a product that are unrolled: the issuing thread has no registers for the descriptors of more
_OPERANDS, _SUMS = {**OPERANDS, "i8": "s8"}, {"f32": "f32", "i32": "s32"}  # as instruction descriptors name them
_GROUP = 8  # columns for each of a load's repetitions: four registers of a thread


def print_tensor_multiply(stmt: TensorMultiply, ctx: PrintContext) -> None:
    """All multiplies of one product, issued by this thread."""
    if stmt.block:
        print_scaled_multiply(stmt, ctx)
        return
    operand, of_b = _OPERANDS[stmt.operand], _OPERANDS[ctx.buffer(stmt.b).element]
    (rows, columns), sums = ctx.buffer(stmt.target).shape, _SUMS[ctx.buffer(stmt.target).element]
    held = ctx.buffer(stmt.a).tensor
    a = None if held else side_of(stmt.a, stmt.a_transposed, stmt.operand, ctx)
    b = side_of(stmt.b, not stmt.b_transposed, stmt.operand, ctx)
    pair = any(ring.pair and stmt.target.buffer in ring.buffers for ring in ctx.program.arefs)
    try:
        instruction = instruction_descriptor(
            2 * rows if pair else rows, columns, sums, operand, of_b,
            a_mn_major=a is not None and a.mn_major, b_mn_major=b.mn_major, pair=pair,
        )  # fmt: skip
    except ValueError as error:
        raise exc.UnsupportedInKernel(str(error)) from error
    step = STEP_BYTES // BYTES[stmt.operand]
    if rows not in _ROWS or stmt.depth % step:
        raise exc.UnsupportedInKernel(f"a product of {rows} x {columns} over {stmt.depth} {stmt.operand}")
    with ctx.out.block():
        for name, side in (("desc_a", a), ("desc_b", b)):
            if side is None:
                continue
            offset = ctx.part(side.ref) if side.mn_major else side.offset
            at = ctx.slot(side.ref) + (f" + {offset}" if offset else "")
            ctx.out.line(f"const u64 {name} = tensor_descriptor({side.descriptor(at)});")
        ctx.out.line(f"const bool more = {ctx.expression(stmt.accumulate)};")
        steps = stmt.depth // step
        with ctx.out.unrolled(f"u32 ks = 0; ks < {steps}; ++ks", _STEPS if steps > _STEPS else 0):
            left = f"{ctx.slot(stmt.a)} + ks * {STEP_BYTES * 8 // COLUMN_BITS}"
            if a is not None:
                left = f"descriptor_advance(desc_a, {a.advance(0)})"
            inputs = f"{left}, descriptor_advance(desc_b, {b.advance(0)})"
            name = f"tensor_multiply_{'a_' if held else ''}{'pair_' if pair else ''}{KINDS[operand][0]}"
            ctx.out.line(f"{name}({ctx.slot(stmt.target)}, {inputs}, {instruction:#010x}, more || ks != 0);")


def print_load_accumulator(stmt: LoadAccumulator, ctx: PrintContext) -> None:
    """A slot into the registers of an accumulator; every thread waits for its own part."""
    name, floats = ctx.fragments[stmt.result], ctx.fragment(stmt.result).element == "f32"
    with ctx.out.block():
        for first, at, columns in _moves(stmt.result, stmt.source, ctx):
            into = f"{name} + {first}" if floats else f"(float*)({name} + {first})"
            ctx.out.line(f"tensor_load_x{columns // _GROUP}({into}, {at});")
        ctx.out.line("tensor_wait_loads();")
        ctx.out.line(f"pin({name});")


def print_store_accumulator(stmt: StoreAccumulator, ctx: PrintContext) -> None:
    """The registers of an accumulator into a slot; every thread waits for its own part. Two elements of 16 bits are in
    one register, as they are in one column."""
    name, packed = ctx.fragments[stmt.operand], ctx.fragment(stmt.operand).element != "f32"
    with ctx.out.block():
        for first, at, columns in _moves(stmt.operand, stmt.target, ctx):
            place, kind = (first // 2, "packed_") if packed else (first, "")
            ctx.out.line(f"tensor_store_{kind}x{columns // _GROUP}({name} + {place}, {at});")
        ctx.out.line("tensor_wait_stores();")


def _moves(number: int, ref: SlotRef, ctx: PrintContext) -> Iterator[tuple[int, str, int]]:
    """Of a fragment from or to tensor memory: first element in registers, C of the address, columns of the tile; prints
    what all addresses have in common. Errors: UnsupportedInKernel for a fragment that does not lie so."""
    fragment, buffer = ctx.fragment(number), ctx.buffer(ref)
    layout, bits = fragment.layout, 8 * BYTES[fragment.element]
    if (
        not isinstance(layout, Accumulator)
        or layout.rows not in _ROWS
        or layout.warp_rows * ctx.group.threads // LANES != layout.rows
        or fragment.element != buffer.element
        or bits not in (COLUMN_BITS, COLUMN_BITS // 2)
    ):
        raise exc.UnsupportedInKernel(f"'{fragment.name}' does not lie as tensor memory is read and written")
    ctx.out.line(f"const u32 at = {ctx.slot(ref)} + (warp * {2 * _HALF} << 16);")
    before = (ref.columns or (0, 0))[0]
    for half in range(layout.warp_rows // _HALF):
        for column, columns in _pieces(layout.columns):
            first = half * layout.columns // 2 + column // 2
            place = (half * _HALF << 16) + (before + column) * bits // COLUMN_BITS
            yield first, f"at + {place}", columns


def _pieces(columns: int) -> Iterator[tuple[int, int]]:
    """First column and number of columns of each load: powers of two."""
    first = 0
    while first < columns:
        width = min(_MOST, 1 << (columns - first).bit_length() - 1)
        yield first, width
        first += width
