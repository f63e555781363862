"""When each buffer in shared or tensor memory is in use within a program instance, and by whom.

Time is counted in phases: 2n + 1 is the n-th loop, 2n the straight-line code in front of it. Code of a warp group that
has no part in some loops may run at any time from the loop before it to the loop behind it. For tensor memory it is
counted in statements of the group that issues MMAs, and of others by what they wait for (`turns_of`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise

from twill.codegen.warp import program as ir
from twill.codegen.warp.verifier import named, own_nodes

THREADS = (  # that threads read or write
    ir.LoadShared, ir.StoreShared, ir.StoreScales, ir.Reduce, ir.Scan, ir.Rearrange, ir.Histogram, ir.SumParts,
    ir.LoadAccumulator, ir.StoreAccumulator,
)  # fmt: skip
SCRATCH = (ir.Reduce, ir.Scan, ir.Rearrange, ir.Histogram, ir.SumParts)
FILLED, FILLING = ("tma", "mma"), (ir.TmaLoad, ir.TensorMultiply)  # rings with such a transport, and what fills them
WRITING = (ir.TmaLoad, ir.StoreShared, ir.StoreScales, ir.TensorMultiply, ir.StoreAccumulator, ir.CopyScales)
Span = tuple[int, int]


@dataclass(frozen=True)
class BodyUse:
    """Of a buffer: the first and the last phase of its use. writers: the groups that write to it. users: all that have
    to be done before others write there: whoever has but filled it, by the TMA or by MMAs, is done when those are who
    read that. places: the first and the last statement of the body of each group that touches it. threads, stores,
    products: groups whose threads read or write it, whose TMA stores read it, whose MMAs in tensor memory do. tensor:
    whether it is in tensor memory."""

    first: int
    last: int
    writers: frozenset[int]
    users: frozenset[int]
    places: dict[int, Span]
    threads: frozenset[int]
    stores: frozenset[int]
    products: frozenset[int]
    tensor: bool = False


def uses_of_buffers(program: ir.WarpProgram) -> dict[int, BodyUse] | None:
    """Of every buffer in shared memory that is used in bodies alone, and holds nothing from one instance to the next.
    None where the order of loops is not known, or tiles stay for the next instance."""
    order = loop_order(program)
    if order is None or any(isinstance(s, ir.CountReuse) for group in program.groups for s in group.stmts):
        return None
    return _uses(program, False, lambda group: phases_of(group, order))


def uses_of_tensor_memory(program: ir.WarpProgram) -> dict[int, BodyUse]:
    """The same of every buffer in tensor memory, in turns (`turns_of`)."""
    turns = turns_of(program)
    return _uses(program, True, lambda group: [(turn, turn) for turn in turns[group.id]])


def _uses(program: ir.WarpProgram, tensor: bool, phases: Callable[[ir.WarpGroup], list[Span]]) -> dict[int, BodyUse]:
    """phases: the first and the last one in which each statement of a body may run."""
    always = {number for group in program.groups for number in _always(program, group)}
    found: dict[int, list[_Touch]] = {}
    for group in program.groups:
        for touch in _touches(program, group, phases(group)):
            if program.buffers[touch.buffer].tensor == tensor:
                found.setdefault(touch.buffer, []).append(touch)
    every = {number: _use(found[number], tensor) for number in sorted(found) if number not in always}
    return {number: use for number, use in every.items() if use.writers}


def turns_of(program: ir.WarpProgram) -> list[list[int]]:
    """Of each group and statement of its body, the last statement that it can wait for of the group that has the most
    loops. Who waits for it in front of a later one there ends no cycle of waits."""
    kinds = (ir.TensorMultiply, ir.Pipeline)
    leading = max(program.groups, key=lambda group: [sum(isinstance(s, kind) for s in group.stmts) for kind in kinds])
    loops = {stmt.name: place for place, stmt in enumerate(leading.body) if isinstance(stmt, ir.Pipeline)}
    made = [[0] * len(group.body) for group in program.groups]
    made[leading.id] = [*range(len(leading.body))]
    known: list[list[int]] = []
    while known != made:
        known, filled = [[*times] for times in made], _filled(program, made)
        for group in (group for group in program.groups if group is not leading):
            now, rings = 0, {cursor.id: cursor.aref for cursor in group.cursors}
            for place, stmt in enumerate(group.body):
                waits = (filled.get(rings[s.cursor], 0) for s in ir.walk((stmt,)) if isinstance(s, ir.Get))
                now = max([now, loops.get(stmt.name, 0) if isinstance(stmt, ir.Pipeline) else 0, *waits])
                made[group.id][place] = now
    return made


def _filled(program: ir.WarpProgram, times: list[list[int]]) -> dict[int, int]:
    """When the slots of each ring are filled at the latest."""
    found: dict[int, int] = {}
    for group in program.groups:
        rings = {cursor.id: cursor.aref for cursor in group.cursors}
        for time, stmt in zip(times[group.id], group.body, strict=True):
            for one in ir.walk((stmt,)):
                if isinstance(one, ir.Publish | ir.Expect):
                    found[rings[one.cursor]] = max(found.get(rings[one.cursor], 0), time)
    return found


def loop_order(program: ir.WarpProgram) -> dict[str, int] | None:
    """The place of each loop in a program instance, by name; None if the warp groups leave that open."""
    named_loops = [[s.name for s in group.body if isinstance(s, ir.Pipeline)] for group in program.groups]
    if any(len(set(names)) < len(names) for names in named_loops):
        return None
    next_to = set(chain.from_iterable(pairwise(names) for names in named_loops))
    left = dict.fromkeys(chain.from_iterable(named_loops))
    made: list[str] = []
    while left:
        free = [name for name in left if not any(behind == name and first in left for first, behind in next_to)]
        if len(free) != 1:
            return None
        made += free
        del left[free[0]]
    return {name: place for place, name in enumerate(made)}


@dataclass(frozen=True)
class _Touch:
    """A statement at the top of a body that touches a buffer. fills: only as what fills its ring, copies of the TMA or
    MMAs."""

    buffer: int
    group: int
    place: Span
    phases: Span
    writes: bool
    fills: bool
    threads: bool
    stores: bool
    products: bool


def _touches(program: ir.WarpProgram, group: ir.WarpGroup, phases: list[Span]) -> Iterator[_Touch]:
    rings = {cursor.id: program.arefs[cursor.aref] for cursor in group.cursors}
    for place, (stmt, when) in enumerate(zip(group.body, phases, strict=True)):
        inner, settled = list(ir.walk((stmt,))), _behind(group, place)
        for number in sorted({b for one in inner for b in touched(program, group, one)}):
            mine = [one for one in inner if number in touched(program, group, one)]
            direct = [one for one in mine if number in accessed(one)]
            filled = {r.id for r in rings.values() if number in r.buffers and r.transport in FILLED}
            fills = any(program.arefs[r].producer == group.id for r in filled)
            yield _Touch(
                number, group.id, (place, settled), when,
                any(number in written(one) for one in direct),
                fills and all(isinstance(one, FILLING) and number in written(one) for one in direct),
                any(isinstance(one, THREADS) for one in direct),
                any(isinstance(one, ir.TmaStore) for one in direct),
                any(isinstance(one, ir.TensorMultiply | ir.CopyScales) for one in direct),
            )  # fmt: skip


def _behind(group: ir.WarpGroup, place: int) -> int:
    """The statement behind which what stands at a place can be waited for: a loop's MMAs are waited for behind it,
    stores of the TMA are one group from their commit on."""
    inner = list(ir.walk((group.body[place],)))
    if isinstance(group.body[place], ir.TmaStore | ir.If) and any(isinstance(one, ir.TmaStore) for one in inner):
        commits = (at for at in range(place, len(group.body)) if isinstance(group.body[at], ir.BulkCommit))
        return next(commits, place)
    products = any(isinstance(one, ir.Multiply) for one in inner)
    while products and place + 1 < len(group.body) and isinstance(group.body[place + 1], ir.WaitGroups):
        place += 1
    return place


def phases_of(group: ir.WarpGroup, order: dict[str, int]) -> list[Span]:
    """When each statement at the top of a body may run."""
    loops = [order[stmt.name] if isinstance(stmt, ir.Pipeline) else None for stmt in group.body]
    before = accumulate((-1 if loop is None else loop for loop in loops), max, initial=-1)
    behind = accumulate((len(order) if loop is None else loop for loop in reversed(loops)), min, initial=len(order))
    return [
        (2 * first + 2, 2 * last) if loop is None else (2 * loop + 1, 2 * loop + 1)
        for loop, first, last in zip(loops, before, [*behind][-2::-1], strict=False)
    ]


def touched(program: ir.WarpProgram, group: ir.WarpGroup, stmt: ir.Stmt) -> set[int]:
    """Buffers that a statement alone accesses, or whose ring it waits for or moves."""
    refs = [node.cursor for node in own_nodes(stmt) if isinstance(node, ir.SlotRef)]
    cursors = {number for kind, number in named(stmt) if kind == "cursor"} | {c for c in refs if c is not None}
    return accessed(stmt) | {b for cursor in cursors for b in program.arefs[group.cursor(cursor).aref].buffers}


def accessed(stmt: ir.Stmt) -> set[int]:
    """Buffers that a statement alone reads or writes."""
    refs = {node.buffer for node in own_nodes(stmt) if isinstance(node, ir.SlotRef)}
    return refs | {number for kind, number in named(stmt) if kind == "buffer"}


def written(stmt: ir.Stmt) -> set[int]:
    """Buffers that a statement alone writes."""
    if isinstance(stmt, SCRATCH):
        return accessed(stmt)
    return {stmt.target.buffer} if isinstance(stmt, WRITING) else set()


def _always(program: ir.WarpProgram, group: ir.WarpGroup) -> Iterator[int]:
    """Buffers that are used outside of the body, too, or for tensor maps."""
    for block in (group.start, group.next, group.skip, group.finish):
        for stmt in ir.walk(block):
            yield from touched(program, group, stmt)
    for stmt in group.stmts:
        if isinstance(stmt, ir.MakeMap):
            yield from accessed(stmt)


def _use(touches: list[_Touch], tensor: bool) -> BodyUse:
    """Of one buffer."""
    groups = {touch.group for touch in touches}
    mine = {number: [touch for touch in touches if touch.group == number] for number in groups}
    return BodyUse(
        min(touch.phases[0] for touch in touches),
        max(touch.phases[1] for touch in touches),
        frozenset(touch.group for touch in touches if touch.writes),
        frozenset(number for number in groups if not all(touch.fills for touch in mine[number])),
        {number: (min(t.place[0] for t in mine[number]), max(t.place[1] for t in mine[number])) for number in groups},
        frozenset(touch.group for touch in touches if touch.threads),
        frozenset(touch.group for touch in touches if touch.stores),
        frozenset(touch.group for touch in touches if touch.products),
        tensor,
    )
