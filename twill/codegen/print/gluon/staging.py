"""Staging buffers that are used in parts of columns, as a buffer for each part.

A tensor map of Gluon copies a whole tile of shared memory. A part of a buffer whose columns are whole panels is such a
tile: it lies in one piece, where its first panel does.
"""

from __future__ import annotations

from dataclasses import replace

from twill.codegen.print.gluon.ring_names import another
from twill.codegen.warp import program as ir

Parts = dict[int, dict[int, int]]  # buffer -> first column of a part -> the buffer of that part


def staged_in_parts(program: ir.WarpProgram) -> ir.WarpProgram:
    """The program whose staging buffers are stored to, and copied from, as wholes where they can be."""
    widths = {buffer.id: width for buffer in program.buffers if (width := _width(buffer, program))}
    buffers, parts = list[ir.Buffer](), Parts()
    added = len(program.buffers)
    more: list[ir.Buffer] = []
    for buffer in program.buffers:
        width = widths.get(buffer.id)
        if width is None:
            buffers.append(buffer)
            continue
        rows, columns = buffer.shape
        made = [_part(buffer, rows, first, width) for first in range(0, columns, width)]
        buffers.append(made[0])
        parts[buffer.id] = {0: buffer.id}
        for place, one in enumerate(made[1:], 1):
            parts[buffer.id][place * width] = added + len(more)
            more.append(replace(one, id=added + len(more)))
    if not parts:
        return program
    groups = tuple(replace(group, body=tuple(_stored(stmt, parts) for stmt in group.body)) for group in program.groups)
    return replace(program, buffers=(*buffers, *more), groups=groups)


def _part(buffer: ir.Buffer, rows: int, first: int, width: int) -> ir.Buffer:
    share = buffer.bytes * width // buffer.shape[1]
    number = first // width
    return replace(
        buffer,
        name=(buffer.name, *another(buffer.name))[number],
        shape=(rows, width),
        bytes=share,
        offset=buffer.offset + number * share,
    )


def _width(buffer: ir.Buffer, program: ir.WarpProgram) -> int | None:
    """Columns of the parts in which a buffer is stored to; None if it stays whole."""
    if any(buffer.id in aref.buffers for aref in program.arefs) or len(buffer.shape) != 2:
        return None
    stores = [s.target for g in program.groups for s in g.stmts if isinstance(s, ir.StoreShared)]
    copies = [s.source for g in program.groups for s in g.stmts if isinstance(s, ir.TmaStore)]
    mine = [ref.columns for ref in stores if ref.buffer == buffer.id]
    if not mine or None in mine:
        return None
    (width, *others) = {last - first for first, last in (columns for columns in mine if columns is not None)}
    size = buffer.bytes // (buffer.shape[0] * buffer.shape[1])
    if others or width * size % buffer.panel or any(first % width for first, _ in filter(None, mine)):
        return None
    out = [ref.columns for ref in copies if ref.buffer == buffer.id]
    if any(columns is None or columns[0] // width != (columns[1] - 1) // width for columns in out):
        return None
    return width


def _stored(stmt: ir.Stmt, parts: Parts) -> ir.Stmt:
    """A statement with parts in the place of their buffers."""
    match stmt:
        case ir.StoreShared(target=target) if target.buffer in parts:
            within = _within(target, parts)
            return replace(stmt, target=replace(within, columns=None))
        case ir.TmaStore(source=source) if source.buffer in parts:
            return replace(stmt, source=_within(source, parts))
    return ir.with_blocks(stmt, lambda block: tuple(_stored(inner, parts) for inner in block))


def _within(ref: ir.SlotRef, parts: Parts) -> ir.SlotRef:
    """A place in a buffer, in the one of its part."""
    assert ref.columns is not None
    of = parts[ref.buffer]
    first = max(begin for begin in of if begin <= ref.columns[0])
    return replace(ref, buffer=of[first], columns=(ref.columns[0] - first, ref.columns[1] - first))
