"""Where the threads of a warp group wait for one another between two accesses of the same global memory.

A thread sees its own stores in order, but nobody else's. A kernel that stores a tile of X and then one element of it
(`tl.store(X + offs, ...)`, `tl.store(X + y, ...)`), or loads again what it has stored, means the order in which it says
so, also where two threads have the element. Whoever has both accesses needs no wait: the same tile in the same layout.
What lies apart, and two loads, need none either; a reduction across warps between the two has waited already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from twill import exc
from twill.codegen.lower.memory import SharedMemoryPlan
from twill.codegen.passes.paths import PathAnalysis
from twill.codegen.warp.choices import Choices
from twill.codegen.warp.layout import Layout, Uniform
from twill.codegen.warp.program import (
    LoadGlobal,
    Rearrange,
    Reduce,
    Reg,
    Scan,
    Stmt,
    StoreGlobal,
    SumParts,
    Sync,
    TmaStore,
    WarpGroup,
    WarpProgram,
    with_blocks,
)
from twill.graph.alias import LoopCounter, first_meeting, meets
from twill.tile.program import Access, Loop, Op, TileProgram

ACCESSES = ("tile_load", "tile_store", "tile_reduce")


@dataclass(frozen=True)
class Touch:
    """An access of global memory by a statement. line: of the kernel. writes: the combination of a store ("" for a
    plain one); None for a load. layout: which thread has what; None: the TMA has it all."""

    argument: str
    line: int
    writes: str | None
    layout: Layout | None


Pending = frozenset[Touch]
"""What was touched, on some way here, since the threads of the group last waited for one another."""

Pairs = Mapping[tuple[str, int, int], bool]
"""Argument and the lines of two accesses, the lesser first, that may touch the same elements: whether that is only
where both touch one and the same tile."""


def run(program: WarpProgram, choices: Choices) -> WarpProgram:
    """The pass. Raises UnsupportedInKernel where a store by the TMA would have to be waited for."""
    pairs = meeting_pairs(program.program)
    if not pairs:
        return program
    memory = SharedMemoryPlan.of(program)
    groups = tuple(group if group.issuer else with_waits(program, group, pairs, memory) for group in program.groups)
    if groups == program.groups:
        return program
    return replace(program, groups=groups, barriers=tuple(memory.barriers))


def with_waits(program: WarpProgram, group: WarpGroup, pairs: Pairs, memory: SharedMemoryPlan) -> WarpGroup:
    """The group with a Sync in front of whatever may touch what another thread has touched. Program instances come in
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
            if one.kind == other.kind == "tile_reduce" and one.attributes == other.attributes:
                continue  # they commute
            step = constants.get(loop.step) if loop is not None else None
            same_loop = loop is not None and around is loop
            counter = (
                LoopCounter(loop.induction, step if isinstance(step, int) else None) if loop and same_loop else None
            )
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


class OrderAnalysis(PathAnalysis[Touch]):
    """Goes through a body. needing: the identities of the statements that need a wait in front of them."""

    def __init__(self, program: WarpProgram, group: WarpGroup, pairs: Pairs) -> None:
        self.program, self.group, self.pairs = program, group, pairs
        self.needing: set[int] = set()

    def simple(self, stmt: Stmt, before: Pending) -> Pending:
        """Behind a statement without blocks."""
        match stmt:
            case Sync() | Scan() | SumParts():
                return frozenset()
            case Reduce() | Rearrange():
                return before if stmt.barrier is None else frozenset()
            case LoadGlobal() | StoreGlobal() | TmaStore():
                touch = self.touch(stmt)
                against = [one for one in before if self.meet(one, touch)]
                if any(one.layout is None or touch.layout is None for one in against):
                    self.refuse(touch)
                if against:
                    self.needing.add(id(stmt))
                    return frozenset([touch])
                return before | {touch}
        return before

    def touch(self, stmt: LoadGlobal | StoreGlobal | TmaStore) -> Touch:
        """What a statement touches."""
        if isinstance(stmt, TmaStore):
            return Touch(self.program.maps[stmt.map].argument, stmt.line, stmt.combine, None)
        if isinstance(stmt, LoadGlobal):
            return Touch(stmt.window.argument, stmt.line, None, self.group.fragment(stmt.result).layout)
        held = stmt.operand
        layout: Layout = self.group.fragment(held.fragment).layout if isinstance(held, Reg) else Uniform()
        return Touch(stmt.window.argument, stmt.line, stmt.combine, layout)

    def meet(self, one: Touch, other: Touch) -> bool:
        """Whether two threads may have the same element in both, and one of them writes."""
        if one.argument != other.argument or one.writes is None is other.writes:
            return False
        low, high = sorted((one.line, other.line))
        same = self.pairs.get((one.argument, low, high))
        return same is not None and not (same and one.layout == other.layout and one.layout is not None)

    def refuse(self, touch: Touch) -> None:
        """A bulk store is over when its own thread has waited for it, which nobody else knows."""
        raise exc.UnsupportedInKernel(
            f"`{touch.argument}` is stored as a tile and touched again in the same program instance",
            file=self.program.program.file, line=touch.line, hint="one store for each element",
        )  # fmt: skip


def _waiting(stmts: Iterable[Stmt], needing: set[int], barrier: int) -> Iterator[Stmt]:
    for stmt in stmts:
        if id(stmt) in needing:
            yield Sync(barrier, line=stmt.line)
        yield with_blocks(stmt, lambda block: _waiting(block, needing, barrier))
