"""What the launches of a warp program shall reach, from the program alone: see `coverage.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from twill.codegen.verify.abstract.cross_tile_reuse import ReuseCounter
from twill.codegen.verify.abstract.guards import Outline, outlines
from twill.codegen.verify.abstract.index_set_splitting import SplitPipeline, split_pipelines
from twill.codegen.verify.abstract.scalars import Scalar
from twill.codegen.verify.abstract.scheduling import Index, InstanceOrder, LaunchedCta
from twill.codegen.warp import program as ir
from twill.codegen.warp.expression import Expr, Local
from twill.codegen.warp.parameters import nodes


@dataclass(frozen=True)
class Wanted:
    """trips: numbers of iterations. depths: of the rings. instances: on one CTA. thorough: each number of iterations in
    a launch of several instances, too. takers: warp groups that take instances alternately, each with all these trips.
    refilled: depths of rings that loops fill again if they are too shallow for an instance's tiles: wanted are two
    instances with more iterations on a CTA, since the second begins where the first has left off. same: whether a pair
    of instances wants the same tile. split_pipelines: steady states that change. reuse_counters: warp groups whose
    tiles may stay in their rings. outlines: whose conditions shall differ. cluster: of the program; order: in which it
    has its instances. Programs of which equal things are wanted are checked with the same launches.
    """

    cluster: ir.Cluster | None
    order: InstanceOrder
    trips: frozenset[int]
    depths: frozenset[int]
    instances: int
    thorough: bool
    takers: int = 1
    refilled: frozenset[int] = frozenset()
    same: frozenset[Expr] = frozenset()
    split_pipelines: tuple[SplitPipeline, ...] = ()
    reuse_counters: tuple[ReuseCounter, ...] = ()
    outlines: tuple[Outline, ...] = ()

    @property
    def leaves_out(self) -> bool:
        """Whether no CTA has instances that are empty."""
        return any(isinstance(stmt, ir.SumOver) for stmt in self.order.setup)

    @property
    def most(self) -> int:
        """The most iterations."""
        return max(self.trips)

    @property
    def ctas(self) -> int:
        """That run at one time."""
        return self.cluster.ctas if self.cluster is not None else 1

    def instances_of(
        self, grid: Index, scalars: Mapping[str, int | float], rank: int = 0
    ) -> list[tuple[Index, Mapping[str, Scalar]]]:
        """The instances of a launch that has one CTA, or of one of a cluster, in order, with the scalars of each."""
        return [*self.order.instances(grid, scalars, LaunchedCta(rank, self.ctas, rank))]


def wanted(program: ir.WarpProgram, thorough: bool = False) -> Wanted:
    """What the launches of a warp program shall reach."""
    pipelines = [stmt for group in program.groups for stmt in ir.walk(group.body) if isinstance(stmt, ir.Pipeline)]
    stages = max((pipeline.stages for pipeline in pipelines), default=0)
    depths = frozenset(aref.depth for aref in program.arefs if aref.transport != ir.INSTANCE_RING)
    deepest = max(depths, default=1)
    slots = {*depths, *(buffer.slots for buffer in program.buffers)}
    trips = {0, 1, 2, stages - 1, stages, stages + 1, stages + 2, stages + deepest + 1}
    trips |= {slot + more for slot in slots for more in (-1, 0, 1)}
    if thorough:
        trips |= set(range(stages + 2 * deepest + 2))
    takers = max((group.share[1] for group in program.groups), default=1)
    refilled = frozenset(depth for group in program.groups for depth in _refilled(program, group))
    least = frozenset(trip for trip in trips if trip >= 0)
    lets = [stmt for group in program.groups for stmt in group.body if isinstance(stmt, ir.Let)]
    same = frozenset(let.value for let in lets if Local(ir.NEIGHBOUR) in nodes(let.value))
    return Wanted(
        program.cluster, InstanceOrder.of(program), least, depths - {1}, deepest + 2, thorough, takers, refilled, same,
        tuple(split_pipelines(program)), ReuseCounter.of(program), outlines(program),
    )  # fmt: skip


def _refilled(program: ir.WarpProgram, group: ir.WarpGroup) -> Iterator[int]:
    """Depths of the rings in which a group goes on only if they do not hold all tiles."""
    guarded = [stmt for guard in ir.walk(group.body) if isinstance(guard, ir.If) for stmt in guard.body]
    return (program.arefs[group.cursor(stmt.cursor).aref].depth for stmt in guarded if isinstance(stmt, ir.Skip))
