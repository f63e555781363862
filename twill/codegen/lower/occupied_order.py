"""The tile scheduler where empty instances are left out (`twill.codegen.lower.occupied`): line by line of the launch
grid, the lines whose instances are long before all others.

Instances of a line go on with one another, and CTAs that fetch them would end with whatever sequence comes last,
however long it is. So the lines are gone through twice: first those whose longest instance reads no less than the mean
of all lines, then the rest. (Finer classes were no faster, and what tells them apart stands in front of a CTA's first
instance.)
"""

from __future__ import annotations

from collections.abc import Sequence

from twill.codegen.lower.longest_first import AXES, at
from twill.codegen.lower.occupied import HERE, LINE, OccupiedInstances
from twill.codegen.lower.tile_scheduler import KIB, TileScheduler
from twill.codegen.lower.unsigned import grid, least, minus, most, of, over, plus, rest, times
from twill.codegen.warp.expression import (
    Apply,
    CtaNumber,
    Expr,
    Local,
    Lookup,
    Number,
    NumPrograms,
    ProgramId,
    inlined,
    less,
    multiply,
)
from twill.codegen.warp.parameters import nodes
from twill.codegen.warp.program import INSTANCE, Define, InstanceLoop, Seek, SetProgramId, Stmt, SumOver

TWICE = "line_twice"  # a scalar: the line, and behind all of them each once more
WEIGHTS, MEAN = "weights", "mean_weight"  # what the longest instances of all lines read
NUMBER, UNITS, WEIGHT = "line_instances", "line_units", "line_weight"  # of a line: instances, what the longest reads
UNIT, HEAVIEST = 14, (1 << 16) - 1  # a shift, of what a line reads; a number of them that counts for all above it
SIGNED = (("signed", 1),)


def occupied_scheduler(order: OccupiedInstances) -> TileScheduler:
    """Every n-th of the instances that do anything, line by line."""
    lines, each = (_product(axes) for axes in (order.lines, order.others))
    setup: list[Stmt] = []
    index, extent, value = LINE, lines, _on_line(order.count, order.lines)
    names: tuple[str, ...] = ()
    values: tuple[Expr, ...] = ()
    if tells_lines_apart(order):
        weighed = _weighed(order)
        names, values = tuple(weighed), tuple(weighed.values())
        note = f"what lines read, in units of {1 << UNIT - KIB} KiB"
        setup = [
            SumOver(WEIGHTS, LINE, lines, Number(1), Local(WEIGHT), False, names, values, note=note),
            Define((MEAN,), (Apply("cast", (over(WEIGHTS, _unsigned(lines)),), "i32"),)),
        ]
        index, extent, first = TWICE, multiply(lines, Number(2)), less(Local(TWICE), lines)
        names, values = (LINE, *names), (_line(lines), *values)
        long = Apply("xor", (first, less(Local(WEIGHT), Local(MEAN))), "i1")
        value = Apply("select", (long, Local(NUMBER), Number(0)), "i32")
    setup.append(SumOver("instances", index, extent, each, value, True, names, values, note="that are not empty"))
    last = minus(most(1, "instances"), 1)
    found: list[Stmt] = [
        Seek(index, "before", HERE, least(INSTANCE, last), extent, each, value, names, values),
        *([Define((LINE,), (_line(lines),))] if names else []),
        Define(("inside",), (minus(least(INSTANCE, last), "before"),)),
        Define(("along",), (most(1, Apply("cast", (Local(HERE),), "u32")),), note="instances from axis to axis"),
    ]
    if order.way:
        size = Apply("shr", (_on_line(order.bytes, order.lines), Number(KIB, "i64")), "i64", SIGNED)
        found += [
            Define(("cached",), (over(order.cached >> KIB, most(1, Apply("cast", (size,), "u32"))),), note="of them"),
            Define(("together",), (most(1, least("cached", least(_unsigned(each), order.most))),)),
            Define(("nth",), (over("inside", times("together", "along")),), note="the band"),
            Define(("first_row",), (times("nth", "together"),)),
            Define(("in_band",), (minus("inside", times("first_row", "along")),)),
            Define(("width",), (least("together", minus(_unsigned(each), "first_row")),)),
            Define(("step", "other"), (over("in_band", "width"), plus("first_row", rest("in_band", "width")))),
        ]
    else:
        found.append(Define(("step", "other"), (rest("inside", "along"), over("inside", "along"))))
    indices = {order.axis: minus(minus("along", 1), "step") if order.way > 0 else of("step")}
    indices |= dict(zip(order.others, _apart(of("other"), order.others), strict=True))
    indices |= dict(zip(order.lines, _apart(_unsigned(Local(LINE)), order.lines), strict=True))
    ids = (SetProgramId(axis, indices[axis]) for axis in range(AXES))
    loop = InstanceLoop(CtaNumber("cta"), of("instances"), CtaNumber("ctas"))
    return TileScheduler(tuple(setup), (), loop, (*found, *ids))


# ---------------------------------------------------------------- long lines
def tells_lines_apart(order: OccupiedInstances) -> bool:
    """Whether the longest instances of some lines may read more than those of others."""
    looked_up = (node for node in nodes(order.bytes) if isinstance(node, Lookup))
    return any(isinstance(node, ProgramId) and node.axis in order.lines for one in looked_up for node in nodes(one))


def _weighed(order: OccupiedInstances) -> dict[str, Expr]:
    """Of the line `LINE`: how many instances it has, and what the longest of them reads, in units; 0 if none."""
    size = inlined(_on_line(order.bytes, order.lines), {HERE: Local(NUMBER)})
    units = Apply("min", (Local(UNITS, "i64"), Number(HEAVIEST, "i64")), "i64", SIGNED)
    some = Apply("max", (Apply("cast", (units,), "i32"), Number(0)), "i32", SIGNED)
    return {
        NUMBER: _on_line(order.count, order.lines),
        UNITS: Apply("shr", (size, Number(UNIT, "i64")), "i64", SIGNED),
        WEIGHT: Apply("select", (less(Number(0), Local(NUMBER)), some, Number(0)), "i32"),
    }


def _line(lines: Expr) -> Expr:
    """Which line `TWICE` is."""
    place = Local(TWICE)
    again = Apply("sub", (place, lines), "i32")
    return Apply("select", (less(place, lines), place, again), "i32")


# ---------------------------------------------------------------- lines of the grid
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
        found.append(rest(place, grid(axis)))
        place = over(place, grid(axis))
    return [*found, *([place] if axes else [])]


def _unsigned(expr: Expr) -> Expr:
    return expr if isinstance(expr, Number) and expr.element == "u32" else Apply("cast", (expr,), "u32")
