"""Whether two partitions share the rows of each tile, or take program instances alternately (ping-pong).

Where one computing warp group has all products of a kernel, a second one may take every other instance, or each may
have half of the rows. Both can have the same I. Measured (docs/gluon.md), tiles that are shared are faster by 17 % on
an H100 (GEMM 8192 x 8192 x 1024), and no slower on an H200 in the mean of four sizes, so that they are preferred; but
they take a copy more, and where that takes a second warp for copies, they are slower by 13 %.
"""

from __future__ import annotations

from collections.abc import Callable

from twill import exc
from twill.codegen.lower.candidates import may_take_turns
from twill.codegen.print.gluon import hopper
from twill.machine.description import Machine
from twill.schedule.document import Schedule

PARTITIONS = 2

Again = Callable[[int, tuple[str, ...]], Schedule]
"""Solves once more, with so many row blocks and such pins."""


def with_shared_tiles(schedule: Schedule, machine: Machine, again: Again) -> Schedule:
    """The schedule, or one of no larger I whose products two warp groups share, and which has no more groups that only
    issue copies, where the first leaves its products to one."""
    if machine.architecture not in hopper.ARCHITECTURES or not may_take_turns(schedule):
        return schedule
    lines = {i.line for loop in schedule.loops for i in loop.graph.instructions if i.op == "dot"}
    pins = tuple(f"line:{line}.0!~line:{line}.1" for line in sorted(lines))
    try:
        shared = again(PARTITIONS, pins)
    except (exc.Infeasible, exc.BudgetExhausted, exc.BadPin, exc.StrategyOption):
        return schedule
    return shared if shared.ii <= schedule.ii and _issuing(shared) <= _issuing(schedule) else schedule


def _issuing(schedule: Schedule) -> int:
    return sum(group.context == "issue" for group in schedule.warp_groups)
