"""Which program instances of a launch do anything, where that is looked up: those in front of an early return.

Sequences of unequal lengths, one behind the other, are worked on by a launch grid of the longest one: `if start_m >=
queries: return`, where `queries` was loaded. Most instances may be empty then, and each costs what stands around loops.
They are left out where every store has the mask of a scalar that holds from index 0 of one axis of the grid up to a
number, and then no more. That number, for each place along the axes that it depends on (a *line* of the grid), says how
many instances there are; what comes of the others is nothing, in whatever order.

Within a line the longest come first, if trip counts grow or fall along the axis: as many together as read what the L2
cache holds, as in `twill.codegen.lower.longest_first`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from twill.codegen.lower.longest_first import AXES, all_trips, at, cached, growth, total_bytes
from twill.codegen.lower.plan import LoweringPlan
from twill.codegen.lower.scalars import OUTSIDE, InlinedScalars
from twill.codegen.warp.expression import Apply, Expr, Local, Lookup, Number, NumPrograms, ProgramId, add, subtract
from twill.codegen.warp.parameters import nodes
from twill.tile.program import Op
from twill.tile.vocabulary import ELECTED, NEGATED

VIEWS = ("splat", "broadcast", "expand_dims", "reshape")
SIGNED = (("signed", 1),)
LINE, HERE = "grid_line", "in_line"  # scalars of the tile scheduler: which line, and how many instances it has


@dataclass(frozen=True)
class OccupiedInstances:
    """count: instances along `axis` that do anything, from 0 on; an i32 of arguments, lookups and the indices along
    `lines`, other axes of the grid. way: 1 if they have more iterations from index to index, -1 if fewer; 0: not known.
    bytes: that the longest of them reads, where a line has `HERE`; as many of those that differ in no line are walked
    together as read `cached` bytes, no more than `most`."""

    axis: int
    count: Expr
    lines: tuple[int, ...]
    way: int
    bytes: Expr
    cached: int
    most: int

    @property
    def others(self) -> tuple[int, ...]:
        """Axes along which all have the same count."""
        return tuple(axis for axis in range(AXES) if axis != self.axis and axis not in self.lines)


def occupied(plan: LoweringPlan) -> OccupiedInstances | None:
    """What a kernel's early return says; None if there is none, or if it asks for nothing that is looked up."""
    program = plan.wired.program
    effects = [op for op in program.ops() if _acts(op)]
    if program.split is not None or not effects or any(op.kind != "tile_store" for op in effects):
        return None
    masks = [frozenset(_conjuncts(plan, op)) for op in effects]
    for value in sorted(frozenset.intersection(*masks)):
        holds = InlinedScalars(plan.wired).value(value, OUTSIDE)
        for axis in range(AXES):
            count = count_of(holds, axis)
            if count is not None and any(isinstance(node, Lookup) for node in nodes(count)):
                return _along(plan, axis, count, holds)
    return None


