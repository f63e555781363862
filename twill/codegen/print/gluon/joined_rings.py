"""Rings that are filled, read and given back together, as one ring of several tiles.

Every wait of a partition, and more so every arrival, which Triton's code makes a barrier of its threads, is paid for
each ring. Where two rings of as many slots are acquired side by side by the group that fills them, and got, given back
and passed side by side by the groups that read both, one pair of barriers says it for both. A group that reads one of
them only waits for the other, too: so the ring that more groups read is the one that takes the other's tiles.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from twill.codegen.warp import program as ir

_STEPS = ir.Acquire | ir.Expect | ir.Get | ir.Consumed | ir.Advance | ir.Skip
_BETWEEN = _STEPS | ir.TmaLoad | ir.Let  # what may stand between two steps that become one
_NUMBER = re.compile(r"[. ]\d+$")


def with_joined_rings(program: ir.WarpProgram) -> ir.WarpProgram:
    """The program with as few rings as that makes."""
    for buffer in [aref.buffers[0] for aref in program.arefs]:
        keeping = _of(program, buffer)
        gone = _tiles(program, keeping) if keeping is not None else []
        for other in gone:
            left, right = _of(program, buffer), _of(program, other)
            if left is not None and right is not None and _fit(program, left, right):
                program = _joined(program, left, right)
    return program


def _of(program: ir.WarpProgram, buffer: int) -> ir.Aref | None:
    """The ring whose first tiles are in a buffer; None if another one has taken it."""
    return next((aref for aref in program.arefs if aref.buffers[:1] == (buffer,)), None)


def _tiles(program: ir.WarpProgram, keeping: ir.Aref) -> list[int]:
    """First buffers of the rings that a ring takes: as many for each group that reads it, so that groups which do the
    same stay alike."""
    found = [gone for gone in program.arefs if gone is not keeping and _fit(program, keeping, gone)]
    counts = Counter(consumer for gone in found for consumer in gone.consumers)
    if len({counts[consumer] for consumer in keeping.consumers}) > 1:
        found = [gone for gone in found if set(gone.consumers) == set(keeping.consumers)]
    return [gone.buffers[0] for gone in found]


def _fit(program: ir.WarpProgram, keeping: ir.Aref, gone: ir.Aref) -> bool:
    return _alike(keeping, gone) and all(_together(group, keeping, gone) for group in program.groups)


def _alike(keeping: ir.Aref, gone: ir.Aref) -> bool:
    by_tma = keeping.transport == gone.transport == "tma"
    same = (keeping.depth, keeping.producer) == (gone.depth, gone.producer)
    plain = not any((keeping.shared, gone.shared, keeping.pair, gone.pair))
    return by_tma and same and plain and set(gone.consumers) <= set(keeping.consumers)


def _cursors(group: ir.WarpGroup, aref: ir.Aref) -> list[int]:
    return [cursor.id for cursor in group.cursors if cursor.aref == aref.id]


def _together(group: ir.WarpGroup, keeping: ir.Aref, gone: ir.Aref) -> bool:
    """Whether the steps of one ring stand beside those of the other in every block of a group."""
    retained, other = _cursors(group, keeping), _cursors(group, gone)
    if not other:
        return True
    return len(retained) == len(other) and all(
        _beside(block, *pair) for pair in zip(retained, other, strict=True) for block in _blocks(group)
    )


def _blocks(group: ir.WarpGroup) -> Iterator[tuple[ir.Stmt, ...]]:
    for block in (group.start, group.body, group.skip, group.finish):
        yield from ir.blocks_within(block)


def _beside(block: tuple[ir.Stmt, ...], retained: int, other: int) -> bool:
    """Whether a block has the same steps of two cursors, each beside its counterpart."""
    one, two = _steps(block, retained), _steps(block, other)
    if [type(block[at]) for at in one] != [type(block[at]) for at in two]:
        return False
    for a, b in zip(one, two, strict=True):
        between = block[min(a, b) + 1 : max(a, b)]
        first, second = block[a], block[b]
        same = not isinstance(first, ir.Skip | ir.Consumed) or replace(first, cursor=other, line=second.line) == second
        late = isinstance(first, ir.Acquire) and a > b  # nothing is loaded before the ring that stays is acquired
        passed = isinstance(first, ir.Advance) and any(
            _cursor(stmt) == (retained if a < b else other) for stmt in between
        )
        if late or passed or not same or not all(isinstance(stmt, _BETWEEN) for stmt in between):
            return False
    return True


def _cursor(stmt: ir.Stmt) -> int:
    return stmt.cursor if isinstance(stmt, _STEPS | ir.TmaLoad) else -1


def _steps(block: tuple[ir.Stmt, ...], cursor: int) -> list[int]:
    return [at for at, stmt in enumerate(block) if isinstance(stmt, _STEPS) and stmt.cursor == cursor]


# ---------------------------------------------------------------- the program with one ring less
def _joined(program: ir.WarpProgram, keeping: ir.Aref, gone: ir.Aref) -> ir.WarpProgram:
    more = {keeping.id: _widened(program, keeping, gone)}
    left = [more.get(aref.id, aref) for aref in program.arefs if aref.id != gone.id]
    ids = {aref.id: number for number, aref in enumerate(left)}
    ids[gone.id] = ids[keeping.id]
    arefs = tuple(replace(aref, id=ids[aref.id]) for aref in left)
    groups = tuple(_renumbered(_without(group, keeping, gone), ids) for group in program.groups)
    return replace(program, arefs=arefs, groups=groups)


def _widened(program: ir.WarpProgram, keeping: ir.Aref, gone: ir.Aref) -> ir.Aref:
    """The ring with the other's tiles, called after both."""
    parts = sorted({part for aref in (keeping, gone) for part in _NUMBER.sub("", aref.name).split(" ")})
    taken = {aref.name for aref in program.arefs if aref.id not in (keeping.id, gone.id)}
    names = (" ".join(parts), *(f"{' '.join(parts)} {number}" for number in range(2, 99)))
    name = next(one for one in names if one not in taken)
    buffers = (*keeping.buffers, *gone.buffers)
    return replace(keeping, name=name, buffers=buffers, bytes=keeping.bytes + gone.bytes)


