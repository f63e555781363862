"""Copies by the TMA, and accesses of global memory by all threads."""

from __future__ import annotations

from collections.abc import Sequence

from twill import exc
from twill.codegen.print.gluon import hopper
from twill.codegen.print.gluon.layouts import Layout, Products, SlicedLayout
from twill.codegen.print.gluon.role import Role
from twill.codegen.print.gluon.scalars import ATOM, SUM, Text
from twill.codegen.print.gluon.scales import block_of_scales, tile_shape
from twill.codegen.warp import program as ir
from twill.codegen.warp.expression import Expr, moved

AXES = 2  # of a tile


# ---------------------------------------------------------------- tensor maps
def print_tma_load(boxes: Sequence[ir.TmaLoad], role: Role) -> None:
    """The boxes of one tile, as one copy; Gluon divides it where the hardware needs it."""
    first = boxes[0]
    of_scales = block_of_scales(boxes, role.program)
    block = of_scales or _tile([box.target for box in boxes], [box.coordinates for box in boxes], role, first.line)
    name = role.descriptor(first.map, block)
    at = ", ".join(role.scalar(coordinate).text for coordinate in first.coordinates)
    assert first.target.cursor == first.cursor, "a copy fills the slot at whose barrier it arrives"
    ring = role.ring_of_tile(first.target)
    role.out.fact("copy into shared memory", first.line)
    whole = tile_shape(role.program, role.program.buffers[first.target.buffer]) == block
    method = "load" if whole else "load_slice"
    role.out.call(f"{ring}.{method}", [name, f"[{at}]", role.count(first.cursor)], kernel=first.line)


def print_tma_store(boxes: Sequence[ir.TmaStore], role: Role) -> None:
    """The boxes of one tile, as one copy, which may be atomic."""
    first = boxes[0]
    if first.combine and first.combine not in hopper.ATOMICS:
        raise exc.NotInGluon(f"stores that combine by `{first.combine}` have no printer for Gluon", line=first.line)
    block = _tile([box.source for box in boxes], [box.coordinates for box in boxes], role, first.line)
    name = role.descriptor(first.map, block)
    at = ", ".join(role.scalar(coordinate).text for coordinate in first.coordinates)
    tile = role.place(first.source.whole)
    if block != role.program.buffers[first.source.buffer].shape:
        tile += f".reshape([{', '.join(map(str, block))}])"
    role.out.fact(hopper.atomic_fact(first.combine) if first.combine else "copy out of shared memory", first.line)
    role.out.call(f"tma_{first.combine or 'store'}", [name, f"[{at}]", tile], kernel=first.line)


def _tile(refs: Sequence[ir.SlotRef], at: Sequence[tuple[Expr, ...]], role: Role, line: int) -> tuple[int, ...]:
    """The block that boxes make up: all of a tile, side by side, each where its part of the tile belongs. Of tensors of
    more axes than tiles have, it is 1 along the others, whose coordinates all boxes have; so it is along the rows of a
    vector."""
    buffer = role.program.buffers[refs[0].buffer]
    if len(at[0]) < AXES or len(buffer.shape) > AXES:
        raise exc.NotInGluon(f"the tile `{buffer.name}` has {len(buffer.shape)} axes, not 2", line=line)
    rows, columns = (1, *buffer.shape)[-AXES:]
    covered = 0
    for ref, coordinates in zip(refs, at, strict=True):
        top, bottom = ref.rows or (0, rows)
        left, right = ref.columns or (0, columns)
        want = (*at[0][:-AXES], moved(at[0][-2], top), moved(at[0][-1], left))
        if coordinates != want:
            raise exc.NotInGluon(f"the boxes of `{buffer.name}` do not lie side by side in the tensor", line=line)
        covered += (bottom - top) * (right - left)
    if covered != rows * columns or (refs[0].rows or (0, 0))[0] or (refs[0].columns or (0, 0))[0]:
        raise exc.NotInGluon(f"a copy fills a part of the tile `{buffer.name}`", line=line)
    return (*(1 for _ in at[0][:-AXES]), rows, columns)


# ---------------------------------------------------------------- by all threads
def print_load_global(stmt: ir.LoadGlobal, role: Role) -> None:
    """A window of global memory into registers."""
    layout = role.layouts[stmt.result]
    pointer, mask = _window(stmt.window, layout, stmt.transposed, role, stmt.line)
    mask = _masked(mask, stmt.mask, role)
    extra = [f"mask={mask}", f"other={stmt.window.pad!r}"] if mask else []
    role.out.call(f"{role.name(stmt.result)} = gl.load", [pointer, *extra], kernel=stmt.line)


def print_store_global(stmt: ir.StoreGlobal, role: Role) -> None:
    """A tile in registers into a window of global memory."""
    if not isinstance(stmt.operand, ir.Reg):
        raise exc.NotInGluon("a store of one number to a whole window has no printer for Gluon", line=stmt.line)
    text, layout = role.value(stmt.operand.fragment)
    pointer, mask = _window(stmt.window, layout, stmt.transposed, role, stmt.line)
    mask = _masked(mask, stmt.mask, role)
    role.out.call("gl.store", [pointer, text.text, *([f"mask={mask}"] if mask else [])], kernel=stmt.line)


def _masked(mask: str, fragment: int | None, role: Role) -> str:
    if fragment is None:
        return mask
    own = role.value(fragment)[0].within(ATOM)
    return f"({mask}) & {own}" if mask else own


def _window(window: ir.Window, layout: Layout, transposed: bool, role: Role, line: int) -> tuple[str, str]:
    """The pointers of a window, and the condition under which they may be used ("": always)."""
    axes = window.axes[::-1] if transposed else window.axes
    role.used.add(window.argument)
    terms, masks = [], []
    for number, axis in enumerate(axes):
        spread = "" if len(axes) == 1 else "[:, None]" if number == 0 else "[None, :]"
        index = _index(axis, _axis_layout(layout, number, len(axes), line), spread, role, line)
        stride = role.scalar(axis.stride)
        terms.append(index if stride.text == "1" else Text(f"{stride.within(2)} * {index.within(1)}", 2))
        for bound, sign in ((axis.lower, ">="), (axis.upper, "<")):
            if bound is not None:
                masks.append(f"{index.within(7)} {sign} {role.scalar(bound).within(7)}")
    constant = role.scalar(window.constant)
    parts = [Text(window.argument), *([constant] if constant.text != "0" else []), *terms]
    return " + ".join(part.within(SUM) for part in parts), " & ".join(f"({m})" if len(masks) > 1 else m for m in masks)


def _index(axis: ir.WindowAxis, layout: Layout, spread: str, role: Role, line: int) -> Text:
    """A variable for the elements of an axis, as a vector along its axis of the tile."""
    within = f"gl.arange(0, {axis.extent}, layout={role.layout(layout)}){spread}"
    offset = role.scalar(axis.offset)
    kind = (axis.extent, role.layout(layout), spread)
    name = role.offsets.setdefault(kind, "") or role.free_local("offs")
    role.offsets[kind] = name
    role.out.line(f"{name} = {within}" if offset.text == "0" else f"{name} = {offset.within(SUM)} + {within}", line)
    return Text(name)


def _axis_layout(layout: Layout, axis: int, rank: int, line: int) -> Layout:
    if rank == 1:
        return layout
    if not isinstance(layout, Products):
        raise exc.NotInGluon("operands of products are not loaded by threads", line=line)
    return SlicedLayout(1 - axis, layout.columns, layout.rows)
