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
from twill.codegen.lower.occupied import HERE, LINE, OccupiedInstances
from twill.codegen.warp.expression import Apply, CtaNumber, Expr, Local, Number, NumPrograms, multiply
from twill.codegen.warp.program import (
    INSTANCE,
    INSTANCES,
    NEIGHBOUR,
    PRESENT,
    RECALLED,
    Cluster,
    Define,
    Evenly,
    InstanceLoop,
    Keep,
    Recall,
    Seek,
    SetProgramId,
    Stmt,
    SumOver,
    WarpProgram,
)

RANKED = "ranked"  # a scalar of `next`: the place of an instance in an order other than that of the grid
_KIB = 10  # a shift

Term = Expr | str | int
"""An expression, or the name of a scalar, or a number."""


@dataclass(frozen=True)
class TileScheduler:
    """The parts of a program (setup, once) and of each of its warp groups (loop, next), which are the same for all."""

    setup: tuple[Stmt, ...]
    once: tuple[Stmt, ...]
    loop: InstanceLoop
    next: tuple[Stmt, ...]

    def of(self, program: WarpProgram) -> WarpProgram:
        """The program, whose warp groups all come by their instances in this way."""
        groups = tuple(replace(group, loop=self.loop, next=self.next) for group in program.groups)
        return replace(program, setup=self.setup, once=self.once, groups=groups)


def tile_scheduler(
    raster_group: int = 0, order: LongestFirst | None = None, cluster: Cluster | None = None, runs: Expr | None = None
) -> TileScheduler:
    """raster_group: rows of the launch grid (of pairs in a cluster along axis 0) that are walked together, column by
    column; 0: the order of the grid, axis 0 the fastest. order: from the longest instances to the shortest, instead.
    runs: where it holds, each CTA has a run of neighbours, all as long as one another but for one instance."""
    sizes = [_grid(axis) if cluster is None or axis != cluster.axis else Local("pairs", "u32") for axis in range(AXES)]
    setup = [*(_cluster(cluster) if cluster is not None else ())]
    setup.append(Define(("instances",), (_times(_times(sizes[0], sizes[1]), sizes[2]),)))
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
            else [SetProgramId(axis, index)]
        )
    once = _once(order) if order is not None else ()
    return TileScheduler(tuple(setup), tuple(once), InstanceLoop(_of(first), _of(end), _of(step)), tuple(found))


# ---------------------------------------------------------------- which instances a CTA has
def _runs(runs: Expr) -> list[Stmt]:
    """Of a run of neighbours, or of every n-th."""
    cta, ctas, chosen = CtaNumber("cta"), CtaNumber("ctas"), Local("runs", "i1")
    longer = _below(cta, "longer")
    return [
        Define(("runs",), (runs,), note="of neighbours, since tiles stay"),
        Define(("run", "longer"), (_over("instances", ctas), _rest("instances", ctas))),
        Define(("run_begin",), (_select(chosen, _plus(_times(cta, "run"), _least(cta, "longer")), cta),)),
        Define(("run_end",), (_select(chosen, _plus(_plus("run_begin", "run"), longer), "instances"),)),
        Define(("run_step",), (_select(chosen, 1, ctas),)),
    ]


def _cluster(cluster: Cluster) -> list[Stmt]:
    """Which cluster the CTA is in, and how many pairs of instances there are."""
    ctas = cluster.ctas
    return [
        Define(
            ("cta", "cluster", "clusters"),
            (CtaNumber("rank"), _over(CtaNumber("cta"), ctas), _over(CtaNumber("ctas"), ctas)),
        ),
        Define(("pairs",), (_over(_plus(_grid(cluster.axis), ctas - 1), ctas),), note="of neighbouring instances"),
    ]


