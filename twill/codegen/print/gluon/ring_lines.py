"""The lines of the kernel that make rings, and the buffers that are in none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twill.codegen.print.gluon import hopper
from twill.codegen.print.gluon.facts import inits
from twill.codegen.print.gluon.pairs import CTAS, divided_axes
from twill.codegen.print.gluon.role_names import identifier
from twill.codegen.print.gluon.scalars import BITS, TYPES
from twill.codegen.print.gluon.scales import SCALES, tile_shape
from twill.codegen.print.gluon.tensor_rings import hosted
from twill.codegen.print.gluon.writer import PythonWriter
from twill.codegen.warp.program import INSTANCE_RING, Aref, Buffer, TmaLoad, TmaStore, WarpProgram


def ring_name(program: WarpProgram, aref: Aref) -> str:
    """What a ring is called in the kernel; one of several tiles after the first of them."""
    named = program.buffers[min(aref.buffers)] if len(aref.buffers) > 1 else aref
    return f"{identifier(named.name)}_ring"


def buffer_name(program: WarpProgram, number: int) -> str:
    """What a buffer is called in the kernel."""
    name = identifier(program.buffers[number].name)
    return f"{name}_ring" if any(number in aref.buffers for aref in program.arefs) else name


def shared_layout(program: WarpProgram, buffer: Buffer) -> tuple[str, str]:
    """Name and definition of a buffer's layout in shared memory. program: of both CTAs if they are a pair."""
    if buffer.element == "i64" or any(a.transport == INSTANCE_RING and buffer.id in a.buffers for a in program.arefs):
        return "WORDS", "gl.SwizzledSharedLayout(vec=1, per_phase=1, max_phase=1, order=[0])"
    shape = tile_shape(program, buffer)
    bits, axis = BITS[buffer.element], divided_axes(program).get(buffer.id) if program.pairs else None
    name = f"SWIZZLED_{buffer.swizzle}" if bits == 16 else f"SWIZZLED_{buffer.swizzle}_OF_{bits}_BITS"
    suffix = "" if axis is None else "_BY_COLUMNS" if axis else "_BY_ROWS"
    return name + suffix + _axes(shape), hopper.shared_layout(buffer.swizzle, bits, len(shape), axis)


def _axes(shape: tuple[int, ...]) -> str:
    """What tells a layout of tiles of more axes than two."""
    return f"_OF_{len(shape)}_AXES" if len(shape) > 2 else ""


def map_layout(program: WarpProgram, number: int) -> str:
    """The name of the layout of the tiles that a tensor map copies."""
    buffer, rank = _copied(program, number), rank_of(program, number)
    name, shape = shared_layout(program, buffer)[0], tile_shape(program, buffer)
    return name if len(shape) == rank else f"{name.removesuffix(_axes(shape))}_OF_{rank}_AXES"


def rank_of(program: WarpProgram, number: int) -> int:
    """The axes of a tensor map."""
    return len(program.maps[number].box)


