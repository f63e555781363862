"""What statements ask of their operands: shapes, layouts, element types, panels, descriptors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from twill.codegen.verify.abstract.memory import BITS
from twill.codegen.verify.abstract.mma_operands import (
    Fragments,
    copy_scales,
    load_accumulator,
    multiply,
    region,
    store_accumulator,
    store_scales,
    tensor_multiply,
)
from twill.codegen.verify.abstract.statements import is_partial
from twill.codegen.verify.abstract.violation import Violation
from twill.codegen.warp import program as ir
from twill.codegen.warp.effects import effects
from twill.codegen.warp.expression import Number
from twill.codegen.warp.layout import (
    LANES_OF_A_ROW,
    THREADS,
    Accumulator,
    Along,
    AlongBlocked,
    Blocked,
    Layout,
    Slice,
    Uniform,
    as_matrix,
    columns_of,
    crosses_warps,
    has_slices,
    shape_of,
)
from twill.codegen.warp.ownership import register_moves

LARGEST_BOX = 256  # elements of a box along one axis
WIDEST = 8  # bytes of an element of a tensor map
LANES = 32  # of a warp


def operand_violations(program: ir.WarpProgram, group: ir.WarpGroup) -> Iterator[Violation]:
    """Every statement of a group whose operands do not fit."""
    fragments = {fragment.id: fragment for fragment in group.fragments}
    context = (program, fragments)
    for fragment in group.fragments:
        dealt = dealt_to(fragment.layout)
        if dealt and not group.issuer and dealt != group.threads:
            text = f"`{fragment.name}` is dealt to {dealt} threads, {group.role} has {group.threads}"
            yield Violation("layout", text, 0, group.role)
    for stmt in group.stmts:
        for number in set().union(*effects(stmt)) if not isinstance(stmt, ir.Compute | ir.Reduce | ir.Copy) else ():
            if number in fragments and is_partial(fragments[number]):
                text = f"{type(stmt).__name__} by {group.role}: `{fragments[number].name}` has parts of numbers"
                yield Violation("layout", text, stmt.line, group.role)
        rule = _RULES.get(type(stmt))
        if rule is None:
            continue
        try:
            texts = [*rule(stmt, *context)]
        except KeyError as missing:
            texts = [f"names fragment {missing}, which is none of its warp group's"]
        for text in texts:
            yield Violation("layout", f"{type(stmt).__name__} by {group.role}: {text}", stmt.line, group.role)


def dealt_to(layout: Layout) -> int:
    """How many threads a tile, or what is left of one, is dealt to; 0 for a number, which all have."""
    whole = layout.parent if isinstance(layout, Slice | AlongBlocked | Along) else layout
    return whole.threads if isinstance(whole, Blocked) else THREADS if isinstance(whole, Accumulator) else 0


def _copy_box(meant: ir.TensorMapSpec, ref: ir.SlotRef, coordinates: int, program: ir.WarpProgram) -> Iterator[str]:
    buffer, size = program.buffers[ref.buffer], BITS[meant.element] // 8
    rows, columns = region(program, ref)
    if coordinates != len(meant.box) or len(meant.strides) != len(meant.box) or len(meant.sizes) != len(meant.box):
        yield f"{coordinates} coordinates in a tensor map of rank {len(meant.box)}"
    whole = len(buffer.shape) < 2 and rows * columns == buffer.shape[0]  # in the order of the box
    if math.prod(meant.box) != rows * columns or not (whole or meant.box[-1] == columns):
        box = " x ".join(map(str, meant.box))
        yield f"a box of {box} for {rows} x {columns} elements of `{buffer.name}`"
    counted = (*meant.box[:-1], meant.box[-1] // meant.together)
    if max(counted) > LARGEST_BOX:
        yield f"a box of {max(counted)} elements along one axis, possible are {LARGEST_BOX}"
    if meant.together * size > WIDEST or meant.box[-1] % meant.together:
        yield f"{meant.together} elements of {size} bytes as one in rows of {meant.box[-1]}"
    if meant.box[-1] * size % 16:
        yield f"a box with rows of {meant.box[-1] * size} bytes, possible are multiples of 16"
    if meant.element != buffer.element:
        yield f"{meant.element} elements in `{buffer.name}`, which has {buffer.element}"
    if len(buffer.shape) < 2:
        return
    if meant.swizzle != buffer.swizzle:
        yield f"swizzled by {meant.swizzle} bytes, `{buffer.name}` by {buffer.swizzle}"
    if meant.swizzle and meant.box[-1] * size > meant.swizzle:
        yield f"rows of {meant.box[-1] * size} bytes, more than the swizzle of {meant.swizzle}"
    start = (ref.columns or (0, 0))[0] * size
    if start % buffer.panel or columns * size > buffer.panel:
        yield f"bytes {start} to {start + columns * size} of the rows of `{buffer.name}` are not one panel"
    if ref.rows is not None and ref.rows[0] * buffer.panel % (8 * buffer.swizzle or 16):
        yield f"begins at row {ref.rows[0]} of `{buffer.name}`, inside of a swizzle pattern"


def _tma_load(stmt: ir.TmaLoad, program: ir.WarpProgram, fragments: Fragments) -> Iterator[str]:
    return _copy_box(program.maps[stmt.map], stmt.target, len(stmt.coordinates), program)


def _tma_store(stmt: ir.TmaStore, program: ir.WarpProgram, fragments: Fragments) -> Iterator[str]:
    return _copy_box(program.maps[stmt.map], stmt.source, len(stmt.coordinates), program)


def _tile(ref: ir.SlotRef, program: ir.WarpProgram, transposed: bool) -> tuple[int, ...]:
    found = region(program, ref)
    shape: tuple[int, ...] = found[1:] if len(program.buffers[ref.buffer].shape) < 2 else found
    return shape[::-1] if transposed else shape


def _element(buffer: ir.Buffer, fragment: ir.Fragment) -> Iterator[str]:
    if buffer.element != fragment.element:
        yield f"`{buffer.name}` is {buffer.element}, `{fragment.name}` is {fragment.element}"


def _load_shared(stmt: ir.LoadShared, program: ir.WarpProgram, fragments: Fragments) -> Iterator[str]:
    fragment, buffer = fragments[stmt.result], program.buffers[stmt.source.buffer]
    yield from _element(buffer, fragment)
    yield from _same(buffer, _tile(stmt.source, program, stmt.transposed), fragment, shape_of(fragment.layout))


def _store_shared(stmt: ir.StoreShared, program: ir.WarpProgram, fragments: Fragments) -> Iterator[str]:
    fragment, buffer = fragments[stmt.operand], program.buffers[stmt.target.buffer]
    yield from _element(buffer, fragment)
    shape = shape_of(fragment.layout)
    if stmt.columns is not None:
        across = shape[::-1] if stmt.transposed else shape
        if stmt.columns[1] > across[-1]:
            yield f"columns to {stmt.columns[1]} of `{fragment.name}`, which has {across[-1]}"
        some = (*across[:-1], stmt.columns[1] - stmt.columns[0])
        shape = some[::-1] if stmt.transposed else some
    yield from _same(buffer, _tile(stmt.target, program, stmt.transposed), fragment, shape)


def _same(buffer: ir.Buffer, tile: tuple[int, ...], fragment: ir.Fragment, shape: tuple[int, ...]) -> Iterator[str]:
    if len(shape) > 2 and len(tile) == 1:  # a tile of more axes lies in a buffer of one, its elements in their order
        shape = (math.prod(shape),)
    if [size for size in tile if size > 1] != [size for size in shape if size > 1]:
        yield f"a tile of {tile} in `{buffer.name}` and one of {shape} in `{fragment.name}`"


def _compute(stmt: ir.Compute, program: ir.WarpProgram, fragments: Fragments) -> Iterator[str]:
    result = fragments[stmt.result]
    for operand in stmt.operands:
        if isinstance(operand, ir.Reg):
            fragment = fragments[operand.fragment]
            if not spreads(fragment.layout, result.layout, operand.axes):
                yield f"`{fragment.name}` ({fragment.layout}) does not spread over `{result.name}` ({result.layout})"
    if is_partial(result) and not keeps_partials(stmt, fragments):
        yield f"`{stmt.kind}` of the parts in `{result.name}` is not that of their sums"


def keeps_partials(stmt: ir.Compute, fragments: Fragments) -> bool:
    """Whether what a statement does to parts is what it does to sums; or divides a sum into parts."""
    parts = [isinstance(o, ir.Reg) and is_partial(fragments[o.fragment]) for o in stmt.operands]
    if stmt.kind in ("add", "sub"):
        return all(parts)
    divides = stmt.operands[1:] == (Number(1 / LANES_OF_A_ROW, "f32"),)
    return stmt.kind == "mul" and (sum(parts) == 1 or (not any(parts) and divides))


def spreads(layout: Layout, over: Layout, axes: tuple[int, ...]) -> bool:
    """Whether every thread has the elements that it needs for its part of the result."""
    if isinstance(layout, Uniform) or layout == over and axes in ((), tuple(range(len(shape_of(over))))):
        return True
    match layout, over:
        case Along(_, _, True), _:
            return False
        case Along(parent, 1), Accumulator(rows, _):
            return parent.rows == rows and axes == (0, -1)
        case Along(parent, 0), Accumulator(_, columns):
            return parent.columns == columns and axes == (-1, 0)
        case Along(parent, 1), Along(other, 1):
            return parent.rows == other.rows
        case Along(parent, 0), Along(other, 0):
            return parent.columns == other.columns
        case AlongBlocked(parent, axis), Blocked():
            return parent == over and axes == ((0, -1) if axis == 1 else (-1, 0))
        case Blocked(shape, run, threads), Blocked(other_shape, other_run, others):
            return (run, threads) == (other_run, others) and math.prod(shape) == math.prod(other_shape)
        case Slice(parent, axis), Blocked():
            return parent == over and has_slices(parent) and axes == ((0, -1) if axis == 1 else (-1, 0))
    return False


def _own(barrier: int, program: ir.WarpProgram) -> Iterator[str]:
    if len(program.barriers[barrier].groups) > 1:
        yield f"barrier `{program.barriers[barrier].name}` is not its warp group's own"


def _holds(scratch: int, needed: int, what: str, program: ir.WarpProgram) -> Iterator[str]:
    if program.buffers[scratch].bytes < needed:
        yield f"scratch of {program.buffers[scratch].bytes} bytes, less than {needed} for {what}"


def _reduce(stmt: ir.Reduce, program: ir.WarpProgram, fragments: Fragments) -> Iterator[str]:
    operand, result = fragments[stmt.operand], fragments[stmt.result]
    match operand.layout, result.layout:
        case Accumulator(), Along(parent, axis):
            retained = parent.rows == operand.layout.rows if axis == 1 else parent.columns == operand.layout.columns
            if axis != stmt.axis or not retained:
                yield f"`{result.name}` does not lie along axis {stmt.axis} of `{operand.name}`"
        case Along(parent, 1, True), Along(other, 1, False) if stmt.combine == "add" and parent.rows == other.rows:
            pass
        case Blocked() as whole, Slice(parent, axis) if has_slices(parent):
            if as_matrix(whole, stmt.axis) != parent or axis != (1 if stmt.axis else 0):
                yield f"`{result.name}` does not lie along axis {stmt.axis} of `{operand.name}`"
        case ((Blocked() | Slice() | Along(parts=False)), Uniform()):
            pass
        case _:
            yield f"`{operand.name}` ({operand.layout}) is not reduced to `{result.name}` ({result.layout})"
    crosses = crosses_warps(operand.layout, result.layout, stmt.axis)
    if crosses and (stmt.scratch is None or stmt.barrier is None):
        yield f"`{operand.name}` is reduced across warps without scratch memory and a barrier"
    if not crosses and stmt.scratch is not None:
        yield f"`{operand.name}` is reduced within warps: nobody waits at `{program.buffers[stmt.scratch].name}`"
    if stmt.barrier is not None:
        yield from _own(stmt.barrier, program)
    threads = LANES if stmt.barrier is None else program.barriers[stmt.barrier].threads
    if stmt.scratch is not None:
        needed = threads // LANES * math.prod(shape_of(result.layout)) * BITS[result.element] // 8
        yield from _holds(stmt.scratch, needed, "a result of every warp", program)


def _scan(stmt: ir.Scan, program: ir.WarpProgram, fragments: Fragments) -> Iterator[str]:
    operand, result = fragments[stmt.operand], fragments[stmt.result]
    if (operand.element, operand.layout) != (result.element, result.layout):
        yield f"`{operand.name}` and `{result.name}` differ in layout or element type"
    if stmt.axis >= len(shape_of(operand.layout)):
        yield f"`{operand.name}` has no axis {stmt.axis}"
    yield from _own(stmt.barrier, program)
    needed = math.prod(shape_of(operand.layout)) * max(32, BITS[operand.element]) // 8
    yield from _holds(stmt.scratch, needed, "a tile", program)


def _rearrange(stmt: ir.Rearrange, program: ir.WarpProgram, fragments: Fragments) -> Iterator[str]:
    operands, result = [fragments[operand] for operand in stmt.operands], fragments[stmt.result]
    if any(operand.element != result.element for operand in operands):
        yield f"`{result.name}` is {result.element}, and what it is made of is not"
    room = sum(math.prod(shape_of(operand.layout)) for operand in operands)
    reach = [(extent - 1) * step for extent, step in zip(stmt.extents, stmt.steps, strict=True)]
    if stmt.index is not None:
        reach.append((stmt.extent - 1) * stmt.along)
        index = fragments[stmt.index]
        if index.layout != result.layout or not index.element.startswith("i"):
            yield f"`{index.name}` has no integer for each element of `{result.name}` in the thread that has that"
    low, high = (stmt.first + sum(f(0, part) for part in reach) for f in (min, max))
    if low < 0 or high >= room or math.prod(stmt.extents) != math.prod(shape_of(result.layout)):
        yield f"`{result.name}` is made of elements {low} to {high} of {room}"
    if stmt.scratch is None or stmt.barrier is None:
        digits = stmt.first, stmt.extents, stmt.steps
        moves = register_moves([operand.layout for operand in operands], result.layout, digits)
        if moves is None or stmt.index is not None:
            yield f"`{result.name}` is made of elements that other threads have, without scratch memory and a barrier"
        return
    yield from _own(stmt.barrier, program)
    yield from _holds(stmt.scratch, room * max(8, BITS[result.element]) // 8, "what is rearranged", program)


def _histogram(stmt: ir.Histogram, program: ir.WarpProgram, fragments: Fragments) -> Iterator[str]:
    operand, result = fragments[stmt.operand], fragments[stmt.result]
    if operand.element not in ("i32", "i64") or result.element != "i32" or len(shape_of(result.layout)) != 1:
        yield f"`{result.name}` is no vector of i32 that counts integers"
    if stmt.mask is not None and (fragments[stmt.mask].layout, fragments[stmt.mask].element) != (operand.layout, "i1"):
        yield f"`{fragments[stmt.mask].name}` has no truth value for each element of `{operand.name}`"
    yield from _own(stmt.barrier, program)
    yield from _holds(stmt.scratch, math.prod(shape_of(result.layout)) * 4, "what is counted", program)


def _sum_parts(stmt: ir.SumParts, program: ir.WarpProgram, fragments: Fragments) -> Iterator[str]:
    operand, result = fragments[stmt.operand], fragments[stmt.result]
    if operand.layout != result.layout or not isinstance(operand.layout, Accumulator):
        yield f"`{operand.name}` and `{result.name}` do not lie as one accumulator"
    if {operand.element, result.element} != {"f32"}:
        yield f"parts of `{operand.name}` are sums of {operand.element}, and only those of f32 meet"
    yield from _own(stmt.barrier, program)


def _make_map(stmt: ir.MakeMap, program: ir.WarpProgram, fragments: Fragments) -> Iterator[str]:
    makes = ((group.id, other) for group in program.groups for other in group.stmts if isinstance(other, ir.MakeMap))
    if len({(group, other.map) for group, other in makes if other.scratch == stmt.scratch}) > 1:
        name = program.maps[stmt.map].argument
        yield f"the tensor map of `{name}` is made in `{program.buffers[stmt.scratch].name}`, as another one is"


def _copy(stmt: ir.Copy, program: ir.WarpProgram, fragments: Fragments) -> Iterator[str]:
    source, result = fragments[stmt.source], fragments[stmt.result]
    if (source.element, columns_of(source.layout, stmt.columns)) != (result.element, result.layout):
        yield f"`{source.name}` and `{result.name}` differ in layout or element type"


_RULES: dict[type[ir.Stmt], Callable[[Any, ir.WarpProgram, Fragments], Iterator[str]]] = {
    ir.Multiply: multiply, ir.TensorMultiply: tensor_multiply, ir.CopyScales: copy_scales,
    ir.LoadAccumulator: load_accumulator,
    ir.MakeMap: _make_map, ir.StoreAccumulator: store_accumulator, ir.StoreScales: store_scales, ir.TmaLoad: _tma_load,
    ir.TmaStore: _tma_store, ir.LoadShared: _load_shared, ir.StoreShared: _store_shared, ir.Compute: _compute,
    ir.Reduce: _reduce,
    ir.Scan: _scan, ir.Rearrange: _rearrange, ir.Histogram: _histogram, ir.SumParts: _sum_parts, ir.Copy: _copy,
}  # fmt: skip