def _in_turns(found: Sequence[Stmt], indices: Sequence[Expr]) -> tuple[list[Stmt], tuple[Expr, Expr, Expr], Expr]:
    """All pairs once for the first of their instances, or both, then once more for the second ones of those that are
    not together. The end of all turns."""
    place = _rest(INSTANCE, "instances")
    turn = Define(("turn", "in_order"), (_over(INSTANCE, "instances"), place), note="which instance of a pair")
    moved = [
        replace(stmt, values=tuple(renamed(value, INSTANCE, "in_order") for value in stmt.values))
        for stmt in found
        if isinstance(stmt, Define)
    ]
    assert len(moved) == len(found)
    x, y, z = (renamed(index, INSTANCE, "in_order") for index in indices)
    return [turn, *moved], (x, y, z), _times(2, "instances")


def renamed(expr: Expr, name: str, other: str) -> Expr:
    """The expression with another scalar in place of one."""
    if isinstance(expr, Local) and expr.name == name:
        return replace(expr, name=other)
    if isinstance(expr, Apply):
        return replace(expr, operands=tuple(renamed(operand, name, other) for operand in expr.operands))
    return expr


def _own_of_pair(cluster: Cluster, pair: Expr) -> list[Stmt]:
    """A CTA's own instance of a pair; the last one twice where its neighbour is missing."""
    axis, last = cluster.axis, _minus(_grid(cluster.axis), 1)
    mine, other = _plus("pair", "cta"), _minus(_plus("pair", cluster.ctas - 1), "cta")
    if cluster.together is not None:
        return _turn_of_pair(cluster, pair, mine, other, last)
    return [
        Define(("pair",), (_times(cluster.ctas, pair),), note="the index of its first instance"),
        SetProgramId(axis, _least(mine, last)),
        Define((PRESENT,), (_below(mine, _grid(axis)),)),
        Define((NEIGHBOUR,), (Apply("cast", (_least(other, last),), "i32"),)),
    ]


def _turn_of_pair(cluster: Cluster, pair: Expr, mine: Expr, other: Expr, last: Expr) -> list[Stmt]:
    """A CTA's own instance of a pair that is together; else the one whose turn it is."""
    assert cluster.together is not None
    axis, both = cluster.axis, Local("both", "i1")
    theirs = renamed(cluster.together, NEIGHBOUR, "others")
    alike = at(theirs, axis, Local("own"))
    turns = _least(_plus("pair", "turn"), last)
    alone = Apply("and", (_equal("cta", "turn"), _below(_plus("pair", "turn"), _grid(axis))), "i1")
    there = Apply("select", (both, _below(mine, _grid(axis)), alone), "i1")
    rest = _least(_minus(_plus("pair", 1), "turn"), last)
    signed = (Apply("cast", (_least(one, last),), "i32") for one in (mine, other))
    return [
        Define(("pair",), (_times(cluster.ctas, pair),), note="the index of its first instance"),
        Define(("own", "others"), tuple(signed)),
        Define(("both",), (alike,)),
        SetProgramId(axis, _select(both, _least(mine, last), turns)),
        Define((PRESENT,), (there,)),
        Define((NEIGHBOUR,), (Apply("cast", (_select(both, _least(other, last), rest),), "i32"),)),
    ]


# ---------------------------------------------------------------- where an instance is in the grid
def _row_after_row(sizes: Sequence[Expr]) -> tuple[Expr, Expr, Expr]:
    """Grid indices of `instance` in the order of the grid."""
    rows, columns, _ = sizes
    return _rest(INSTANCE, rows), _rest(_over(INSTANCE, rows), columns), _over(INSTANCE, _times(rows, columns))


def _rasterized(sizes: Sequence[Expr], group: int) -> tuple[list[Stmt], tuple[Expr, Expr, Expr]]:
    """Grid indices of `instance` in raster groups, and what they are made of."""
    rows, columns, _ = sizes
    made: list[Stmt] = [
        Define(("in_layer",), (_rest(INSTANCE, _times(rows, columns)),)),
        Define(("first_row",), (_times(_over("in_layer", _times(group, columns)), group),)),
        Define(
            ("in_band", "rows"),
            (_minus("in_layer", _times("first_row", columns)), _least(_minus(rows, "first_row"), group)),
        ),
    ]
    first = _plus("first_row", _rest("in_band", "rows"))
    return made, (first, _over("in_band", "rows"), _over(INSTANCE, _times(rows, columns)))


