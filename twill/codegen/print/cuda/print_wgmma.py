"""Matrix products: fences, multiplies by 64 rows and at most 256 columns, groups and waits.

A product of layouts (rows, n) and depth k becomes, for each 64 rows and each part of the columns, a loop over k in
steps of 32 bytes. Operands in shared memory are described once (`twill/codegen/print/cuda/wgmma.cuh`), then moved by
constants.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from twill import exc
from twill.codegen.print.cuda.context import PrintContext
from twill.codegen.print.cuda.elements import BYTES, is_packed
from twill.codegen.print.cuda.multiply_shapes import MultiplyShape, Operand
from twill.codegen.warp.layout import Accumulator
from twill.codegen.warp.program import Buffer, Commit, Fence, Multiply, SlotRef, WaitGroups

OPERANDS: dict[str, Operand] = {"bf16": "bf16", "f16": "f16", "f8e4m3": "e4m3", "f8e5m2": "e5m2", "f32": "tf32"}
_ROWS, _MOST_COLUMNS = 64, 256
STEP_BYTES = 32  # of k, of one instruction


def print_fence(stmt: Fence, ctx: PrintContext) -> None:
    """Ties the fragments to this point, then the fence itself."""
    _pin(stmt.fragments, ctx)
    ctx.out.line("wgmma_fence();")


def print_commit(stmt: Commit, ctx: PrintContext) -> None:
    """End of a group."""
    ctx.out.line("wgmma_commit();")


def print_wait_groups(stmt: WaitGroups, ctx: PrintContext) -> None:
    """The wait, then nothing that reads the fragments moves before it."""
    ctx.out.line(f"wgmma_wait<{stmt.pending}>();")
    _pin(stmt.ready, ctx)


def _pin(fragments: tuple[int, ...], ctx: PrintContext) -> None:
    for number in fragments:
        fragment = ctx.fragment(number)
        if number in ctx.indices:
            continue
        packed = is_packed(fragment.element, fragment.layout) or number in ctx.byte_operands
        if fragment.element not in ("f32", "i32") and not packed:
            raise exc.UnsupportedInKernel(f"'{fragment.name}' of {fragment.element} cannot take part in a product")
        ctx.out.line(f"pin({ctx.fragments[number]});")


def print_multiply(stmt: Multiply, ctx: PrintContext) -> None:
    """All multiplies of one product."""
    accumulator, name = ctx.fragment(stmt.accumulator), ctx.fragments[stmt.accumulator]
    layout = accumulator.layout
    if not isinstance(layout, Accumulator) or accumulator.element != "f32":
        raise exc.UnsupportedInKernel(f"'{accumulator.name}' is not an f32 accumulator of a product")
    kind = OPERANDS[stmt.operand]
    step = STEP_BYTES // BYTES[stmt.operand]  # of k
    if stmt.depth % step:
        raise exc.UnsupportedInKernel(f"a product over {stmt.depth} {stmt.operand}, which is no multiple of {step}")
    operands = _Operands(stmt, layout, ctx)
    with ctx.out.block():
        operands.describe()
        for block in range(-(-layout.rows // _ROWS)):
            for column, columns in _parts(layout.columns, operands.unit):
                shape = MultiplyShape(kind, kind, columns, "register" if isinstance(stmt.a, int) else "shared")
                ctx.shapes.add(shape)
                first = block * layout.columns // 2 + column // 2
                whole = columns == layout.columns and layout.rows <= _ROWS
                target = name if whole else f"part<{columns // 2}>({name}, {first})"
                start = "true" if stmt.accumulate else "ks != 0"
                with ctx.out.unrolled(f"u32 ks = 0; ks < {stmt.depth // step}; ++ks"):
                    inputs = f"{operands.a(block)}, {operands.b(column)}"
                    ctx.out.line(f"{shape.name}{operands.majors(shape)}({target}, {inputs}, {start});")


def _parts(columns: int, unit: int) -> Iterator[tuple[int, int]]:
    """First column and number of columns of each multiply: as few as there can be, as equal as multiples of `unit`
    allow."""
    count = -(-columns // _MOST_COLUMNS)
    width = -(-columns // (unit * count)) * unit
    for first in range(0, columns, width):
        yield first, min(width, columns - first)


@dataclass(frozen=True)
class Side:
    """One operand in shared memory: rows are its M or N, columns its K (K-major), or the other way round (MN-major)."""

    ref: SlotRef
    buffer: Buffer
    mn_major: bool

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return BYTES[self.buffer.element]

    @property
    def panel_stride(self) -> int:
        """Bytes from one panel to the next."""
        return self.buffer.shape[0] * self.buffer.panel

    def descriptor(self, at: str) -> str:
        """C of the descriptor of the first element."""
        swizzle = self.buffer.swizzle
        if self.mn_major:
            return f"descriptor_mn_major<{swizzle}>({at}, {self.panel_stride})"
        return f"descriptor_k_major<{swizzle}>({at})"

    def advance(self, mn: int) -> str:
        """C of the bytes from the first element to (`mn` along M or N, step `ks` along K)."""
        panel = self.buffer.panel
        if self.mn_major:
            if mn * self.size % panel:
                raise exc.UnsupportedInKernel(f"part {mn} of '{self.buffer.name}' starts within a panel")
            step, offset = STEP_BYTES // self.size * panel, mn * self.size // panel * self.panel_stride
            return f"ks * {step}" + (f" + {offset}" if offset else "")
        steps = panel // STEP_BYTES
        ks = f"(ks + {self.first_step})" if self.first_step else "ks"
        inside = f"{ks} % {steps} * {STEP_BYTES} + {ks} / {steps} * {self.panel_stride}"
        if self.buffer.shape[1] * self.size <= panel:
            inside = f"{ks} * {STEP_BYTES}"
        return inside + (f" + {mn * panel}" if mn else "")

    @property
    def first_step(self) -> int:
        """Of a K-major part, the steps before it."""
        return 0 if self.mn_major else (self.ref.columns or (0, 0))[0] * self.size // STEP_BYTES

    @property
    def offset(self) -> int:
        """Bytes from the tile to the part, without those steps."""
        return (self.ref.rows or (0, 0))[0] * self.buffer.panel


class _Operands:
    """What A and B are called in the loop over k."""

    def __init__(self, stmt: Multiply, layout: Accumulator, ctx: PrintContext) -> None:
        self._ctx = ctx
        self._registers = stmt.a if isinstance(stmt.a, int) else None
        self._per_block = stmt.depth * BYTES[stmt.operand] // 8  # registers of A for each 64 rows
        self._b = side_of(stmt.b, not stmt.b_transposed, stmt.operand, ctx)
        self._a = side_of(stmt.a, stmt.a_transposed, stmt.operand, ctx) if isinstance(stmt.a, SlotRef) else None
        if self._registers is not None:
            fragment = ctx.fragment(self._registers)
            held = is_packed(fragment.element, fragment.layout) or self._registers in ctx.byte_operands
            if fragment.layout != Accumulator(layout.rows, stmt.depth) or not held:
                raise exc.UnsupportedInKernel(f"'{fragment.name}' is not an A operand of {layout.rows} x {stmt.depth}")

    @property
    def unit(self) -> int:
        """Columns after which B can be divided."""
        return self._b.buffer.panel // self._b.size if self._b.mn_major else 8

    def describe(self) -> None:
        """Print the descriptors."""
        for name, side in (("desc_a", self._a), ("desc_b", self._b)):
            if side:
                offset = self._ctx.part(side.ref) if side.mn_major else side.offset
                at = self._ctx.slot(side.ref) + (f" + {offset}" if offset else "")
                self._ctx.out.line(f"const u64 {name} = {side.descriptor(at)};")

    def a(self, block: int) -> str:
        """C of A at step `ks`, for a block of 64 rows."""
        if self._a:
            return f"descriptor_advance(desc_a, {self._a.advance(block * _ROWS)})"
        assert self._registers is not None
        offset = block * self._per_block
        return f"{self._ctx.fragments[self._registers]} + " + (f"({offset} + 4 * ks)" if offset else "4 * ks")

    def b(self, column: int) -> str:
        """C of B at step `ks`, for columns from `column`."""
        return f"descriptor_advance(desc_b, {self._b.advance(column)})"

    def majors(self, shape: MultiplyShape) -> str:
        """Template arguments: 1 for what is MN-major."""
        flags = [int(side.mn_major) for side in (self._a, self._b) if side]
        if not shape.transposable or not any(flags):
            return ""
        return f"<{', '.join(map(str, flags))}>"


def side_of(ref: SlotRef, mn_major: bool, operand: str, ctx: PrintContext) -> Side:
    """Errors: UnsupportedInKernel for what the hardware cannot read."""
    buffer = ctx.buffer(ref)
    if BYTES[buffer.element] != BYTES[operand] or len(buffer.shape) != 2:
        kind = f"'{buffer.name}' {buffer.shape} of {buffer.element}"
        raise exc.UnsupportedInKernel(f"{kind} is no operand of {operand}")
    if buffer.swizzle != buffer.panel or buffer.swizzle not in (32, 64, 128):
        raise exc.UnsupportedInKernel(
            f"'{buffer.name}' has panels of {buffer.panel} bytes and a swizzle of {buffer.swizzle}: an operand of a"
            " product has both equal"
        )
    if mn_major and BYTES[operand] != 2:
        raise exc.UnsupportedInKernel(
            f"'{buffer.name}' of {buffer.element} would have to be read across its rows, which products do for 16-bit"
            " elements only"
        )
    side = Side(ref, buffer, mn_major)
    if not mn_major and (ref.columns or (0, 0))[0] * side.size % STEP_BYTES:
        raise exc.UnsupportedInKernel(f"part {ref.columns} of '{buffer.name}' starts within {STEP_BYTES} bytes")
    return side
