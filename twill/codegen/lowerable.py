"""What lowering refuses whatever the schedule says, refused before anything is solved.

A schedule in program order takes no solver and some milliseconds. The kernel is lowered with it to streams, of which
nothing is kept: a tile that has no layout in registers, an operation without a statement or a scalar that no expression
says are found on the way, at their lines. So what is refused is what lowering and the target lack at the time, and no
list has to be kept of it. What depends on the schedule (`UnsupportedBySchedule`, shared memory, registers) is left to
the schedule that is solved.
"""

from __future__ import annotations

from twill import exc
from twill.codegen.lower.candidates import candidates
from twill.codegen.lower.streams import streams
from twill.codegen.targets.base import target_of
from twill.graph.build import Wired
from twill.machine.description import Machine
from twill.schedule.document import Schedule
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import in_program_order
from twill.solve.too_large import refuse_too_large, without_room

ASKED = SolveOptions(fuse=False, whole_exponentials=True)


def refuse_unlowerable(wired: Wired, machine: Machine) -> Schedule:
    """Raises UnsupportedInKernel, with the line, for what no schedule can make a warp program of, and for tiles that
    have no room even one iteration at a time, in any warp groups that are tried; Infeasible for tiles that no memory
    holds; NoTarget.

    The schedule in the order of the program otherwise, for when nothing better can be built."""
    target_of(machine).refuse(wired.graph)
    schedule = in_program_order(wired.graph, machine, ASKED)
    if schedule is None:
        refuse_too_large(wired.graph, machine)
        raise without_room(wired.graph, machine)
    refused = _refusal(wired, machine, schedule)
    if refused is None:
        return schedule
    one_block = ASKED.model_copy(update={"blocks": 1})  # row blocks may be what is too small
    schedule = in_program_order(wired.graph, machine, one_block)
    if schedule is None:
        raise refused
    again = _refusal(wired, machine, schedule)
    if again is not None:
        raise again
    return schedule


def _refusal(wired: Wired, machine: Machine, schedule: Schedule) -> exc.TwillError | None:
    """What lowering says of the kernel with this schedule, if that is not for another one."""
    plain = (one for one in candidates(wired.program, schedule, machine) if not (one.exchange or one.overlay))
    *_, least = plain
    try:
        streams(wired, schedule, machine, least, "chosen", 1)
    except (exc.UnsupportedBySchedule, exc.CandidateRefused):
        return None
    except exc.UnsupportedInKernel as refused:
        return refused
    return None
