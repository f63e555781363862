"""Tensor maps that a warp group makes, in memory of its CTA behind the zeros of the workspace.

The launcher's template has the element type, the boxes and the swizzle. The CTA's setup copies it to shared memory, 8
threads each template. For each tensor one thread replaces where that begins, its sizes and strides there, copies the
map to the CTA's place, and makes the copies that follow see it (PTX ISA, "fence", .proxy.tensormap); what the TMA keeps
of a map is fetched at once for all of them, not by the first copy through each.
"""

from __future__ import annotations

from twill.codegen.print.cuda.context import PrintContext
from twill.codegen.print.cuda.elements import BYTES
from twill.codegen.print.cuda.shared import BARRIER_BYTES, SharedAddresses
from twill.codegen.print.cuda.writer import TextWriter
from twill.codegen.warp.expression import PerGroup
from twill.codegen.warp.program import MakeMap, Settle, ShowMaps, TmaStore, WarpProgram
from twill.codegen.warp.resources import MAP_BYTES
from twill.manifest.document import MAPS_AT, NOTHING_AT, PLACES

_PIECES = MAP_BYTES // 16  # of a map; all are in registers at once of a thread that does nothing else
_FEW_PIECES = 2  # and so many of one that computes
_LONGEST = 40  # bits: a stride is below 2^40 bytes (CUDA driver API, cuTensorMapEncodeTiled)
_ENDLESS = "0x7fffffff"  # elements along an axis that the kernel does not bound: coordinates have 31 bits


def map_name(number: int, program: WarpProgram) -> str:
    """C of a pointer to a tensor map."""
    return f"made_map{number}" if program.maps[number].made else f"&map{number}"


def declare_made_maps(groups: tuple[int, ...], ctx: PrintContext) -> None:
    """Where the maps of a role's warp groups are."""
    own = ctx.program.own_maps
    for number in sorted({number for group, number in own if group in groups}):
        place = ctx.expression(PerGroup(tuple(PLACES * own.index((group, number)) for group in groups)))
        at = f"{MAPS_AT} + ((u64)blockIdx.x * {PLACES * len(own)} + {place}) * {MAP_BYTES}"
        ctx.out.line(f"TensorMap* const first_map{number} = (TensorMap*)((char*)claims + {at});")
        ctx.out.line(f"TensorMap* made_map{number} = first_map{number};")
    for stmt in ctx.group.stmts:
        if isinstance(stmt, Settle):
            ctx.out.line(f"u32 {_settled(stmt, ctx)} = 0;")


def copy_templates(program: WarpProgram, shared: SharedAddresses, out: TextWriter) -> None:
    """The templates of all warp groups' maps, by the last threads of the CTA: the first one makes barriers."""
    places = sum(group.threads for group in program.groups) // _PIECES
    made = [stmt for group in program.groups for stmt in group.stmts if isinstance(stmt, MakeMap)]
    for number, stmt in enumerate(made):
        chosen = f"threadIdx.x / {_PIECES} == {places - 1 - number % places}"
        copy = f"map_from_template(smem + {shared.buffers[stmt.scratch]}, &map{stmt.map}, threadIdx.x % {_PIECES})"
        out.line(f"if ({chosen}) {copy};")


def _settled(stmt: Settle, ctx: PrintContext) -> str:
    """C of how many slots were filled at the last settling."""
    return f"{ctx.cursors[stmt.cursor]}_settled"


