"""Schedule + tile program -> the streams of all warp groups, in four steps: assign, place, stream, select."""

from __future__ import annotations

from dataclasses import replace

from twill import exc
from twill.codegen.lower.assign import assign
from twill.codegen.lower.candidates import CandidateRefusal, LoweringCandidate
from twill.codegen.lower.dynamic_scheduler import Order
from twill.codegen.lower.group_stream import stream
from twill.codegen.lower.multicast import sharing
from twill.codegen.lower.pairs import pairing
from twill.codegen.lower.place import place
from twill.codegen.lower.select import Lowered, select
from twill.codegen.lower.tiles import TileLayouts
from twill.codegen.targets.base import LANES, target_of
from twill.graph.build import Wired
from twill.graph.by_columns import by_columns
from twill.machine.description import Machine
from twill.schedule.document import Schedule


def streams(
    wired: Wired, schedule: Schedule, machine: Machine, candidate: LoweringCandidate, asked: Order, cluster: int
) -> Lowered | CandidateRefusal:
    """The streams of warp groups that do what the program of `wired` does, as `schedule` says. candidate: the choices
    that the schedule leaves open. asked: the order of program instances. cluster: CTAs that load tiles together, or
    multiply together where the schedule is one of pairs.

    Raises ScheduleMismatch, UnsupportedInKernel.
    """
    refuse_mismatch(wired, schedule, machine)
    dim = split_class(wired, schedule)
    target = target_of(machine)
    if candidate.threads != target.threads:  # one warp group without products
        target = replace(target, warps=candidate.threads // LANES, mma=None)
    tiles = TileLayouts(wired, target, dim, schedule.cooperation.blocks, columns_of(wired, schedule))
    plan = assign(wired, tiles, schedule, machine, candidate)
    if isinstance(plan, CandidateRefusal):
        return plan
    together = pairing if schedule.cooperation.pair else sharing
    shared = together(plan) if cluster > 1 else None
    placement = place(plan, shared)
    made = select(placement, [stream(placement, group) for group in plan.groups], asked)
    if made.besides:
        placement = place(plan, shared, made.besides)
        made = select(placement, [stream(placement, group) for group in plan.groups], asked)
    return made


def refuse_mismatch(wired: Wired, schedule: Schedule, machine: Machine) -> None:
    """Raises unless the schedule is of this kernel, specialization and machine, and fuses no program instances."""
    program = wired.program
    if schedule.cooperation.fuse > 1:
        raise exc.UnsupportedInKernel(
            f"the schedule fuses {schedule.cooperation.fuse} program instances, which is not emitted",
            file=program.file,
            hint="solve it for emission: `twill emit` without --schedule",
        )
    theirs = (schedule.kernel, schedule.spec, schedule.machine_digest)
    ours = (program.kernel, program.spec, machine.digest())
    for what, their, our in zip(("kernel", "specialization", "machine"), theirs, ours, strict=True):
        if their != our:
            raise exc.ScheduleMismatch(
                f"the schedule is for {what} `{their}`, not `{our}`", file=program.file, hint="solve the kernel again"
            )


def columns_of(wired: Wired, schedule: Schedule) -> dict[tuple[int, int], int]:
    """The nodes that the schedule makes in parts of their columns, by (region, node): the dimension that is cut."""
    cooperation = schedule.cooperation
    if not cooperation.columns:
        return {}
    dim = next((d.id for d in wired.graph.dims if d.name == cooperation.dim), -1)
    return {
        (region.id, node): cut
        for region in wired.graph.regions
        for node, cut in by_columns(wired.graph, region, dim, cooperation.split).items()
    }


def split_class(wired: Wired, schedule: Schedule) -> int:
    """The dimension class that the cooperation cuts into row blocks; -1 for none."""
    if schedule.cooperation.blocks == 1:
        return -1
    dim = next(d.id for d in wired.graph.dims if d.name == schedule.cooperation.dim)
    return next(c for c, number in wired.dims.items() if number == dim)
