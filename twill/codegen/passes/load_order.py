"""Where a warp group waits for a tile that another one loads, before it stores to the same elements.

A kernel that loads a tile, stores another one there and uses the first one later means the order in which it says so.
The group that stores waits for the tile's slot in front of its first reader only, which may be behind the store; here
it waits in front of the store, too (a slot stays full until it is given back).

Accesses of one loop are `twill.codegen.lower.load_order`'s; loads behind a store are
`twill.codegen.passes.group_order`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from twill import exc
from twill.codegen.passes.group_order import Accesses, accesses, apart_in_loops, places
from twill.codegen.warp.choices import Choices
from twill.codegen.warp.program import Advance, Get, Stmt, TmaLoad, WarpGroup, WarpProgram, walk
from twill.graph.alias import meets
from twill.tile.program import TileProgram

UNKNOWN = -1


@dataclass(frozen=True)
class LoadThenStore:
    """A load, and a store behind it that may touch the same elements: the argument, the lines of both in the kernel.
    phases: in which both are (`twill.codegen.passes.uses`)."""

    argument: str
    load: int
    store: int
    phases: tuple[int, int]


def run(program: WarpProgram, choices: Choices) -> WarpProgram:
    """The pass. Raises UnsupportedInKernel where the group waits for tiles of the ring in another order."""
    orders = list(loaded_first(program.program))
    known = accesses(program) if orders else {}
    waits = {wait for order in orders for wait in _waits(program, order, known)}
    if not waits:
        return program
    of = {
        group.id: sorted((at, cursor) for number, at, cursor in waits if number == group.id) for group in program.groups
    }
    return replace(program, groups=tuple(_with(group, of[group.id]) for group in program.groups))


def loaded_first(program: TileProgram) -> Iterator[LoadThenStore]:
    """Every pair of such accesses that are not in one loop."""
    for (begin, one), (end, other) in apart_in_loops(program):
        first, second = one.access, other.access
        assert first is not None and second is not None
        if one.kind == "tile_load" != other.kind and first.base == second.base and meets(first, second, None, 0):
            yield LoadThenStore(first.base, one.line, other.line, (begin, end))


def _waits(program: WarpProgram, order: LoadThenStore, known: Accesses) -> Iterator[tuple[int, int, int]]:
    """Of one pair: a group, the place of its body where it waits, and the cursor that it waits at."""
    begin, end = order.phases
    for group in program.groups:
        stores = places(known[group.id], order.argument, order.store, end, stores=True)
        for other in program.groups if stores else ():
            loads = places(known[other.id], order.argument, order.load, begin, stores=False)
            load = other.body[loads[0].place] if loads else None
            if other is group or not isinstance(load, TmaLoad):
                continue
            number = _passed(other.body[: loads[0].place], load.cursor)
            ring = _aref(other, load.cursor)
            for get, cursor in _late_gets(group, ring, number, stores[0].place) if number != UNKNOWN else ():
                if _passed(group.body[stores[0].place : get], cursor):
                    raise exc.UnsupportedInKernel(
                        f"`{order.argument}` is stored to behind a load from there by another warp group, of which this"
                        " one waits for other tiles first",
                        file=program.program.file, line=order.store,
                        hint="store behind the last use of what was loaded",
                    )  # fmt: skip
                yield group.id, stores[0].place, cursor


def _late_gets(group: WarpGroup, aref: int, number: int, behind: int) -> Iterator[tuple[int, int]]:
    """Where a group waits first for the tile of that number in a ring, by the places and cursors of its body, if that
    is not in front of statement `behind`."""
    for cursor in (one.id for one in group.cursors if one.aref == aref):
        gets = (place for place, stmt in enumerate(group.body) if _gets(stmt, cursor))
        first = next((place for place in gets if _passed(group.body[:place], cursor) == number), behind)
        if first > behind:
            yield first, cursor


def _gets(stmt: Stmt, cursor: int) -> bool:
    return isinstance(stmt, Get) and stmt.cursor == cursor


def _aref(group: WarpGroup, cursor: int) -> int:
    return next(one.aref for one in group.cursors if one.id == cursor)


def _passed(stmts: Sequence[Stmt], cursor: int) -> int:
    """How many slots a cursor is moved on by; UNKNOWN: loops do."""
    inside = sum(isinstance(stmt, Advance) and stmt.cursor == cursor for stmt in walk(tuple(stmts)))
    outside = sum(isinstance(stmt, Advance) and stmt.cursor == cursor for stmt in stmts)
    return inside if inside == outside else UNKNOWN


def _with(group: WarpGroup, waits: Sequence[tuple[int, int]]) -> WarpGroup:
    """The group that waits at cursors in front of statements of its body."""
    body: list[Stmt] = []
    for place, stmt in enumerate(group.body):
        body += [*(Get(cursor, line=stmt.line) for at, cursor in waits if at == place), stmt]
    return replace(group, body=tuple(body)) if waits else group
