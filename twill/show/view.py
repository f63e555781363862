"""A schedule as something to draw: each loop with its rows (units, warp groups) and their bars.

Bars are in cycles from the start of iteration 0; `Bar.wrapped` folds one into the steady state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from twill.exc import InvalidSchedule
from twill.graph.costed import Instruction
from twill.schedule.checker import document as check_document
from twill.schedule.document import LoopSchedule, Schedule, ScheduledOp, ScheduledWarpGroup
from twill.show.words import label

MOST_COPIES = 64  # iterations in flight beyond which no picture helps


@dataclass(frozen=True)
class Bar:
    """`item` occupies its row in [start, end)."""

    item: ShownOp
    start: int
    end: int

    def wrapped(self, ii: int) -> Iterator[tuple[int, int, bool]]:
        """The parts of the bar in [0, I): (start, end, whether the bar begins there)."""
        first, left = self.start % ii, min(self.end - self.start, ii)
        head = min(left, ii - first)
        if head > 0:
            yield first, first + head, True
        if left > head:
            yield 0, left - head, False


@dataclass(frozen=True)
class ShownOp:
    """An op with its instruction. name: tells it from other ops of its row block ("qk", "p:exp2")."""

    op: ScheduledOp
    instruction: Instruction
    name: str

    @property
    def label(self) -> str:
        """The name with the row block: `qk.0`, `p:exp2.0`."""
        return label(self.name, self.op.block)


@dataclass(frozen=True)
class TimelineRow:
    """A unit or a warp group. busy: cycles of one iteration in which it is taken."""

    name: str
    bars: tuple[Bar, ...]

    @property
    def busy(self) -> int:
        """Cycles of one iteration in which the row is taken."""
        return sum(bar.end - bar.start for bar in self.bars)


@dataclass(frozen=True)
class LoopView:
    """One loop to draw. units: busiest first. groups: in the order of their ids, with their row."""

    loop: LoopSchedule
    items: tuple[ShownOp, ...]  # by start, then id
    units: tuple[TimelineRow, ...]
    groups: tuple[tuple[ScheduledWarpGroup, TimelineRow], ...]

    @property
    def ii(self) -> int:
        """The initiation interval."""
        return self.loop.ii

    @property
    def title(self) -> str:
        """`loop at line 20 (cdiv(N, 128) iterations)`."""
        if self.loop.graph.kind == "straight":
            return f"straight line at line {self.loop.line}, one iteration a program instance"
        return f"loop at line {self.loop.line}" + (f", trip {self.loop.trip}" if self.loop.trip else "")


def views(schedule: Schedule) -> tuple[LoopView, ...]:
    """Every loop of the schedule; raises InvalidSchedule if the document contradicts itself."""
    groups = {group.id: group for group in schedule.warp_groups}
    loops = {loop.loop for loop in schedule.loops}
    if not schedule.loops:
        raise refusal("it has no loop")
    for op in schedule.ops:
        if op.loop not in loops:
            raise refusal(f"op {op.id} ({op.name}) is of loop {op.loop}, which it does not have")
        if op.warp_group not in groups:
            raise refusal(f"{op.name} is in warp group {op.warp_group}, which it does not have")
    return tuple(view(schedule, loop, groups) for loop in schedule.loops)


def view(schedule: Schedule, loop: LoopSchedule, groups: dict[int, ScheduledWarpGroup]) -> LoopView:
    """One loop."""
    ops = [op for op in schedule.ops if op.loop == loop.loop]
    refuse_contradictions(loop, ops)
    instructions = {i.id: i for i in loop.graph.instructions}
    names = telling_names(ops)
    ops.sort(key=lambda op: (op.start, op.id))
    items = tuple(ShownOp(op, instructions[op.id], names[op.id]) for op in ops)
    units = dict.fromkeys(use.unit for item in items for use in item.instruction.uses if use.cycles)
    rows = [TimelineRow(unit, tuple(unit_bars(items, unit))) for unit in units]
    used = [groups[number] for number in sorted({op.warp_group for op in ops})]
    return LoopView(
        loop=loop,
        items=items,
        units=tuple(sorted(rows, key=lambda row: (-row.busy, row.name))),
        groups=tuple((group, TimelineRow(group.role, tuple(group_bars(items, group)))) for group in used),
    )


def telling_names(ops: Sequence[ScheduledOp]) -> dict[int, str]:
    """A name for each op by its id: its variable, with its last operation, or all of them, or its id,
    if other ops of the row block have the same."""
    names = {op.id: "" for op in ops}
    for spell in (plain_name, last_operation, all_operations, numbered):
        taken = Counter((spell(op), op.block) for op in ops)
        for op in ops:
            if not names[op.id] and taken[spell(op), op.block] == 1:
                names[op.id] = spell(op)
    return {op.id: names[op.id] or numbered(op) for op in ops}


def plain_name(op: ScheduledOp) -> str:
    """`p`."""
    return op.name or op.op


def last_operation(op: ScheduledOp) -> str:
    """`p:exp2`."""
    return f"{plain_name(op)}:{(op.op.split() or [op.unit])[-1]}"


def all_operations(op: ScheduledOp) -> str:
    """`p:mul+sub`."""
    return f"{plain_name(op)}:{'+'.join(op.op.split())}"


def numbered(op: ScheduledOp) -> str:
    """`p#7`."""
    return f"{plain_name(op)}#{op.id}"


def unit_bars(items: tuple[ShownOp, ...], unit: str) -> Iterator[Bar]:
    """What occupies a unit in one iteration."""
    for item in items:
        for use in item.instruction.uses:
            if use.unit == unit and use.cycles:
                start = item.op.start + use.start
                yield Bar(item, start, start + use.cycles)


def group_bars(items: tuple[ShownOp, ...], group: ScheduledWarpGroup) -> Iterator[Bar]:
    """What holds a warp group in one iteration."""
    for item in items:
        if item.op.warp_group == group.id:
            yield Bar(item, item.op.start, item.op.start + item.op.hold)


def refuse_contradictions(loop: LoopSchedule, ops: list[ScheduledOp]) -> None:
    """Raise if the ops do not fit the loop's graph, so that nothing false is drawn."""
    if loop.ii < 1:
        raise refusal(f"the loop at line {loop.line} has initiation interval {loop.ii}; it is at least 1")
    found = list(check_document.graph(loop.loop, loop.graph))
    if not found:
        found = check_document.place(loop, ops)[1]
    if found:
        raise refusal(found[0].describe())
    if {op.id for op in ops} != {i.id for i in loop.graph.instructions}:
        raise refusal(f"the loop at line {loop.line} has instructions that no op schedules")
    if not 0 < loop.length <= MOST_COPIES * loop.ii or max((op.start for op in ops), default=0) >= loop.length:
        raise refusal(f"the loop at line {loop.line} has length {loop.length} at initiation interval {loop.ii}")


def refusal(what: str) -> InvalidSchedule:
    """The error of a document that cannot be drawn."""
    return InvalidSchedule(
        f"the schedule contradicts itself: {what}", hint="`twill check` lists everything that is wrong with it"
    )
