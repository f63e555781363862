"""Turns at the tensor core: the order of products across warp groups that a schedule relies on (ping-pong).

Without an order, products of two warp groups run side by side, each at half the rate, and both wait. Where the schedule
gives each warp group of a loop one run of products in every I cycles, the last product of a run lets the next group's
run begin: an arrival on a named barrier that the first product of that run waits for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twill.codegen.aref import Arrive, If, Stmt, Sync
from twill.codegen.expression import Expr, Number, add, less
from twill.codegen.plan import Place, Task
from twill.codegen.scalars import Iteration


@dataclass(frozen=True)
class Turn:
    """Product `first` of group `to`, iteration i, waits for product `last` of group `of`, iteration i + lead."""

    of: int
    to: int
    last: Place
    first: Place
    lead: int


def turns(products: Sequence[Task], interval: int) -> tuple[Turn, ...]:
    """The turns of one loop; none unless every group has exactly one run of products."""
    order = sorted(products, key=lambda task: (task.start % interval, task.place))
    starts = [i for i, task in enumerate(order) if task.groups != order[i - 1].groups]
    if len(starts) < 2 or len({order[i].groups for i in starts}) < len(starts):
        return ()
    found = []
    for i in starts:
        last, first = order[i - 1], order[i]
        later = -((first.start - last.start) // interval)  # iterations that `first` lags behind the `last` it follows
        found.append(Turn(last.groups[0], first.groups[0], last.place, first.place, -later))
    return tuple(found) if all(turn.lead >= -1 for turn in found) else ()


def wait(turn: Turn, barrier: int, at: Iteration, trip: Expr) -> Stmt:
    """In front of `first`. With a positive lead, the last iterations have no product to wait for; with a negative one
    the first iterations wait for products of the loop's run before, in an earlier program instance."""
    sync = Sync(barrier, note=f"the turn of group {turn.of} is over")
    return If(less(add(at.number, Number(turn.lead)), trip), (sync,)) if turn.lead > 0 else sync


def give(turn: Turn, barrier: int, at: Iteration) -> Stmt:
    """Behind `last`; with a positive lead nothing waits for the first iterations."""
    arrive = Arrive(barrier, note=f"the turn of group {turn.to}")
    return If(less(Number(turn.lead - 1), at.number), (arrive,)) if turn.lead > 0 else arrive


def begin(turn: Turn, barrier: int) -> list[Stmt]:
    """What group `of` does once, so that the first iterations of all find their turn."""
    return [Arrive(barrier, note=f"the first turn of group {turn.to}") for _ in range(max(-turn.lead, 0))]


def end(turn: Turn, barrier: int) -> list[Stmt]:
    """What group `to` does once: no arrival is left over."""
    return [Sync(barrier, note=f"the last turn of group {turn.of} is over") for _ in range(max(-turn.lead, 0))]
