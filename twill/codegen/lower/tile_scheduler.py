"""The tile scheduler: the statements by which CTAs come by their program instances, one after the other.

The instances of a launch stand in an order: that of the launch grid, row after row; in raster groups of rows; or from
the longest to the shortest. CTA t of G has instances t, t + G, ... of it, or a run of neighbours. Two CTAs of a cluster
go through pairs of instances, and each takes its own of a pair. (How CTAs fetch instances one by one instead is
`twill.codegen.passes.dynamic_scheduler`.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from twill.codegen.lower.longest_first import AXES, LongestFirst, at
from twill.codegen.lower.unsigned import (
    Term,
    below,
    equal,
    grid,
    least,
    minus,
    most,
    of,
    over,
    plus,
    rest,
    select,
    times,
)
from twill.codegen.warp import program as ir
from twill.codegen.warp.expression import Apply, CtaNumber, Expr, Local, Number, inlined

RANKED = "ranked"  # a scalar of `next`: the place of an instance in an order other than that of the grid
KIB = 10  # a shift


@dataclass(frozen=True)
class TileScheduler:
    """The parts of a program (setup, once) and of each of its warp groups (loop, next), which are the same for all."""

    setup: tuple[ir.Stmt, ...]
    once: tuple[ir.Stmt, ...]
    loop: ir.InstanceLoop
    next: tuple[ir.Stmt, ...]

    def of(self, program: ir.WarpProgram) -> ir.WarpProgram:
        """The program, whose warp groups all come by their instances in this way."""
        groups = tuple(replace(group, loop=self.loop, next=self.next) for group in program.groups)
        return replace(program, setup=self.setup, once=self.once, groups=groups)


def tile_scheduler(
    raster_group: int = 0,
    order: LongestFirst | None = None,
    cluster: ir.Cluster | None = None,
    runs: Expr | None = None,
) -> TileScheduler:
    """raster_group: rows of the launch grid (of pairs in a cluster along axis 0) that are walked together, column by
    column; 0: the order of the grid, axis 0 the fastest. order: from the longest instances to the shortest, instead.
    runs: where it holds, each CTA has a run of neighbours, all as long as one another but for one instance."""
    sizes = [grid(axis) if cluster is None or axis != cluster.axis else Local("pairs", "u32") for axis in range(AXES)]
    setup = [*(_cluster(cluster) if cluster is not None else ())]
    setup.append(ir.Define(("instances",), (times(times(sizes[0], sizes[1]), sizes[2]),)))
    first: Term
    end: Term
    first, end, step = (
        (CtaNumber("cta"), "instances", CtaNumber("ctas")) if cluster is None else ("cluster", "instances", "clusters")
    )
    if runs is not None:
        setup += _runs(runs)
        first, end, step = "run_begin", "run_end", "run_step"
    if order is not None:
        found, indices = _longest_first(order)
    elif raster_group:
        found, indices = _rasterized(sizes, raster_group)
    else:
        found, indices = [], _row_after_row(sizes)
    if cluster is not None and cluster.together is not None:
        found, indices, end = _in_turns(found, indices)
    for axis, index in enumerate(indices):
        found += (
            _own_of_pair(cluster, index)
            if cluster is not None and axis == cluster.axis
            else [ir.SetProgramId(axis, index)]
        )
    once = _once(order) if order is not None else ()
    return TileScheduler(tuple(setup), tuple(once), ir.InstanceLoop(of(first), of(end), of(step)), tuple(found))


# ---------------------------------------------------------------- which instances a CTA has
def _runs(runs: Expr) -> list[ir.Stmt]:
    """Of a run of neighbours, or of every n-th."""
    cta, ctas, chosen = CtaNumber("cta"), CtaNumber("ctas"), Local("runs", "i1")
    longer = below(cta, "longer")
    return [
        ir.Define(("runs",), (runs,), note="of neighbours, since tiles stay"),
        ir.Define(("run",), (select(chosen, over("instances", ctas), 0),)),  # no division where there are none
        ir.Define(("longer",), (minus("instances", times("run", ctas)),)),
        ir.Define(("run_begin",), (select(chosen, plus(times(cta, "run"), least(cta, "longer")), cta),)),
        ir.Define(("run_end",), (select(chosen, plus(plus("run_begin", "run"), longer), "instances"),)),
        ir.Define(("run_step",), (select(chosen, 1, ctas),)),
    ]


def _cluster(cluster: ir.Cluster) -> list[ir.Stmt]:
    """Which cluster the CTA is in, and how many pairs of instances there are."""
    ctas = cluster.ctas
    return [
        ir.Define(
            ("cta", "cluster", "clusters"),
            (CtaNumber("rank"), over(CtaNumber("cta"), ctas), over(CtaNumber("ctas"), ctas)),
        ),
        ir.Define(("pairs",), (over(plus(grid(cluster.axis), ctas - 1), ctas),), note="of neighbouring instances"),
    ]


def _in_turns(found: Sequence[ir.Stmt], indices: Sequence[Expr]) -> tuple[list[ir.Stmt], tuple[Expr, Expr, Expr], Expr]:
    """All pairs once for the first of their instances, or both, then once more for the second ones of those that are
    not together. The end of all turns."""
    place = rest(ir.INSTANCE, "instances")
    turn = ir.Define(("turn", "in_order"), (over(ir.INSTANCE, "instances"), place), note="which instance of a pair")
    moved = [
        replace(stmt, values=tuple(inlined(value, {ir.INSTANCE: of("in_order")}) for value in stmt.values))
        for stmt in found
        if isinstance(stmt, ir.Define)
    ]
    assert len(moved) == len(found)
    x, y, z = (inlined(index, {ir.INSTANCE: of("in_order")}) for index in indices)
    return [turn, *moved], (x, y, z), times(2, "instances")


def _own_of_pair(cluster: ir.Cluster, pair: Expr) -> list[ir.Stmt]:
    """A CTA's own instance of a pair; the last one twice where its neighbour is missing."""
    axis, last = cluster.axis, minus(grid(cluster.axis), 1)
    mine, other = plus("pair", "cta"), minus(plus("pair", cluster.ctas - 1), "cta")
    if cluster.together is not None:
        return _turn_of_pair(cluster, pair, mine, other, last)
    return [
        ir.Define(("pair",), (times(cluster.ctas, pair),), note="the index of its first instance"),
        ir.SetProgramId(axis, least(mine, last)),
        ir.Define((ir.PRESENT,), (below(mine, grid(axis)),)),
        ir.Define((ir.NEIGHBOUR,), (Apply("cast", (least(other, last),), "i32"),)),
    ]


