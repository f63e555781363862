"""Fourth step of lowering: the streams of all warp groups in the grammar of warp programs.

select(placement, streams, asked) -> Lowered
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from twill import exc
from twill.codegen.lower.cross_tile_reuse import runs
from twill.codegen.lower.dynamic_scheduler import Order, is_dynamic
from twill.codegen.lower.group_stream import GroupStream
from twill.codegen.lower.grouped_rasterization import raster_group_of
from twill.codegen.lower.loads_ahead import as_launched
from twill.codegen.lower.longest_first import longest_first
from twill.codegen.lower.memory import SharedMemoryPlan
from twill.codegen.lower.multicast import CTAS
from twill.codegen.lower.occupied import occupied
from twill.codegen.lower.occupied_order import occupied_scheduler
from twill.codegen.lower.placement import Placement
from twill.codegen.lower.select_group import select_group
from twill.codegen.lower.streamed_tiles import lie_side_by_side
from twill.codegen.lower.tensor_rings import columns_of
from twill.codegen.lower.tile_scheduler import tile_scheduler
from twill.codegen.lower.walk import walk_of
from twill.codegen.warp.choices import Choices
from twill.codegen.warp.program import Cluster, WarpProgram
from twill.machine.description import Machine
from twill.tile.program import TileProgram


@dataclass(frozen=True)
class Lowered:
    """Streams of all warp groups, in a program to which passes are still to be applied, and what these carry out.
    besides: bytes of shared memory that groups keep besides rings and staging, if that is more than is left; else 0."""

    program: WarpProgram
    choices: Choices
    besides: int = 0


def select(rings: Placement, streams: Sequence[GroupStream], asked: Order) -> Lowered:
    """The warp program of a placement. asked: the order of program instances. Raises UnsupportedInKernel,
    UnsupportedBySchedule."""
    plan = rings.plan
    program = plan.wired.program
    memory = SharedMemoryPlan(program.file, [*rings.buffers], [*rings.arefs], threads=plan.tiles.target.threads)
    fragments, cursors = count(), count()
    groups = [select_group(rings, memory, one, fragments, cursors) for one in streams]
    more = memory.buffers[len(rings.buffers) :] if memory.used() > plan.capacity else []
    besides = sum(buffer.bytes for buffer in more if not buffer.name.startswith("staging"))
    if rings.sharing is not None:
        refuse_dynamic(asked, program)
    walk = walk_of(program)
    if walk.stmts:
        refuse_order_of_walk(asked, rings.sharing is not None, program)
    dynamic = rings.sharing is None and not walk.stmts and is_dynamic(plan, asked)
    found = rings.sharing
    cluster_of = None if found is None else Cluster(found.axis, CTAS, together=found.together)
    order = longest_first(plan) if cluster_of is None and not walk.stmts else None
    rows = 1 if lie_side_by_side(plan) else raster_group_of(plan)
    raster_group = 0 if walk.stmts else rows // (CTAS if cluster_of is not None and cluster_of.axis == 0 else 1)
    in_runs = None if dynamic or order is not None or cluster_of is not None else runs(plan, rings)
    busy = occupied(plan) if dynamic and not plan.tiles.target.cancels else None
    scheduler = tile_scheduler(raster_group, order, cluster_of, in_runs) if busy is None else occupied_scheduler(busy)
    made = WarpProgram(
        program=program, machine=plan.machine.name, maps=tuple(memory.maps), buffers=tuple(memory.buffers),
        arefs=tuple(memory.arefs), barriers=tuple(memory.barriers),
        groups=tuple(groups), shared=0, ctas=plan.candidate.ctas, cluster=cluster_of, walk=walk.stmts,
    )  # fmt: skip
    ping_pong = any(group.like >= 0 for group in plan.groups)
    half = plan.machine.emitting.most_registers.whole // 2  # as many are left for what is computed
    if any(group.loads for group in plan.groups):  # of whose threads a launch has fewer registers
        half = min(half, as_launched(plan) - half // 2)
    target = plan.tiles.target
    choices = Choices(plan.candidate.registers, ping_pong, dynamic, plan.capacity, program.strict, half,
                      cancel=target.cancels, late=plan.candidate.late, overlay=plan.candidate.overlay,
                      packed=target.packed, early=target.early, columns=columns_of(plan),
                      passing=passing_bytes(plan.machine))  # fmt: skip
    return Lowered(scheduler.of(made), choices, besides)


def passing_bytes(machine: Machine) -> int:
    """Bytes of a tensor at most, whose tiles pass through the L2 cache where they are read once."""
    passing = machine.emitting.passing
    return 0 if passing is None or machine.l2 is None else int(passing.value * machine.l2.value)


def refuse_order_of_walk(asked: Order, cluster: bool, program: TileProgram) -> None:
    """Raises if programs that find their work by themselves were to have another order, or to meet in clusters."""
    if asked == "dynamic" or cluster:
        raise exc.UnsupportedInKernel(
            "loops around the kernel's work, whose bounds are loaded, say which work a program has, in this order",
            file=program.file,
            hint="emit without `--order dynamic` and `--cluster`",
        )


def refuse_dynamic(asked: Order, program: TileProgram) -> None:
    """Raises if instances were to be fetched one by one: two CTAs take them in pairs."""
    if asked == "dynamic":
        raise exc.UnsupportedInKernel(
            "clusters have a static order of program instances",
            file=program.file,
            hint="emit without `--order dynamic`, or without `--cluster`",
        )