def _once(order: LongestFirst) -> list[Stmt]:
    """What all instances of an order have in common: how many are walked together, along the axes other than that of
    the order."""
    along = _grid(order.axis)
    size = _most(1, Apply("cast", (Apply("shr", (order.bytes, Number(_KIB, "i64")), "i64", (("signed", 1),)),), "u32"))
    return [
        Define(("others",), (_over("instances", along),), note="the rest of the grid"),
        Define(("cached",), (_most(1, _over(order.cached >> _KIB, size)),), note="of these"),
        Define(("most",), (_least("cached", _least("others", order.most)),)),
        Evenly("together", _of("others"), _of("most")),
        Keep((_of("others"), _of("together"), _times("together", along), _over(_minus("others", 1), "together"))),
    ]


def _longest_first(order: LongestFirst) -> tuple[list[Stmt], tuple[Expr, Expr, Expr]]:
    """Grid indices of the instance at a place of the order, and what they are made of. Every other round of CTAs takes
    the places backwards; every other band is walked from its shortest instances."""
    others, together, per_band, last = (Local(name, "u32") for name in RECALLED)
    along, ctas, cta = _grid(order.axis), CtaNumber("ctas"), CtaNumber("cta")
    backwards = _minus(_minus(_plus("begin", _least(ctas, _minus("instances", "begin"))), 1), cta)
    reverse = Apply("and", (_minus(last, "nth"), _of(1)), "u32")
    made: list[Stmt] = [
        Recall(note="others, together, instances of a band, the last band"),
        Define(("begin",), (_minus(INSTANCE, cta),)),
        Define((RANKED,), (_select(_rest(INSTANCES, 2), backwards, INSTANCE),)),
        Define(
            ("nth", "before"), (_over(RANKED, per_band), _times("nth", together)), note="the band, and others before it"
        ),
        Define(
            ("width", "inside"),
            (_least(together, _minus(others, "before")), _minus(RANKED, _times("before", along))),
        ),
        Define(
            ("along", "other"),
            (_over("inside", "width"), _minus(_plus("before", "inside"), _times("along", "width"))),
        ),
        Define(
            ("step",),
            (_select(reverse, _minus(_minus(along, 1), "along"), "along"),),
            note="every other band from its shortest",
        ),
    ]
    first, second = (axis for axis in range(AXES) if axis != order.axis)
    indices = {
        first: _rest("other", _grid(first)),
        second: _over("other", _grid(first)),
        order.axis: _minus(_minus(along, 1), "step") if order.grows else _of("step"),
    }
    return made, (indices[0], indices[1], indices[2])


# ---------------------------------------------------------------- empty instances left out
def occupied_scheduler(order: OccupiedInstances) -> TileScheduler:
    """Every n-th of the instances that do anything, line by line."""
    lines, each = (_product(axes) for axes in (order.lines, order.others))
    value = _on_line(order.count, order.lines)
    setup = SumOver("instances", LINE, lines, each, value, note="that are not empty")
    last = _minus(_most(1, "instances"), 1)
    found: list[Stmt] = [
        Seek(LINE, "before", HERE, _least(INSTANCE, last), lines, each, value),
        Define(("inside",), (_minus(_least(INSTANCE, last), "before"),)),
        Define(("along",), (_most(1, Apply("cast", (Local(HERE),), "u32")),), note="instances from axis to axis"),
    ]
    if order.way:
        size = Apply("shr", (_on_line(order.bytes, order.lines), Number(_KIB, "i64")), "i64", SIGNED)
        found += [
            Define(
                ("cached",), (_over(order.cached >> _KIB, _most(1, Apply("cast", (size,), "u32"))),), note="of them"
            ),
            Define(("together",), (_most(1, _least("cached", _least(_unsigned(each), order.most))),)),
            Define(("nth",), (_over("inside", _times("together", "along")),), note="the band"),
            Define(("first_row",), (_times("nth", "together"),)),
            Define(("in_band",), (_minus("inside", _times("first_row", "along")),)),
            Define(("width",), (_least("together", _minus(_unsigned(each), "first_row")),)),
            Define(("step", "other"), (_over("in_band", "width"), _plus("first_row", _rest("in_band", "width")))),
        ]
    else:
        found.append(Define(("step", "other"), (_rest("inside", "along"), _over("inside", "along"))))
    indices = {order.axis: _minus(_minus("along", 1), "step") if order.way > 0 else _of("step")}
    indices |= dict(zip(order.others, _apart(_of("other"), order.others), strict=True))
    indices |= dict(zip(order.lines, _apart(_unsigned(Local(LINE)), order.lines), strict=True))
    ids = (SetProgramId(axis, indices[axis]) for axis in range(AXES))
    loop = InstanceLoop(CtaNumber("cta"), _of("instances"), CtaNumber("ctas"))
    return TileScheduler((setup,), (), loop, (*found, *ids))