def _without(group: ir.WarpGroup, keeping: ir.Aref, gone: ir.Aref) -> ir.WarpGroup:
    """A group with the steps of one ring, whose cursors the other's tiles have."""
    cursors = dict(zip(_cursors(group, gone), _cursors(group, keeping), strict=False))
    if not cursors:
        return group
    sizes = {keep: sum(stmt.bytes for stmt in _first_expects(group, (keep, lost))) for lost, keep in cursors.items()}
    parts: dict[str, Any] = {
        name: tuple(_merged(getattr(group, name), cursors, sizes)) for name in ("start", "body", "skip", "finish")
    }
    return replace(group, cursors=tuple(c for c in group.cursors if c.id not in cursors), **parts)


def _first_expects(group: ir.WarpGroup, cursors: Iterable[int]) -> Iterator[ir.Expect]:
    """What each of the cursors expects of a slot: all its slots are alike."""
    for cursor in cursors:
        yield from [s for s in group.stmts if isinstance(s, ir.Expect) and s.cursor == cursor][:1]


def _merged(block: tuple[ir.Stmt, ...], cursors: Mapping[int, int], sizes: Mapping[int, int]) -> Iterator[ir.Stmt]:
    later = _later(block, cursors)
    for at, given in enumerate(block):
        stmt = later.get(at, given)
        if stmt is None or (isinstance(stmt, _STEPS) and stmt.cursor in cursors):
            continue
        if isinstance(stmt, ir.Expect) and stmt.cursor in sizes:
            yield replace(stmt, bytes=sizes[stmt.cursor])
            continue
        inner = ir.with_blocks(stmt, lambda one: _merged(one, cursors, sizes))
        changed: dict[str, Any] = {f.name: _moved(f.name, getattr(inner, f.name), cursors) for f in fields(inner)}
        yield replace(inner, **changed)


def _later(block: tuple[ir.Stmt, ...], cursors: Mapping[int, int]) -> dict[int, ir.Stmt | None]:
    """What ends the use of a slot stands where the later of two such steps does: place -> what is there, or None."""
    made: dict[int, ir.Stmt | None] = {}
    for lost, keep in cursors.items():
        for a, b in zip(_steps(block, keep), _steps(block, lost), strict=True):
            if isinstance(block[a], ir.Consumed | ir.Advance | ir.Skip) and a < b:
                made |= {a: None, b: block[a]}
    return made


def _moved(name: str, value: object, cursors: Mapping[int, int]) -> object:
    match value:
        case int() if name == "cursor":
            return cursors.get(value, value)
        case ir.SlotRef(cursor=int() as cursor):
            return replace(value, cursor=cursors.get(cursor, cursor))
    return value


def _renumbered(group: ir.WarpGroup, ids: Mapping[int, int]) -> ir.WarpGroup:
    return replace(group, cursors=tuple(replace(cursor, aref=ids[cursor.aref]) for cursor in group.cursors))