def _turn_of_pair(cluster: ir.Cluster, pair: Expr, mine: Expr, other: Expr, last: Expr) -> list[ir.Stmt]:
    """A CTA's own instance of a pair that is together; else the one whose turn it is."""
    assert cluster.together is not None
    axis, both = cluster.axis, Local("both", "i1")
    theirs = inlined(cluster.together, {ir.NEIGHBOUR: Local("others")})
    alike = at(theirs, axis, Local("own"))
    turns = least(plus("pair", "turn"), last)
    alone = Apply("and", (equal("cta", "turn"), below(plus("pair", "turn"), grid(axis))), "i1")
    there = Apply("select", (both, below(mine, grid(axis)), alone), "i1")
    rest = least(minus(plus("pair", 1), "turn"), last)
    signed = (Apply("cast", (least(one, last),), "i32") for one in (mine, other))
    return [
        ir.Define(("pair",), (times(cluster.ctas, pair),), note="the index of its first instance"),
        ir.Define(("own", "others"), tuple(signed)),
        ir.Define(("both",), (alike,)),
        ir.SetProgramId(axis, select(both, least(mine, last), turns)),
        ir.Define((ir.PRESENT,), (there,)),
        ir.Define((ir.NEIGHBOUR,), (Apply("cast", (select(both, least(other, last), rest),), "i32"),)),
    ]


