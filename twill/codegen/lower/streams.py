"""Schedule + tile program -> the streams of all warp groups."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from twill import exc
from twill.codegen.lower.assign import assign
from twill.codegen.lower.candidates import CandidateRefusal, LoweringCandidate
from twill.codegen.lower.cross_tile_reuse import runs
from twill.codegen.lower.dynamic_scheduler import Order, is_dynamic
from twill.codegen.lower.group_stream import emit_group
from twill.codegen.lower.grouped_rasterization import raster_group_of
from twill.codegen.lower.longest_first import longest_first
from twill.codegen.lower.memory import SharedMemoryPlan
from twill.codegen.lower.multicast import CTAS, sharing
from twill.codegen.lower.place import place
from twill.codegen.lower.placement import Placement
from twill.codegen.lower.plan import LoweringPlan
from twill.codegen.lower.tile_scheduler import tile_scheduler
from twill.codegen.lower.tiles import TileLayouts
from twill.codegen.targets.base import target_of
from twill.codegen.warp.choices import Choices
from twill.codegen.warp.program import Cluster, WarpGroup, WarpProgram
from twill.graph.build import Wired
from twill.graph.by_columns import by_columns
from twill.machine.description import Machine
from twill.schedule.document import Schedule
from twill.tile.program import TileProgram


@dataclass(frozen=True)
class Lowered:
    """Streams of all warp groups, in a program to which passes are still to be applied, and what these carry out."""

    program: WarpProgram
    choices: Choices


def streams(
    wired: Wired, schedule: Schedule, machine: Machine, candidate: LoweringCandidate, asked: Order, cluster: int
) -> Lowered | CandidateRefusal:
    """The streams of warp groups that do what the program of `wired` does, as `schedule` says. candidate: the choices
    that the schedule leaves open. asked: the order of program instances. cluster: CTAs that load tiles together.

    Raises ScheduleMismatch, UnsupportedInKernel, LayoutConflict.
    """
    refuse_mismatch(wired, schedule, machine)
    dim = split_class(wired, schedule)
    tiles = TileLayouts(wired, target_of(machine), dim, schedule.cooperation.blocks, columns_of(wired, schedule))
    plan = assign(wired, tiles, schedule, machine, candidate)
    return plan if isinstance(plan, CandidateRefusal) else of_plan(plan, asked, cluster)


def of_plan(plan: LoweringPlan, asked: Order, cluster: int) -> Lowered:
    """The streams of a plan."""
    program = plan.wired.program
    shared = sharing(plan) if cluster > 1 else None
    rings = place(plan, shared)
    groups, memory = of_groups(plan, rings)
    if memory.used() > plan.capacity:  # what groups keep besides rings takes more than is left
        besides = memory.buffers[len(rings.buffers) :]
        rings = place(plan, shared, sum(b.bytes for b in besides if not b.name.startswith("staging")))
        groups, memory = of_groups(plan, rings)
    if rings.sharing is not None:
        refuse_dynamic(asked, program)
    dynamic = rings.sharing is None and is_dynamic(plan, asked)
    cluster_of, order = (Cluster(rings.sharing.axis, CTAS), None) if rings.sharing else (None, longest_first(plan))
    raster_group = raster_group_of(plan) // (CTAS if cluster_of is not None and cluster_of.axis == 0 else 1)
    in_runs = None if dynamic or order is not None or cluster_of is not None else runs(plan, rings)
    scheduler = tile_scheduler(raster_group, order, cluster_of, in_runs)
    made = WarpProgram(
        program=program, machine=plan.machine.name, maps=tuple(memory.maps), buffers=tuple(memory.buffers),
        arefs=tuple(memory.arefs), barriers=tuple(memory.barriers),
        groups=tuple(groups), shared=0, ctas=plan.candidate.ctas, cluster=cluster_of,
    )  # fmt: skip
    ping_pong = any(group.like >= 0 for group in plan.groups)
    return Lowered(
        scheduler.of(made), Choices(plan.candidate.registers, ping_pong, dynamic, plan.capacity, program.strict)
    )


def of_groups(plan: LoweringPlan, rings: Placement) -> tuple[list[WarpGroup], SharedMemoryPlan]:
    """The warp groups of a placement, and the shared memory of all."""
    memory = SharedMemoryPlan(plan.wired.program.file, [*rings.buffers], [*rings.arefs])
    fragments, cursors = count(), count()
    return [emit_group(rings, memory, group, fragments, cursors) for group in plan.groups], memory


def refuse_dynamic(asked: Order, program: TileProgram) -> None:
    """Raises if instances were to be fetched one by one: two CTAs take them in pairs."""
    if asked == "dynamic":
        raise exc.UnsupportedInKernel(
            "clusters have a static order of program instances",
            file=program.file,
            hint="emit without `--order dynamic`, or without `--cluster`",
        )


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