def _along(plan: LoweringPlan, axis: int, count: Expr, holds: Expr) -> OccupiedInstances:
    lines = tuple(sorted({node.axis for node in nodes(count) if isinstance(node, ProgramId)}))
    trips = [(assumed(trip, holds), size) for trip, size in all_trips(plan)]
    way = growth(trips, axis) or 0
    longest = subtract(Local(HERE), Number(1)) if way == 1 else Number(0)
    rows = max(1, plan.machine.sms.whole // plan.machine.emitting.readers.whole)
    bytes_ = at(total_bytes(trips), axis, longest)
    for other in range(AXES):  # where trip counts depend on an axis without a line, those of its first index
        bytes_ = bytes_ if other in lines else at(bytes_, other, Number(0))
    return OccupiedInstances(axis, count, lines, way, bytes_, cached(plan.machine), rows)


# ---------------------------------------------------------------- what must hold
def _acts(op: Op) -> bool:
    """Whether anything but its results comes of an operation."""
    return op.kind == ELECTED or op.region is not None or (op.access is not None and op.kind != "tile_load")


def _conjuncts(plan: LoweringPlan, op: Op) -> Iterator[int]:
    """Uniform scalars that must hold for anything to be stored."""
    if op.mask_operand is None:
        return
    open_ = [op.operands[op.mask_operand]]
    while open_:
        value = open_.pop()
        made = plan.wired.uniformity.makers.get(value)
        if not plan.wired.program.type_of(value).shape:
            if value in plan.wired.uniformity.uniform:
                yield value
        elif made is not None and (made.kind in VIEWS or made.kind == "and"):
            open_ += made.operands


def assumed(expr: Expr, holds: Expr) -> Expr:
    """The expression where a condition holds."""
    match expr:
        case Apply("select", (condition, chosen, _)) if condition == holds:
            return assumed(chosen, holds)
        case Apply(_, operands):
            return replace(expr, operands=tuple(assumed(operand, holds) for operand in operands))
    return expr


# ---------------------------------------------------------------- how many indices it holds for
def count_of(holds: Expr, axis: int) -> Expr | None:
    """For how many indices along an axis a condition holds, if it holds for those from 0 on and for no others; an i32.
    None if it is not known to be so."""
    match holds:
        case Apply("xor", (Apply("compare", (left, right)) as compared, Number(1))):
            predicate = NEGATED.get(str(compared.named["predicate"]))
        case Apply("compare", (left, right)) as compared:
            predicate = str(compared.named["predicate"])
        case _:
            return None
    if not compared.named.get("signed") or {left.element, right.element} != {"i32"}:
        return None
    if predicate in ("gt", "ge"):
        left, right, predicate = right, left, {"gt": "lt", "ge": "le"}[predicate]
    rising, fixed = linear(left, axis), linear(right, axis)
    if predicate not in ("lt", "le") or rising is None or fixed is None or rising[0] <= 0 or fixed[0] != 0:
        return None
    begin, end = rising[1], fixed[1]
    if any(isinstance(node, Local) for node in nodes((begin, end))):
        return None
    if begin == Number(0):  # nothing overflows
        most: Expr = end if predicate == "le" else subtract(end, Number(1))
        some: Expr = Apply("compare", (Number(0), end), "i1", (("predicate", predicate), *SIGNED))
    else:
        most = subtract(_wide(end), add(_wide(begin), Number(int(predicate == "lt"), "i64")))
        some = Apply("compare", (Number(0, "i64"), most), "i1", (("predicate", "le"), *SIGNED))
    found = add(Apply("div", (most, Number(rising[0], most.element)), most.element, SIGNED), Number(1, most.element))
    whole = NumPrograms(axis) if most.element == "i32" else _wide(NumPrograms(axis))
    found = Apply("min", (found, whole), most.element, SIGNED)
    count = Apply("select", (some, found, Number(0, most.element)), most.element)
    return count if most.element == "i32" else Apply("cast", (count,), "i32")


def _wide(expr: Expr) -> Expr:
    return Number(expr.value, "i64") if isinstance(expr, Number) else Apply("cast", (expr,), "i64")


def linear(expr: Expr, axis: int) -> tuple[int, Expr] | None:
    """(a, b) of an expression that is a * index + b, where no index along the axis is in b; None if it is not known to
    be so."""
    match expr:
        case ProgramId(of) if of == axis:
            return 1, Number(0)
        case Apply("add" | "sub" as kind, (left, right)):
            one, other = linear(left, axis), linear(right, axis)
            if one is None or other is None:
                return None
            if kind == "add":
                return one[0] + other[0], add(one[1], other[1])
            return one[0] - other[0], subtract(one[1], other[1])
        case Apply("mul", (left, Number(int(factor)))) | Apply("mul", (Number(int(factor)), left)):
            one = linear(left, axis)
            return None if one is None else (one[0] * factor, _times(one[1], factor))
    return None if any(isinstance(node, ProgramId) and node.axis == axis for node in nodes(expr)) else (0, expr)


def _times(expr: Expr, factor: int) -> Expr:
    return Number(expr.value * factor) if isinstance(expr, Number) else Apply("mul", (expr, Number(factor)), "i32")
