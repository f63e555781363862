"""Schedule + tile program -> warp program: streams, then passes, with as many CTAs on an SM as fit."""

from __future__ import annotations

from twill import exc
from twill.codegen.lower.dynamic_scheduler import Order
from twill.codegen.lower.streams import occupancies, streams
from twill.codegen.passes.pipeline import LOWERING, Watcher, run_passes
from twill.codegen.warp.program import WarpProgram
from twill.machine.description import Machine
from twill.schedule.document import Schedule
from twill.tile.program import TileProgram


def lower(
    program: TileProgram,
    schedule: Schedule,
    machine: Machine,
    hold: bool = True,
    order: Order = "chosen",
    cluster: int = 1,
    phased: bool = True,
    watch: Watcher = lambda name, made: None,
) -> WarpProgram:
    """The warp program that does what `program` does, as `schedule` says. hold: whether operands of products may stay
    in registers, and sums in parts from loop to loop. order: of program instances; dynamic where they have unequal trip
    counts or CTAs share an SM, unless said otherwise. cluster: CTAs that load tiles together (1 or 2); two know only a
    static order. phased: whether a steady state may change once, where loops of the kernel were joined. watch: gets the
    program behind lowering (as "lowering") and behind every pass of `twill.codegen.passes.pipeline`.

    Raises ScheduleMismatch, UnsupportedInKernel, LayoutConflict, SharedMemoryFull.
    """
    full: exc.SharedMemoryFull | None = None
    for ctas in occupancies(schedule, machine):
        try:
            made = streams(program, schedule, machine, ctas, hold, order, cluster, phased)
            watch(LOWERING, made.program)
            return with_barriers(run_passes(made.program, made.choices, watch), machine)
        except exc.SharedMemoryFull as found:
            full = found
    assert full is not None
    raise full


def with_barriers(program: WarpProgram, machine: Machine) -> WarpProgram:
    """The program. Raises UnsupportedInKernel if the machine has fewer named barriers than it needs."""
    most = machine.emitting.named_barriers.whole
    if len(program.barriers) > most:
        raise exc.UnsupportedInKernel(f"more than {most} named barriers are needed", file=program.program.file)
    return program
