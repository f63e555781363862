"""Loop fusion: consecutive loops with the same body become one, whose pipeline is not drained in between.

Loops over [a, b) and [b, c) of one step, the second of which goes on with what the first carries, are one loop over
[a, c) if one body follows from the other (`twill.tile.rewrite.match`). The main body, of the loop that
runs longest, stays as it is; where another loop's body computes more on a value, an operation `update` (a predicated
update) does so in that loop's iterations alone::

    %x = dot ...
    %first = compare %i %b predicate=ge
    %scaled = mul %x %scale                      (only needed where %first holds)
    %masked = select %visible %scaled -1e6
    %y = amend %x %masked %first                 (%masked where %first holds, else %x)

Loops that are all under one condition (behind an early return), whose ends are `condition ? end : begin`, are such
loops without it; what they become is under that condition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from twill.tile.affine import Polynomial
from twill.tile.dead_code import compact
from twill.tile.order_dependence import depends_on_order
from twill.tile.program import Attribute, Carry, Items, Loop, Op, TileProgram, TileType, reads, walk
from twill.tile.rewrite.match import NEUTRAL, Match, match_bodies
from twill.tile.rewrite.writer import OpWriter
from twill.tile.scalars import GRID, Scalars
from twill.tile.uniformity import PURE_KINDS, Uniformity, classify

TRUTH = TileType((), "i1")


def fuse_loops(program: TileProgram) -> TileProgram:
    """The program with as few loops as may be; the same one if no two can be joined. Raises `NestedLoop`."""
    fused = program
    while (shorter := _fused_once(fused)) is not None:
        fused = shorter
    return fused if fused is program else compact(fused)


def _fused_once(program: TileProgram) -> TileProgram | None:
    """With one run of loops joined, the longest first; None if there is nothing to join."""
    loops = [item for item in program.body if isinstance(item, Loop)]
    if len(loops) < 2 or depends_on_order(program):
        return None
    uniformity = classify(program)
    scalars = Scalars(program, uniformity)
    joins = [_could_join(program, scalars, pair) is not None for pair in pairwise(loops)]
    runs = (loops[i : i + n] for n in range(len(loops), 1, -1) for i in range(len(loops) - n + 1)
            if all(joins[i : i + n - 1]))  # fmt: skip
    for run in runs:
        made = fuse_run(program, uniformity, run)
        if made is not None:
            return made
    return None


def fuse_run(program: TileProgram, uniformity: Uniformity, run: Sequence[Loop]) -> TileProgram | None:
    """With these loops, which follow one another, made one; None if they are not alike."""
    scalars = Scalars(program, uniformity)
    could = _could_join(program, scalars, run)
    if could is None:
        return None
    between, aligned = could
    for main in _by_length(scalars, aligned):
        others = {
            i: match_bodies(program, uniformity, aligned[main], loop) for i, loop in enumerate(aligned) if i != main
        }
        found = {i: match for i, match in others.items() if match is not None}
        if len(found) == len(others):
            guard = _guard(scalars, run)
            return _LoopFuser(program, uniformity, aligned, main, found, guard).program_with(between)
    return None


def _could_join(program: TileProgram, scalars: Scalars, run: Sequence[Loop]) -> tuple[Items, list[Loop]] | None:
    """What stands between loops that could be one as far as their bounds and what they carry go, and the loops with
    their carried values in one order. A run of loops of which two neighbours could not be one could not either."""
    if any(op.kind == "update" for loop in run for op in walk(loop.body)):
        return None
    between = _between(program, run)
    aligned = _handed_on(program, run)
    if between is None or aligned is None:
        return None
    if _guard(scalars, run) is not None:
        aligned = [replace(loop, upper=_under(scalars, loop)[1]) for loop in aligned]
    return (between, aligned) if _continue(scalars, aligned) else None


def _guard(scalars: Scalars, run: Sequence[Loop]) -> int | None:
    """The condition that all of them are under, if it is one."""
    guards = {_under(scalars, loop)[0] for loop in run}
    return guards.pop() if len(guards) == 1 else None


def _under(scalars: Scalars, loop: Loop) -> tuple[int | None, int]:
    """The condition that a loop is under, and its end where that holds; no condition, and its end."""
    op = scalars.uniformity.makers.get(loop.upper)
    if op is None or op.kind != "select":
        return None, loop.upper
    condition, end, otherwise = op.operands
    under = scalars.polynomial(otherwise) == scalars.polynomial(loop.lower)
    return (condition, end) if under else (None, loop.upper)


def _between(program: TileProgram, run: Sequence[Loop]) -> Items | None:
    """What stands between the loops, if it can as well stand before them."""
    body = program.body
    first, last = body.index(run[0]), body.index(run[-1])
    results = {carry.result for loop in run for carry in loop.carried}
    found = tuple(item for item in body[first : last + 1] if isinstance(item, Op))
    movable = all(op.kind in PURE_KINDS and not results.intersection(op.operands) for op in found)
    return found if movable else None


def _handed_on(program: TileProgram, run: Sequence[Loop]) -> list[Loop] | None:
    """The loops with their carried values in the order of the first's; None unless each loop goes on with all that
    the one before it leaves, which nothing else reads."""
    aligned = [run[0]]
    for loop in run[1:]:
        by_init = {carry.init: carry for carry in loop.carried}
        results = [carry.result for carry in aligned[-1].carried]
        if sorted(by_init) != sorted(results) or len(by_init) != len(loop.carried):
            return None
        aligned.append(replace(loop, carried=tuple(by_init[result] for result in results)))
    inner = {carry.result for loop in aligned[:-1] for carry in loop.carried}
    readers = [value for op in program.ops() for value in reads(op)]
    for item in (item for item in program.body if isinstance(item, Loop)):
        readers += [item.lower, item.upper, item.step, *(carry.yielded for carry in item.carried)]
        readers += [carry.init for carry in item.carried if item not in run[1:]]
    return None if inner.intersection(readers) else aligned


def _continue(scalars: Scalars, run: Sequence[Loop]) -> bool:
    """Whether each loop begins where a whole number of steps brings the one before it."""
    divisors = {argument.value: argument.divisibility for argument in scalars.program.arguments}
    step = scalars.number(run[0].step)
    if step is None or step <= 0 or any(scalars.number(loop.step) != step for loop in run):
        return False
    if any(scalars.polynomial(left.upper) != scalars.polynomial(right.lower) for left, right in pairwise(run)):
        return False
    return all(_span(scalars, loop).divisor(divisors) % step == 0 for loop in run[:-1])


def _span(scalars: Scalars, loop: Loop) -> Polynomial:
    return scalars.polynomial(loop.upper) - scalars.polynomial(loop.lower)


def _by_length(scalars: Scalars, run: Sequence[Loop]) -> list[int]:
    """Which loop may be the main one, the likeliest to be long first: trip counts that nobody knows, then long ones,
    then short bodies."""

    def rank(i: int) -> tuple[bool, int, int]:
        trip = scalars.trip(run[i]).constant
        return trip is not None, -(trip or 0), len(run[i].body)

    return sorted(range(len(run)), key=rank)


def _never_negative(scalars: Scalars, polynomial: Polynomial) -> bool:
    """Whether it is a sum of grid indices, numbers that are not negative, and quotients of such."""
    makers = (scalars.uniformity.makers.get(symbol) for symbol in polynomial.symbols())
    return all(c >= 0 for _, c in polynomial.terms) and all(_makes_no_negative(scalars, op) for op in makers)


def _makes_no_negative(scalars: Scalars, op: Op | None) -> bool:
    if op is None or op.kind not in ("div", "min", "max"):
        return op is not None and op.kind in GRID
    found = [_never_negative(scalars, scalars.polynomial(operand)) for operand in op.operands]
    return any(found) if op.kind == "max" else all(found)


@dataclass
class _LoopFuser:
    """Writes the fused loop. run: with carried values in one order; matches: by loop of the run; guard: the condition
    that the fused loop is under."""

    program: TileProgram
    uniformity: Uniformity
    run: Sequence[Loop]
    main: int
    matches: Mapping[int, Match]
    guard: int | None = None
    shown: dict[int, int] = field(default_factory=dict)  # main value -> what its readers find
    numbers: dict[tuple[int, float, int], int] = field(default_factory=dict)  # neutral operands so far

    def __post_init__(self) -> None:
        self.write = OpWriter(self.program)
        self.scalars = Scalars(self.program, self.uniformity)
        self.inside = {result for i in self.matches for op in walk(self.run[i].body) for result in op.results}

    def program_with(self, between: Items) -> TileProgram:
        """The whole program; `between`: what stands between the loops."""
        lower, upper = self.bounds()
        before, self.write.made = self.write.made, []
        loop = self.loop(lower, upper)
        body: list[Op | Loop] = []
        for item in self.program.body:
            if isinstance(item, Loop) and item.id == self.run[0].id:
                body += [*between, *before, loop]
            elif item not in between and not (isinstance(item, Loop) and item.id in {one.id for one in self.run}):
                body.append(item)
        return replace(self.program, values=tuple(self.write.values), body=tuple(body))

    # -- the loop -----------------------------------------------------------------------------

    def bounds(self) -> tuple[int, int]:
        """Of the fused loop. A loop that ends before it begins has no iterations: the others do not see it."""
        lower, upper = self.run[0].lower, self.run[-1].upper
        line = self.run[self.main].line
        i32 = self.program.type_of(lower)
        for loop in self.run[:-1]:
            if not _never_negative(self.scalars, _span(self.scalars, loop)):
                lower = self.write.op("min", (lower, loop.upper), i32, line)
        for loop in self.run[1:]:
            if not _never_negative(self.scalars, _span(self.scalars, loop)):
                upper = self.write.op("max", (upper, loop.lower), i32, line)
        if self.guard is not None:
            upper = self.write.op("select", (self.guard, upper, lower), i32, line)
        return lower, upper

    def loop(self, lower: int, upper: int) -> Loop:
        """The main body with what the others do beyond it."""
        main = self.run[self.main]
        conditions = {i: self.condition(i) for i in self.matches}
        for op in (op for op in main.body if isinstance(op, Op)):
            self.main_op(op, conditions)
        carried = tuple(
            Carry(first.name, first.init, own.argument, self.shown.get(own.yielded, own.yielded), last.result)
            for first, own, last in zip(self.run[0].carried, main.carried, self.run[-1].carried, strict=True)
        )
        return Loop(main.id, main.induction, lower, upper, main.step, carried, tuple(self.write.made), main.line)

    def condition(self, i: int) -> int:
        """Whether an iteration is one of loop i: a scalar."""
        loop, main = self.run[i], self.run[self.main]
        limits = [("ge", loop.lower)] * (i > 0) + [("lt", loop.upper)] * (i + 1 < len(self.run))
        found = [
            self.write.op("compare", (main.induction, limit), TRUTH, loop.line, predicate=predicate, signed=1)
            for predicate, limit in limits
        ]
        return found[0] if len(found) == 1 else self.write.op("and", tuple(found), TRUTH, loop.line)

    def main_op(self, op: Op, conditions: Mapping[int, int]) -> None:
        """An operation of the main body, and what other loops make of its results."""
        operands = [self.shown.get(operand, operand) for operand in op.operands]
        for i, match in self.matches.items():
            if op.id in match.neutral:
                position = match.neutral[op.id]
                operands[position] = self.neutral(op, operands[position], conditions[i])
        self.write.made.append(replace(op, operands=tuple(operands)))
        for value in op.results:
            for i, match in self.matches.items():
                if value in match.updated():
                    self.shown[value] = self.updated(value, self.chain(i, match, value), conditions[i])

    def updated(self, value: int, after: int, condition: int) -> int:
        """A main value that is `after` under a condition."""
        maker, name = self.write.makers[after], self.write.values[value].name
        operands = (self.shown.get(value, value), after, condition)
        return self.write.op("update", operands, self.program.type_of(value), maker.line, name)

    def neutral(self, op: Op, value: int, condition: int) -> int:
        """The uniform operand of an operation; in a loop that lacks the operation, one that changes nothing."""
        kind = self.write.values[value].type
        element = TileType((), kind.element)
        maker, nothing = self.write.makers.get(value), NEUTRAL[op.kind][0]
        number = value
        if kind.shape and maker is not None:  # a splat, or a constant tile
            number = (
                maker.operands[0] if maker.kind == "splat" else self.constant(maker.attribute("value"), element, op)
            )
        known = (number, nothing, condition)
        if known not in self.numbers:
            chosen = (condition, self.constant(nothing, element, op), number)
            self.numbers[known] = self.write.op("select", chosen, element, op.line)
        return self.write.op("splat", (self.numbers[known],), kind, op.line) if kind.shape else self.numbers[known]

    def constant(self, value: Attribute, element: TileType, like: Op) -> int:
        """A number."""
        return self.write.op("constant", (), element, like.line, value=value)

    # -- what another loop does beyond the main body ------------------------------------------

    def chain(self, i: int, match: Match, value: int) -> int:
        """What loop i makes of a value of the main body, here."""
        other, main = self.run[i], self.run[self.main]
        arguments = zip(other.carried, main.carried, strict=True)
        known = {match.made[value]: value, other.induction: main.induction}
        return self.copied(match.seen[value], known | {theirs.argument: ours.argument for theirs, ours in arguments})

    def copied(self, value: int, known: dict[int, int]) -> int:
        """A value of another loop, made here anew; known: those that are here."""
        if value in known or value not in self.inside:
            return known.get(value, value)
        op = self.write.makers[value]
        operands = tuple(self.copied(operand, known) for operand in op.operands)
        kind = self.program.type_of(value)
        known[value] = self.write.op(op.kind, operands, kind, op.line, op.name, **dict(op.attributes))
        return known[value]