SIGNED = (("signed", 1),)


def _product(axes: Sequence[int]) -> Expr:
    """Places along axes of the grid, an i32."""
    total: Expr = Number(1)
    for axis in axes:
        total = multiply(total, NumPrograms(axis))
    return total


def _on_line(expr: Expr, lines: Sequence[int]) -> Expr:
    """The expression on the line `LINE`."""
    line: Expr = Local(LINE)
    for number, axis in enumerate(lines):
        last = number + 1 == len(lines)
        expr = at(expr, axis, line if last else Apply("rem", (line, NumPrograms(axis)), "i32", SIGNED))
        line = Apply("div", (line, NumPrograms(axis)), "i32", SIGNED)
    return expr


def _apart(place: Expr, axes: Sequence[int]) -> list[Expr]:
    """A place as indices along axes of the grid, the first the fastest."""
    found: list[Expr] = []
    for axis in axes[:-1]:
        found.append(_rest(place, _grid(axis)))
        place = _over(place, _grid(axis))
    return [*found, *([place] if axes else [])]


def _unsigned(expr: Expr) -> Expr:
    return expr if isinstance(expr, Number) and expr.element == "u32" else Apply("cast", (expr,), "u32")


# ---------------------------------------------------------------- unsigned arithmetic
def _of(term: Term) -> Expr:
    match term:
        case str():
            return Local(term, "u32")
        case int():
            return Number(term, "u32")
    return term


def _grid(axis: int) -> Expr:
    return NumPrograms(axis, "u32")


_SIGNS = ("div", "rem", "min", "max")  # operations that say whether their operands have signs


def _apply(kind: str, *operands: Term) -> Expr:
    return Apply(kind, tuple(map(_of, operands)), "u32", (("signed", 0),) if kind in _SIGNS else ())


def _plus(left: Term, right: Term) -> Expr:
    return _apply("add", left, right)


def _minus(left: Term, right: Term) -> Expr:
    return _apply("sub", left, right)


def _times(left: Term, right: Term) -> Expr:
    return _apply("mul", left, right)


def _over(left: Term, right: Term) -> Expr:
    return _apply("div", left, right)


def _rest(left: Term, right: Term) -> Expr:
    return _apply("rem", left, right)


def _least(left: Term, right: Term) -> Expr:
    return _apply("min", left, right)


def _most(left: Term, right: Term) -> Expr:
    return _apply("max", left, right)


def _select(condition: Expr, left: Term, right: Term) -> Expr:
    return Apply("select", (condition, _of(left), _of(right)), "u32")


def _equal(left: Term, right: Term) -> Expr:
    return Apply("compare", (_of(left), _of(right)), "i1", (("predicate", "eq"), ("signed", 0)))


def _below(left: Term, right: Term) -> Expr:
    return Apply("compare", (_of(left), _of(right)), "i1", (("predicate", "lt"), ("signed", 0)))