# ---------------------------------------------------------------- where an instance is in the grid
def _row_after_row(sizes: Sequence[Expr]) -> tuple[Expr, Expr, Expr]:
    """Grid indices of `instance` in the order of the grid."""
    rows, columns, _ = sizes
    return rest(ir.INSTANCE, rows), rest(over(ir.INSTANCE, rows), columns), over(ir.INSTANCE, times(rows, columns))


def _rasterized(sizes: Sequence[Expr], group: int) -> tuple[list[ir.Stmt], tuple[Expr, Expr, Expr]]:
    """Grid indices of `instance` in raster groups, and what they are made of."""
    rows, columns, _ = sizes
    made: list[ir.Stmt] = [
        ir.Define(("in_layer",), (rest(ir.INSTANCE, times(rows, columns)),)),
        ir.Define(("first_row",), (times(over("in_layer", times(group, columns)), group),)),
        ir.Define(
            ("in_band", "rows"),
            (minus("in_layer", times("first_row", columns)), least(minus(rows, "first_row"), group)),
        ),
    ]
    first = plus("first_row", rest("in_band", "rows"))
    return made, (first, over("in_band", "rows"), over(ir.INSTANCE, times(rows, columns)))


def _once(order: LongestFirst) -> list[ir.Stmt]:
    """What all instances of an order have in common: how many are walked together, along the axes other than that of
    the order."""
    along = grid(order.axis)
    size = most(1, Apply("cast", (Apply("shr", (order.bytes, Number(KIB, "i64")), "i64", (("signed", 1),)),), "u32"))
    return [
        ir.Define(("others",), (over("instances", along),), note="the rest of the grid"),
        ir.Define(("cached",), (most(1, over(order.cached >> KIB, size)),), note="of these"),
        ir.Define(("most",), (least(most("cached", over(order.ctas, along)), least("others", order.most)),)),
        ir.Evenly("together", of("others"), of("most")),
        ir.Keep((of("others"), of("together"), times("together", along), over(minus("others", 1), "together"))),
    ]


def _longest_first(order: LongestFirst) -> tuple[list[ir.Stmt], tuple[Expr, Expr, Expr]]:
    """Grid indices of the instance at a place of the order, and what they are made of. Every other round of CTAs takes
    the places backwards; every other band is walked from its shortest instances."""
    others, together, per_band, last = (Local(name, "u32") for name in ir.RECALLED)
    along, ctas, cta = grid(order.axis), CtaNumber("ctas"), CtaNumber("cta")
    backwards = minus(minus(plus("begin", least(ctas, minus("instances", "begin"))), 1), cta)
    reverse = Apply("and", (minus(last, "nth"), of(1)), "u32")
    made: list[ir.Stmt] = [
        ir.Recall(note="others, together, instances of a band, the last band"),
        ir.Define(("begin",), (minus(ir.INSTANCE, cta),)),
        ir.Define((RANKED,), (select(rest(ir.INSTANCES, 2), backwards, ir.INSTANCE),)),
        ir.Define(
            ("nth", "before"), (over(RANKED, per_band), times("nth", together)), note="the band, and others before it"
        ),
        ir.Define(
            ("width", "inside"),
            (least(together, minus(others, "before")), minus(RANKED, times("before", along))),
        ),
        ir.Define(
            ("along", "other"),
            (over("inside", "width"), minus(plus("before", "inside"), times("along", "width"))),
        ),
        ir.Define(
            ("step",),
            (select(reverse, minus(minus(along, 1), "along"), "along"),),
            note="every other band from its shortest",
        ),
    ]
    first, second = (axis for axis in range(AXES) if axis != order.axis)
    indices = {
        first: rest("other", grid(first)),
        second: over("other", grid(first)),
        order.axis: minus(minus(along, 1), "step") if order.grows else of("step"),
    }
    return made, (indices[0], indices[1], indices[2])
