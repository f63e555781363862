"""Whether two partitions share the rows of each tile, or take program instances alternately (ping-pong).

Where one computing warp group has all products of a kernel, a second one may take every other instance, or each may
have half of the rows. Both can have the same I. What an instance costs beside its loop is hidden by ping-pong, in the
model; on an H100 modules whose partitions share tiles took 17 % less for GEMM (8192 x 8192 x 1024, tiles of 128 x 128)
and 7 % less with GELU behind it (docs/gluon.md), so that they are preferred.
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
    """The schedule, or one of no larger I whose products are shared by two warp groups, where the first leaves them to
    one."""
    if machine.architecture not in hopper.ARCHITECTURES or not may_take_turns(schedule):
        return schedule
    lines = {i.line for loop in schedule.loops for i in loop.graph.instructions if i.op == "dot"}
    pins = tuple(f"line:{line}.0!~line:{line}.1" for line in sorted(lines))
    try:
        shared = again(PARTITIONS, pins)
    except (exc.Infeasible, exc.BudgetExhausted, exc.BadPin):
        return schedule
    return shared if shared.ii <= schedule.ii else schedule
