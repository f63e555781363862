"""Which program instances are worked on first, where some have more iterations than others.

The CTAs of a persistent kernel take instances in rounds, one each. With unequal instances in the order of the grid
some CTAs get much more than others. If the trip counts grow, or fall, along one axis of the launch grid and depend on
no other, the longest instances come first, and every other round is walked backwards, so that what two rounds add to
a CTA is nearly the same for all. (CTAs that claim instances one by one have no rounds: they take them as they come.)
Along the other axes as many instances are walked together as the L2 cache holds what they read and add to, each its
own; and no fewer than one round of CTAs takes, for those run at the same time in any order. Every other of these raster
groups is walked from its shortest instances on, so that lengths do not jump from raster group to raster group (a jump
in the period of the rounds gives some CTAs the long end each time); the last raster group ends with the shortest.

Instances of unequal length drift apart along their loops, so what all of them pass has to stay in the cache, sums in
memory no less than tiles that are read. Causal attention backward on an H200, with the sums of dQ not counted, walked
twice as many heads together as fit: with 16,384 queries it moved 31 GB to and from memory instead of 3, and took 8 %
longer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from twill.codegen.lower.memory import element_bytes
from twill.codegen.lower.plan import LoweringPlan
from twill.codegen.lower.scalars import InlinedScalars
from twill.codegen.warp.expression import (
    Apply,
    Expr,
    Lookup,
    Number,
    NumPrograms,
    ProgramId,
    add,
    multiply,
    replaced,
    subtract,
)
from twill.codegen.warp.parameters import nodes
from twill.machine.description import Machine
from twill.tile.program import Loop, Op

AXES = 3


@dataclass(frozen=True)
class LongestFirst:
    """An order of program instances. axis: of the launch grid, along which they grow or fall; as many along the other
    axes are walked together, no more than `most`, as need, `bytes` each, no more than `cached` bytes, or as `ctas` CTAs
    take in one round."""

    axis: int
    grows: bool
    bytes: Expr
    cached: int
    most: int
    ctas: int


def longest_first(plan: LoweringPlan) -> LongestFirst | None:
    """The order for a kernel; None if the trip counts do not say which instances are the longest."""
    trips = all_trips(plan)
    ways = [growth(trips, axis) for axis in range(AXES)]
    varying = [axis for axis, way in enumerate(ways) if way]
    if None in ways or len(varying) != 1:
        return None
    axis, grows = varying[0], ways[varying[0]] == 1
    longest = subtract(NumPrograms(axis), Number(1)) if grows else Number(0)
    sms = plan.machine.sms.whole
    rows = max(1, sms // plan.machine.emitting.readers.whole)
    return LongestFirst(axis, grows, at(total_bytes(trips), axis, longest), cached(plan.machine), rows, sms)


def total_bytes(trips: Sequence[tuple[Expr, int]]) -> Expr:
    """Bytes that loops with these trip counts load. trips: with the bytes of an iteration."""
    total: Expr = Number(0, "i64")
    for expr, size in trips:
        total = add(total, multiply(Apply("cast", (expr,), "i64"), Number(size, "i64")))
    return total


def cached(machine: Machine) -> int:
    """Bytes that instances walked together may read; all that 32 bits count if the L2 cache is not described."""
    return int(machine.l2.value * machine.emitting.cached.value) if machine.l2 is not None else (1 << 32) - 1


def unequal(plan: LoweringPlan) -> bool:
    """Whether some program instances may load more than others."""
    trips = all_trips(plan)
    return any(growth(trips, axis) != 0 for axis in range(AXES))


def all_trips(plan: LoweringPlan) -> list[tuple[Expr, int]]:
    """The trip count of each loop, with the bytes of an iteration."""
    loops = [item for item in plan.wired.program.body if isinstance(item, Loop)]
    return [(trip(plan, loop), loop_bytes(plan, loop)) for loop in loops]


def trip(plan: LoweringPlan, loop: Loop) -> Expr:
    """The trip count of a loop, of arguments and grid indices alone."""
    return InlinedScalars(plan.wired).trip(loop)


def loop_bytes(plan: LoweringPlan, loop: Loop) -> int:
    """Bytes that an iteration needs in the L2 cache: of tiles that it loads, and of those in memory that it adds to.
    (Nobody comes back to what it stores.)"""
    program = plan.wired.program
    ops = [op for op in loop.body if isinstance(op, Op)]
    tiles = [op.results[0] for op in ops if op.kind == "tile_load"]
    tiles += [op.operands[0] for op in ops if op.kind == "tile_reduce"]
    types = [program.type_of(tile) for tile in tiles]
    return sum(prod(kind.shape) * element_bytes(kind.element) for kind in types)


def growth(trips: Sequence[tuple[Expr, int]], axis: int) -> int | None:
    """1 if loops with these trip counts never load less along an axis of the grid, -1 if never more, 0 if always the
    same; None if that is not known. trips: with the bytes of an iteration."""
    total: dict[Expr, int] = {}
    for expr, size in trips:
        total = _sum(total, terms(expr), max(1, size))
    return _growth_of_sum(total, axis)


def _growth_of_sum(total: Mapping[Expr, int], axis: int) -> int | None:
    signs: set[int] = set()
    for term, factor in total.items():
        if factor < 0 and _begins_at_a_number(term):
            continue
        way = _growth_of_term(term, axis)
        if way is None:
            return None
        if way:
            signs.add(1 if way * factor > 0 else -1)
    return None if len(signs) > 1 else next(iter(signs), 0)


def _begins_at_a_number(term: Expr) -> bool:
    """Whether it is min(number, ...): where loops that became one begin (`twill.tile.rewrite.loop_fusion`). Unless the
    first of them has less than no iterations, that is the number."""
    return isinstance(term, Apply) and term.kind == "min" and any(isinstance(one, Number) for one in term.operands)


def _growth_of_term(term: Expr, axis: int) -> int | None:
    """The same for what is no sum."""
    match term:
        case ProgramId(of):
            return int(of == axis)
        case Apply(kind, operands):
            ways = [_growth_of_sum(terms(operand), axis) for operand in operands]
            if all(way == 0 for way in ways):
                return 0
            divided = kind == "div" and isinstance(operands[1], Number) and operands[1].value > 0
            if None in ways or (kind not in ("max", "min", "cast") and not divided):
                return None
            known = set(ways) - {0}
            return known.pop() if len(known) == 1 else None
        case Lookup():  # of tensors that the kernel does not write
            return None if any(isinstance(node, ProgramId) and node.axis == axis for node in nodes(term)) else 0
        case _:
            return 0


def terms(expr: Expr) -> dict[Expr, int]:
    """A sum as what is added and how often; what cancels is left out, constants too.

    (x + n * c) / c is x / c + n: rows of whole blocks and what is left of a block add up to the rows. That holds where
    nothing is negative, as in trip counts; elsewhere instances come in another order, which is no less right.
    """
    match expr:
        case Number():
            return {}
        case Apply("add" | "sub", (left, right)):
            return _sum(terms(left), terms(right), 1 if expr.kind == "add" else -1)
        case Apply("mul", (left, Number(int(factor)))) | Apply("mul", (Number(int(factor)), left)):
            return _sum({}, terms(left), factor)
        case Apply("div", (over, Number(int(by)))) if by > 0:
            parts = terms(over)
            whole = {term: factor // by for term, factor in parts.items() if factor % by == 0}
            if not whole:
                return {expr: 1}
            rest: Expr = Number(constant(over))
            for term, factor in parts.items():
                rest = rest if term in whole else add(multiply(term, Number(factor)), rest)
            divided = Apply("div", (rest, Number(by)), expr.element, expr.attributes)
            return whole if isinstance(rest, Number) else _sum(whole, {divided: 1}, 1)
        case _:
            return {expr: 1}


def _sum(left: Mapping[Expr, int], right: Mapping[Expr, int], times: int) -> dict[Expr, int]:
    found = dict(left)
    for term, factor in right.items():
        found[term] = found.get(term, 0) + times * factor
    return {term: factor for term, factor in found.items() if factor}


def constant(expr: Expr) -> int:
    """What a sum adds to its terms."""
    match expr:
        case Number(int(value)):
            return value
        case Apply("add" | "sub", (left, right)):
            return constant(left) + (1 if expr.kind == "add" else -1) * constant(right)
        case Apply("mul", (left, Number(int(factor)))) | Apply("mul", (Number(int(factor)), left)):
            return constant(left) * factor
        case _:
            return 0


def at(expr: Expr, axis: int, index: Expr) -> Expr:
    """The expression at an index along an axis of the grid."""
    return replaced(expr, lambda part: index if isinstance(part, ProgramId) and part.axis == axis else None)