def part_of_cta(program: WarpProgram, number: int, block: tuple[int, ...]) -> tuple[int, ...]:
    """What one CTA copies of a block of a tensor map."""
    if not program.pairs:
        return block
    divided = divided_axes(program)[_copied(program, number).id]
    return tuple(extent // CTAS if axis == divided else extent for axis, extent in enumerate(block))


def _copies(program: WarpProgram, number: int) -> list[TmaLoad | TmaStore]:
    stmts = (stmt for group in program.groups for stmt in group.stmts)
    return [stmt for stmt in stmts if isinstance(stmt, TmaLoad | TmaStore) and stmt.map == number]


def _copied(program: WarpProgram, number: int) -> Buffer:
    """A buffer that a tensor map fills or empties."""
    stmt = _copies(program, number)[0]
    return program.buffers[(stmt.target if isinstance(stmt, TmaLoad) else stmt.source).buffer]


def layouts(program: WarpProgram, buffers: list[Buffer]) -> Iterator[tuple[str, str]]:
    """Names and definitions of the layouts of buffers, each once and in order."""
    own = {shared_layout(program, b) for b in buffers if not b.tensor}
    for number in range(len(program.maps)):
        if not _copies(program, number):
            continue
        buffer, rank = _copied(program, number), rank_of(program, number)
        if rank != len(tile_shape(program, buffer)):
            own.add((map_layout(program, number), hopper.shared_layout(buffer.swizzle, BITS[buffer.element], rank)))
    yield from sorted(own)


def print_memory(program: WarpProgram, buffers: list[Buffer], out: PythonWriter) -> None:
    """What partitions share, in the order of the buffers."""
    for buffer in buffers:
        having = [one for one in program.arefs if buffer.id in one.buffers]
        aref = next((one for one in having if min(one.buffers) != buffer.id), None)
        rings = [one for one in having if min(one.buffers) == buffer.id]
        if aref is not None:
            tiles = _allocated(program, buffer, aref.depth)
            if buffer.tensor:
                out.line(f"{buffer_name(program, buffer.id)} = {tiles}")
            else:
                out.call(f"{buffer_name(program, buffer.id)} = ring_beside", [ring_name(program, aref), tiles])
        elif not rings:
            out.line(f"{buffer_name(program, buffer.id)} = {_allocated(program, buffer)}")
        for ring in rings:
            if ring is rings[0]:
                _print_ring(ring, buffer, program, out)
            else:
                _print_call(ring, "ring", [f"{ring_name(program, rings[0])}.tiles"], program, out)


def _print_ring(ring: Aref, buffer: Buffer, program: WarpProgram, out: PythonWriter) -> None:
    """The ring that has a buffer first."""
    over = hosted(program, buffer)
    given = [f"gl.{TYPES[buffer.element]}", _shape(buffer.shape, ring.depth * (over.each if over is not None else 1))]
    if over is not None:
        host = next(one for one in program.arefs if over.host.id in one.buffers)
        more = [f"each={over.each}", f"first={over.first}"]
        _print_call(ring, "tensor_ring_over", [ring_name(program, host), *given], program, out, more)
    elif buffer.tensor:
        _print_call(ring, "tensor_ring", given, program, out)
    else:
        _print_call(ring, "ring", [_allocated(program, buffer, ring.depth)], program, out)


def _print_call(
    ring: Aref, maker: str, given: list[str], program: WarpProgram, out: PythonWriter, more: Sequence[str] = ()
) -> None:
    """Whole partitions arrive, each once, where warps do in the warp program; the TMA's bytes, and products that are
    over, come with one arrival."""
    full = ring.full_count if ring.transport in ("tma", "mma", INSTANCE_RING) else ring.full_count // hopper.WARPS
    issuing = sum(program.groups[consumer].issuer for consumer in ring.consumers)
    empty = issuing + (ring.empty_count - issuing) // hopper.WARPS
    if ring.pair:  # one barrier of a slot is the first CTA's, where each of the two arrives so often
        maker, in_tensor = f"{maker}_of_pair", ring.transport == "mma"
        empty = empty // CTAS if in_tensor else empty
        out.fact(inits([full, empty * CTAS] * ring.depth if in_tensor else [full * CTAS, empty] * ring.depth))
    else:
        out.fact(inits([full, empty] * ring.depth))
    out.call(f"{ring_name(program, ring)} = {maker}", [*given, f"full={full}", f"empty={empty}", *more])


def _allocated(program: WarpProgram, buffer: Buffer, depth: int = 0) -> str:
    """The call that gives a buffer its shared memory. depth: of its ring; 0 for one that is in none."""
    said = f"gl.{TYPES[buffer.element]}, {_shape(tile_shape(program, buffer), depth)}"
    if buffer.tensor:
        return f"{SCALES}({said})"
    return f"gl.allocate_shared_memory({said}, {shared_layout(program, buffer)[0]})"


def _shape(tile: tuple[int, ...], tiles: int) -> str:
    return f"[{', '.join(map(str, [*([tiles] if tiles else []), *tile]))}]"
