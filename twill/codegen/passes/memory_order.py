"""Where the threads of a warp group wait for one another between two accesses of the same global memory.

A thread sees its own stores in order, but nobody else's. A kernel that stores a tile of X and then one element of it
(`tl.store(X + offs, ...)`, `tl.store(X + y, ...)`), or loads again what it has stored, means the order in which it says
so, also where two threads have the element. Whoever has both accesses needs no wait: the same tile in the same layout.
What lies apart, and two loads, need none either; a reduction across warps between the two has waited already.

What the TMA stores is there when the thread that issued the copy has waited for its end, and seen by the others when
they have waited for that thread; before it stores what threads have touched, each of them needs a proxy fence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from twill.codegen.lower.memory import SharedMemoryPlan
from twill.codegen.warp import program as ir
from twill.codegen.warp.choices import Choices
from twill.codegen.warp.layout import Layout, Uniform
from twill.codegen.warp.paths import FactAnalysis
from twill.graph.alias import counter_of, first_meeting, meets
from twill.tile.program import Access, Loop, Op, TileProgram

ACCESSES = ("tile_load", "tile_store", "tile_reduce")
State = Literal["fresh", "committed", "over", "known"]


@dataclass(frozen=True)
class Touch:
    """An access of global memory by a statement. line: of the kernel. writes: the combination of a store ("" for a
    plain one); None for a load. layout: which thread has what; None: the TMA has it all. state: of a copy of the TMA,
    whether it is "committed" to a group, and "over" for its thread; of others, "known" when the threads have waited for
    one another since."""

    argument: str
    line: int
    writes: str | None
    layout: Layout | None
    state: State = "fresh"


Pending = frozenset[Touch]
"""What was touched, on some way here, and is not known to all threads of the group, and to the TMA, to be over."""

Pairs = Mapping[tuple[str, int, int], bool]
"""Argument and the lines of two accesses, the lesser first, that may touch the same elements: whether that is only
where both touch one and the same tile."""


def run(program: ir.WarpProgram, choices: Choices) -> ir.WarpProgram:
    """The pass."""
    pairs = meeting_pairs(program.program)
    if not pairs:
        return program
    memory = SharedMemoryPlan.of(program)
    groups = tuple(group if group.issuer else with_waits(program, group, pairs, memory) for group in program.groups)
    if groups == program.groups:
        return program
    return replace(program, groups=groups, barriers=tuple(memory.barriers))


def with_waits(program: ir.WarpProgram, group: ir.WarpGroup, pairs: Pairs, memory: SharedMemoryPlan) -> ir.WarpGroup:
    """The group with a wait in front of whatever may touch what another thread has touched. Program instances come in
    any order, so nothing is carried from one to the next."""
    search = OrderAnalysis(program, group, pairs)
    search.block(group.body, frozenset())
    if not search.needing:
        return group
    barrier = memory.barrier(f"group {group.id}", (group.id,)).id
    return replace(group, body=tuple(_waiting(group.body, search.needing, barrier)))


def meeting_pairs(program: TileProgram) -> Pairs:
    """Those of a program, at least one of each a write."""
    placed = list(_placed(program))
    constants = {op.results[0]: op.attribute("value") for op in program.ops() if op.kind == "constant" and op.results}
    found: dict[tuple[str, int, int], bool] = {}
    for number, (one, loop) in enumerate(placed):
        for other, around in placed[number:]:
            first, second = _access(one), _access(other)
            if first.base != second.base or one.kind == other.kind == "tile_load":
                continue
            if one.kind == other.kind == "tile_reduce" and one.attributes == other.attributes and not one.results:
                continue  # they commute
            step = constants.get(loop.step) if loop is not None else None
            same_loop = loop is not None and around is loop
            counter = counter_of(loop, step if isinstance(step, int) else None) if loop and same_loop else None
            same = (first.axes, first.constant, first.indices) == (second.axes, second.constant, ()) and (
                loop is around and (counter is None or first_meeting(first, second, counter) is None)
            )
            if one is other and (same or counter is None):
                continue
            across = counter is not None and any(
                first_meeting(a, b, counter) is not None for a, b in ((first, second), (second, first))
            )
            if same or across or meets(first, second, counter, 0):
                low, high = sorted((one.line, other.line))
                key = (first.base, low, high)
                found[key] = found.get(key, True) and same
    return found


def _placed(program: TileProgram) -> Iterator[tuple[Op, Loop | None]]:
    """Every access with the innermost loop around it."""

    def inside(items: Iterable[Op | Loop], loop: Loop | None) -> Iterator[tuple[Op, Loop | None]]:
        for item in items:
            if isinstance(item, Loop):
                yield from inside(item.body, item)
            elif item.kind in ACCESSES and item.access is not None:
                yield item, loop

    yield from inside(program.body, None)


def _access(op: Op) -> Access:
    assert op.access is not None
    return op.access


@dataclass(frozen=True)
class Waits:
    """What stands in front of a statement beside the wait of all threads for one another. bulk: the end of all copies
    of the TMA. fence: a proxy fence of each thread."""

    bulk: bool = False
    fence: bool = False


class OrderAnalysis(FactAnalysis[Touch]):
    """Goes through a body. needing: the waits that statements need in front of them, by the statement's identity."""

    def __init__(self, program: ir.WarpProgram, group: ir.WarpGroup, pairs: Pairs) -> None:
        self.program, self.group, self.pairs = program, group, pairs
        self.needing: dict[int, Waits] = {}

    def simple(self, stmt: ir.Stmt, before: Pending) -> Pending:
        """Behind a statement without blocks."""
        match stmt:
            case ir.Sync() | ir.Scan() | ir.Histogram() | ir.SumParts() | ir.Elect():
                return _together(before)
            case ir.Reduce() | ir.Rearrange():
                return before if stmt.barrier is None else _together(before)
            case ir.BulkCommit():
                return frozenset(replace(t, state="committed") if _is_copy(t, "fresh") else t for t in before)
            case ir.BulkWait(pending=0, read=False):
                return frozenset(replace(t, state="over") if _is_copy(t, "committed") else t for t in before)
            case ir.LoadGlobal() | ir.StoreGlobal() | ir.TmaStore():
                touch = self.touch(stmt)
                against = [one for one in before if self.meet(one, touch)]
                if not against:
                    return before | {touch}
                bulk = any(one.layout is None for one in against)
                known = self.needing.get(id(stmt), Waits())
                needed = Waits(known.bulk or bulk, known.fence or touch.layout is None)
                self.needing[id(stmt)] = needed
                return self.behind(needed, before) | {touch}
        return before

    def behind(self, waits: Waits, before: Pending) -> Pending:
        """What is pending behind some waits."""
        if waits.bulk:
            before = self.simple(ir.BulkWait(0, read=False), before)
        if waits.fence:  # of what threads did, nothing is left to wait for
            before = frozenset(one for one in before if one.layout is None)
        return _together(before)

    def touch(self, stmt: ir.LoadGlobal | ir.StoreGlobal | ir.TmaStore) -> Touch:
        """What a statement touches."""
        if isinstance(stmt, ir.TmaStore):
            return Touch(self.program.maps[stmt.map].argument, stmt.line, stmt.combine, None)
        if isinstance(stmt, ir.LoadGlobal):
            return Touch(stmt.window.argument, stmt.line, None, self.group.fragment(stmt.result).layout)
        held = stmt.operand
        layout: Layout = self.group.fragment(held.fragment).layout if isinstance(held, ir.Reg) else Uniform()
        return Touch(stmt.window.argument, stmt.line, stmt.combine, layout)

    def meet(self, one: Touch, other: Touch) -> bool:
        """Whether a wait has to stand between two accesses: two threads may have the same element in both, and one of
        them writes."""
        if one.argument != other.argument or one.writes is None is other.writes:
            return False
        if one.state == "known" and other.layout is not None:
            return False
        if _is_copy(one, "fresh") and other.layout is None and one.line == other.line:
            return False  # boxes of one tile
        low, high = sorted((one.line, other.line))
        same = self.pairs.get((one.argument, low, high))
        return same is not None and not (same and one.layout == other.layout and one.layout is not None)


def _is_copy(touch: Touch, state: State) -> bool:
    """Whether it is a copy of the TMA in that state."""
    return touch.layout is None and touch.state == state


def _together(before: Pending) -> Pending:
    """Behind a wait of all threads for one another: they know what each of them did, the TMA does not."""
    return frozenset(
        replace(one, state="known") if one.layout is not None else one for one in before if not _is_copy(one, "over")
    )


def _waiting(stmts: Iterable[ir.Stmt], needing: Mapping[int, Waits], barrier: int) -> Iterator[ir.Stmt]:
    for stmt in stmts:
        if (waits := needing.get(id(stmt))) is not None:
            if waits.bulk:
                yield ir.BulkWait(0, read=False, line=stmt.line)
            if waits.fence:
                yield ir.ProxyFence(memory=True, line=stmt.line)
            yield ir.Sync(barrier, line=stmt.line)
        yield ir.with_blocks(stmt, lambda block: _waiting(block, needing, barrier))
