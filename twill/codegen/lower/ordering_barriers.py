"""Turns at the tensor core: the order of MMAs across warp groups that a schedule relies on (ping-pong).

Without an order, MMAs of two warp groups run side by side, each at half the rate, and both wait. Where the schedule
gives each warp group of a loop one run of MMAs in every I cycles, the last MMA of a run lets the next group's
run begin: an arrival on a named barrier that the first MMA of that run waits for.

The MMAs of a run may be of different iterations (PV of iteration i, QK of iteration i + 1), so the first and last
runs of a loop are partial. Runs are numbered alike in all groups; run r of the first group in the cycle waits for run
r - 1 of the last. Its very first wait finds an arrival that the last group makes at the start of the kernel, and the
arrival of the last run is waited for at its end: so turns go on from one program instance to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twill.codegen.lower.scalars import Iteration
from twill.codegen.lower.task import Place, Task
from twill.codegen.warp.expression import Apply, Expr, Number, less, subtract
from twill.codegen.warp.program import Arrive, If, Stmt, Sync


@dataclass(frozen=True)
class MmaRun:
    """MMAs of one group that follow one another. offsets: iteration of each, less the run's number."""

    group: int
    mmas: tuple[Place, ...]
    offsets: tuple[int, ...]
    time: int  # of the first MMA in run 0


@dataclass(frozen=True)
class OrderingBarrier:
    """Run r of `to` waits for run r of `of`; for its run r - 1 if `wraps`."""

    of: MmaRun
    to: MmaRun
    wraps: bool


def ordering_barriers(
    mmas: Sequence[Task], others: Sequence[Task], interval: int, slack: float
) -> tuple[OrderingBarrier, ...]:
    """The turns of one loop; none unless every group has exactly one run of MMAs, and all of them as many.

    others: what else the groups do. A group that computes nearly all the time between its runs cannot keep to its turn,
    and then both groups would wait: there are turns only if each has `slack` of the interval to spare.
    """
    if not all(spare(group, mmas, others, interval) >= slack * interval for group in groups_of(mmas)):
        return ()
    order = sorted(mmas, key=lambda task: (task.start % interval, task.place))
    starts = [i for i, task in enumerate(order) if task.groups != order[i - 1].groups]
    if len(starts) < 2 or len({order[i].groups for i in starts}) < len(starts):
        return ()
    runs = []
    for start, end in zip(starts, [*starts[1:], starts[0] + len(order)], strict=True):
        runs.append(run_of([order[i % len(order)] for i in range(start, end)], interval))
    leads = [lead(of, to, interval) for of, to in zip(runs[-1:] + runs[:-1], runs, strict=True)]
    alike = len({frozenset(run.offsets) for run in runs}) == 1  # else a short loop has runs in one group only
    if not alike or sorted(leads) != [-1] + [0] * (len(runs) - 1):
        return ()
    return tuple(
        OrderingBarrier(of, to, before < 0) for of, to, before in zip(runs[-1:] + runs[:-1], runs, leads, strict=True)
    )


def groups_of(tasks: Sequence[Task]) -> set[int]:
    """The groups that have the tasks."""
    return {task.groups[0] for task in tasks}


def spare(group: int, mmas: Sequence[Task], others: Sequence[Task], interval: int) -> int:
    """Cycles of an interval in which a group neither computes nor waits for MMAs of its own."""
    multiplying = sum(task.busy for task in mmas if task.groups[0] == group)
    return interval - multiplying - sum(task.hold for task in others if task.groups[0] == group)


def run_of(tasks: Sequence[Task], interval: int) -> MmaRun:
    """The run of consecutive MMAs."""
    first = tasks[0]
    offsets = [(first.start + (t.start - first.start) % interval - t.start) // interval for t in tasks]
    least = min(offsets)
    shifted = tuple(offset - least for offset in offsets)
    return MmaRun(first.groups[0], tuple(t.place for t in tasks), shifted, first.start + shifted[0] * interval)


def lead(of: MmaRun, to: MmaRun, interval: int) -> int:
    """Run r of `to` comes right after run r + lead of `of`."""
    return (to.time - of.time - 1) // interval


def wait(turn: OrderingBarrier, place: Place, barrier: int, at: Iteration, trip: Expr) -> list[Stmt]:
    """In front of an MMA: if it is the first of its run that has an iteration, it waits for its turn."""
    position = turn.to.mmas.index(place)
    sync = Sync(barrier, note=f"the turn of group {turn.of.group} is over")
    return only_if_missing(sync, turn.to, position, range(position), at, trip)


def give(turn: OrderingBarrier, place: Place, barrier: int, at: Iteration, trip: Expr) -> list[Stmt]:
    """Behind an MMA: if it is the last of its run that has an iteration, the next group's turn begins."""
    position = turn.of.mmas.index(place)
    arrive = Arrive(barrier, note=f"the turn of group {turn.to.group}")
    others = range(position + 1, len(turn.of.mmas))
    return only_if_missing(arrive, turn.of, position, others, at, trip)


def only_if_missing(stmt: Stmt, run: MmaRun, mine: int, others: range, at: Iteration, trip: Expr) -> list[Stmt]:
    """The statement, if the other MMAs of this run have no iteration."""
    guard: Expr | None = None
    for other in others:
        ahead = run.offsets[other] - run.offsets[mine]
        if not ahead:
            return []
        missing = less(at.number, Number(-ahead)) if ahead < 0 else less(subtract(trip, Number(ahead + 1)), at.number)
        guard = missing if guard is None else Apply("and", (guard, missing), "i1")
    return [stmt] if guard is None else [If(guard, (stmt,))]


def begin(turn: OrderingBarrier, barrier: int) -> list[Stmt]:
    """What group `of` does once, so that the very first run finds its turn."""
    return [Arrive(barrier, note=f"the first turn of group {turn.to.group}")] if turn.wraps else []


def end(turn: OrderingBarrier, barrier: int) -> list[Stmt]:
    """What group `to` does once: no arrival is left over."""
    return [Sync(barrier, note=f"the last turn of group {turn.of.group} is over")] if turn.wraps else []