def print_make_map(stmt: MakeMap, ctx: PrintContext) -> None:
    """By one thread, from the template to memory of the CTA. A tensor without elements has one element, elsewhere."""
    meant, out = ctx.program.maps[stmt.map], ctx.out
    size, rank = BYTES[meant.element], len(stmt.sizes)
    with out.block("" if ctx.group.issuer else "if (leader)"):
        out.line(f"const u32 made = smem + {ctx.shared.buffers[stmt.scratch]};")
        for axis, stride in enumerate(stmt.strides[:-1]):
            out.line(f"const u64 stride{axis} = (u64)({ctx.expression(stride)}) * {size};")
            out.line(f"if (stride{axis} >> {_LONGEST}) __trap();  // negative, or too long for a tensor map")
        bounded = [axis for axis, one in enumerate(stmt.sizes) if one is not None]
        for axis, bound in enumerate(stmt.sizes):
            if bound is not None:
                out.line(f"const i64 size{axis} = {ctx.expression(bound)};")
        start = f"(u64)({ctx.arguments[meant.argument]} + {ctx.expression(stmt.offset)})"
        if bounded:
            empty = " || ".join(f"size{axis} < 1" for axis in bounded)
            out.line(f"const bool empty = {empty};")
            start = f"empty ? (u64)claims + {_nothing_at(stmt, ctx)} : {start}"
        out.line(f"map_address(made, {start});")
        for axis in range(rank):
            across = rank - 1 - axis  # innermost first, as the hardware counts
            extent = _extent(axis, axis in bounded, rank)
            out.line(f"map_size<{across}>(made, {f'empty ? 1 : {extent}' if bounded else extent});")
            if across:
                out.line(f"map_stride<{across - 1}>(made, stride{axis});")
        out.line(f"made_map{stmt.map} = other_map(made_map{stmt.map}, first_map{stmt.map});")
        at_once = _PIECES if ctx.group.issuer else _FEW_PIECES
        out.line(f"map_to_memory<{at_once}>(made_map{stmt.map}, made);")


def print_show_maps(stmt: ShowMaps, ctx: PrintContext) -> None:
    """By the thread that made them."""
    with ctx.out.block("" if ctx.group.issuer else "if (leader)"):
        ctx.out.line("map_release();")
        for number in stmt.maps:
            ctx.out.line(f"map_acquire(made_map{number});")
        for number in stmt.maps:
            ctx.out.line(f"tma_prefetch_map(made_map{number});")


def _nothing_at(stmt: MakeMap, ctx: PrintContext) -> str:
    """C of where the one element lies of a map whose tensor has none, from the workspace on: loads find a zero there;
    stores leave what nobody reads, behind the maps of all CTAs."""
    stores = any(isinstance(other, TmaStore) and other.map == stmt.map for other in ctx.group.stmts)
    return (
        f"{MAPS_AT} + (u64)gridDim.x * {PLACES * len(ctx.program.own_maps) * MAP_BYTES}" if stores else str(NOTHING_AT)
    )


def _extent(axis: int, bounded: bool, rank: int) -> str:
    """C of a size. One that is not bounded, times its stride, stays within what addresses can be."""
    if bounded:
        return f"(u32)min(size{axis}, (i64){_ENDLESS})"
    if axis == rank - 1:
        return _ENDLESS
    return f"(u32)min((u64){_ENDLESS}, (1ull << {_LONGEST}) / max(stride{axis}, 1ull))"


def print_settle(stmt: Settle, ctx: PrintContext) -> None:
    """By the thread that fills the ring: slot by slot, for those behind the cursor that were filled by then, if there
    are any. There seldom are, and the next copies wait for this."""
    cursor, ring, settled = ctx.cursors[stmt.cursor], ctx.aref(stmt.cursor), _settled(stmt, ctx)
    depth = ring.depth
    head = f"for (u32 back = 1; back <= {depth} && back <= {cursor}.count; ++back)"
    with ctx.out.block("" if ctx.group.issuer else "if (leader)"):
        with ctx.out.block(f"if ({cursor}.count < {settled} + {depth}) {head}"):
            full = f"smem + {ctx.shared.full[ring.id]} + ({cursor}.slot + {depth} - back) % {depth} * {BARRIER_BYTES}"
            wait = f"mbar_wait({full}, {cursor}.parity ^ (back > {cursor}.slot))"
            ctx.out.line(f"if ({cursor}.count - back < {settled}) {wait};")
        ctx.out.line(f"{settled} = {cursor}.count;")
