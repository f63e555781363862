"""Where a warp group waits for another one that has stored what it is about to touch in global memory.

A kernel that stores a tile and goes on to load it (`dk` of a first loop, to which a second one adds) means the order in
which it says so. Within a warp group that is `twill.codegen.passes.memory_order`; between two, the one that stores says
through a ring of one slot when it is done, and the other one waits for that in front of its first access. Loads of the
TMA are issued far ahead of what is computed: without the ring they bring what was in memory before.

Accesses of one loop are for `twill.codegen.lower.store_order`; stores behind a load are
`twill.codegen.passes.load_order`'s.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from twill import exc
from twill.codegen.lower.memory import SharedMemoryPlan
from twill.codegen.passes.dynamic_scheduler import arrivals
from twill.codegen.passes.memory_order import ACCESSES
from twill.codegen.passes.uses import loop_order, phases_of
from twill.codegen.warp import program as ir
from twill.codegen.warp.choices import Choices
from twill.graph.alias import meets
from twill.tile.program import Loop, Op, TileProgram, walk

WORDS = 4  # of the ring's slot, in which nothing is: its barriers say all


@dataclass(frozen=True)
class StoreThenAccess:
    """A store, and an access behind it that may touch the same elements: the argument, the lines of both in the kernel.
    stores: whether the second one is a store, too. same: whether both are one and the same tile. phases: in which both
    are (`twill.codegen.passes.uses`): a loop that a kernel writes out twice has its lines twice."""

    argument: str
    first: int
    second: int
    stores: bool
    same: bool
    phases: tuple[int, int]


def run(program: ir.WarpProgram, choices: Choices) -> ir.WarpProgram:
    """The pass. Raises UnsupportedInKernel where warp groups that take program instances alternately, or two CTAs,
    would have to wait for one another."""
    orders = list(stored_first(program.program))
    known = accesses(program) if orders else {}
    waits = [one for order in orders for one in _waits(program, order, known, choices.ping_pong)]
    if not waits:
        return program
    if choices.ping_pong or program.cluster is not None:
        first = orders[0]
        raise exc.UnsupportedInKernel(
            f"a tile of `{first.argument}` is accessed behind line {first.first}, which stores to it, by another warp "
            "group of a cluster, or of two that take program instances alternately",
            file=program.program.file, line=first.second,
            hint="keep in registers what was stored, or two kernels",
        )  # fmt: skip
    return with_rings(program, waits)


def stored_first(program: TileProgram) -> Iterator[StoreThenAccess]:
    """Every pair of such accesses that are not in one loop."""
    for (phase, one), (later, other) in apart_in_loops(program):
        first, second = one.access, other.access
        assert first is not None and second is not None
        if one.kind == "tile_load" or first.base != second.base:
            continue
        if one.kind == other.kind == "tile_reduce" and not one.results:
            continue
        if meets(first, second, None, 0):
            same = (first.axes, first.constant, first.indices) == (second.axes, second.constant, ())
            stores = other.kind != "tile_load"
            yield StoreThenAccess(first.base, one.line, other.line, stores, same, (phase, later))


def apart_in_loops(program: TileProgram) -> Iterator[tuple[tuple[int, Op], tuple[int, Op]]]:
    """Every access of memory and every one behind it that is not in the same loop, each with its phase
    (`twill.codegen.passes.uses`)."""
    loops = [number for number, item in enumerate(program.body) if isinstance(item, Loop)]
    placed = [
        (number, 2 * bisect_left(loops, number) + isinstance(item, Loop), op)
        for number, item in enumerate(program.body)
        for op in walk((item,))
        if op.kind in ACCESSES and op.access is not None
    ]
    for place, phase, one in placed:
        for behind, later, other in placed:
            if place < behind:
                yield (phase, one), (later, other)


@dataclass(frozen=True)
class GroupAccess:
    """A statement of a warp group that accesses an argument for a line of the kernel, and the place in the group's body
    that it is at, or in. over: the place behind which it has been asked for whole: of a store of the TMA that of the
    commit. phases: in which that may run, None: that is not known. stores: or loads; bulk: a store of the TMA."""

    place: int
    over: int
    phases: tuple[int, int] | None
    argument: str
    line: int
    stores: bool
    bulk: bool


Accesses = Mapping[int, Sequence[GroupAccess]]


@dataclass(frozen=True)
class GroupWait:
    """The group `waits` waits in front of statement `at` of its body until `stores` is behind statement `behind` of its
    own, which stores: bulk, as copies of the TMA."""

    stores: int
    behind: int
    bulk: bool
    waits: int
    at: int


def _waits(program: ir.WarpProgram, order: StoreThenAccess, known: Accesses, in_turn: bool) -> Iterator[GroupWait]:
    """Of one pair of accesses, for every two groups that have one of them each. known: the accesses of each group.
    in_turn: computing groups have program instances of their own, each with both accesses."""
    begin, end = order.phases
    first = {g.id: places(known[g.id], order.argument, order.first, begin, stores=True) for g in program.groups}
    second = {g.id: places(known[g.id], order.argument, order.second, end, order.stores) for g in program.groups}
    writers = [number for number, found in first.items() if found]
    users = [number for number, found in second.items() if found]
    if order.same and writers == users:
        return  # each has rows of its own
    for writer in writers:
        for user in users:
            if writer != user and not (in_turn and user in writers):
                bulk = any(one.bulk for one in first[writer])
                yield GroupWait(writer, max(one.over for one in first[writer]), bulk, user, second[user][0].place)


def accesses(program: ir.WarpProgram) -> Accesses:
    """The statements of each group that access arguments, in order."""
    loops = loop_order(program)
    if loops is not None and len(loops) < sum(isinstance(item, Loop) for item in program.program.body):
        loops = None  # nobody has a part in some loop
    return {
        group.id: [
            access
            for place in range(len(group.body))
            for access in _of_statement(program, group.body, place, None if spans is None else spans[place])
        ]
        for group in program.groups
        for spans in [None if loops is None else phases_of(group, loops)]
    }


def _of_statement(
    program: ir.WarpProgram, body: Sequence[ir.Stmt], place: int, phases: tuple[int, int] | None
) -> Iterator[GroupAccess]:
    """Those of one statement of a body, and in it."""
    for stmt in ir.walk((body[place],)):
        match stmt:
            case ir.TmaStore(map=number) | ir.TmaLoad(map=number):
                argument = program.maps[number].argument
            case ir.StoreGlobal(window=window) | ir.LoadGlobal(window=window):
                argument = window.argument
            case _:
                continue
        stores, bulk = isinstance(stmt, ir.TmaStore | ir.StoreGlobal), isinstance(stmt, ir.TmaStore)
        over = _commit(body, place) if bulk else place
        yield GroupAccess(place, over, phases, argument, stmt.line, stores, bulk)


def _commit(body: Sequence[ir.Stmt], place: int) -> int:
    """Where the copies of a statement are committed: in it, or behind it."""
    inside = [stmt for stmt in ir.walk((body[place],)) if isinstance(stmt, ir.TmaStore | ir.BulkCommit)]
    if isinstance(inside[-1], ir.BulkCommit):
        return place
    return next((n for n in range(place + 1, len(body)) if isinstance(body[n], ir.BulkCommit)), place)


def places(known: Sequence[GroupAccess], argument: str, line: int, phase: int, stores: bool) -> list[GroupAccess]:
    """The accesses of an argument for a line of the kernel in a phase."""
    return [
        one
        for one in known
        if (one.argument, one.line, one.stores) == (argument, line, stores)
        and (one.phases is None or one.phases[0] <= phase <= one.phases[1])
    ]


def with_rings(program: ir.WarpProgram, waits: Sequence[GroupWait]) -> ir.WarpProgram:
    """The program in which groups wait so. One ring for each two groups and place of a store."""
    memory = SharedMemoryPlan.of(program)
    cursors = count(1 + max((c.id for group in program.groups for c in group.cursors), default=-1))
    by_id = {group.id: group for group in program.groups}
    behind: dict[tuple[int, int], list[ir.Stmt]] = {}
    before: dict[tuple[int, int], list[ir.Stmt]] = {}
    names: dict[int, list[ir.Cursor]] = {group.id: [] for group in program.groups}
    for wait in _earliest(waits):
        ring = _ring(memory, by_id[wait.stores], by_id[wait.waits])
        put, get = (ir.Cursor(next(cursors), f"{ring.name}_{end}", ring.id) for end in ("put", "get"))
        names[wait.stores].append(put)
        names[wait.waits].append(get)
        line = max((stmt.line for stmt in ir.walk((by_id[wait.waits].body[wait.at],))), default=0)
        bulk: tuple[ir.Stmt, ...] = (ir.BulkWait(0, read=False, line=line),) if wait.bulk else ()
        behind.setdefault((wait.stores, wait.behind), []).extend(
            (
                ir.Acquire(put.id, line=line),
                *bulk,
                ir.ProxyFence(memory=True, line=line),
                ir.Publish(put.id),
                ir.Advance(put.id),
            )
        )
        before.setdefault((wait.waits, wait.at), []).extend((ir.Get(get.id), ir.Consumed(get.id), ir.Advance(get.id)))
    groups = tuple(_with(group, names[group.id], before, behind) for group in program.groups)
    return replace(program, groups=groups, buffers=tuple(memory.buffers), arefs=tuple(memory.arefs))


def _earliest(waits: Iterable[GroupWait]) -> list[GroupWait]:
    """Without those that others make needless: behind the same or a later store, in front of the same or an earlier
    access of the same group."""
    made: list[GroupWait] = []
    for one in dict.fromkeys(waits):
        bulk = one.bulk or any(w.bulk for w in waits if (w.stores, w.waits) == (one.stores, one.waits))
        made.append(replace(one, bulk=bulk))
    return [
        one
        for number, one in enumerate(made)
        if not any(
            (other.stores, other.waits) == (one.stores, one.waits)
            and other.behind >= one.behind
            and other.at <= one.at
            and (other != one or place < number)
            for place, other in enumerate(made)
        )
    ]


def _ring(memory: SharedMemoryPlan, stores: ir.WarpGroup, waits: ir.WarpGroup) -> ir.Aref:
    """One slot in which nothing is."""
    name = f"order {stores.id} {waits.id}"
    buffer = memory.buffer(name, (WORDS,), "i32", 1)
    counts = (arrivals(stores), arrivals(waits))
    return memory.aref(name, (buffer.id,), stores.id, (waits.id,), "registers", counts)


def _with(
    group: ir.WarpGroup,
    cursors: Sequence[ir.Cursor],
    before: Mapping[tuple[int, int], Sequence[ir.Stmt]],
    behind: Mapping[tuple[int, int], Sequence[ir.Stmt]],
) -> ir.WarpGroup:
    """The group with more statements in front of and behind those of its body."""
    if not cursors:
        return group
    body: list[ir.Stmt] = []
    for place, stmt in enumerate(group.body):
        body += [*before.get((group.id, place), ()), stmt, *behind.get((group.id, place), ())]
    return replace(group, body=tuple(body), cursors=(*group.cursors, *cursors))
