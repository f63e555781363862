"""Induction variables: loop-carried integers and addresses to which every iteration adds the same.

Such a value is its initial value plus iteration number times increment. The iteration number is a
polynomial in the loop's own variable where dividing by the step comes out even, and the trip count
one in the loop's bounds; otherwise scalar operations that compute them are added to the program.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from twill.tile.access.scalar import Fact
from twill.tile.access.value import UNKNOWN_MASK, ZERO, AffineTile, NotAffine, Symbolic, scalar
from twill.tile.affine import Polynomial
from twill.tile.program import Carry, Loop, Op, TileType, loops_of, walk

if TYPE_CHECKING:
    from twill.tile.access.analysis import Analysis

Increment = tuple[Polynomial, ...]  # what an iteration adds to the origin and to each step


def analyse_loop(analysis: Analysis, loop: Loop) -> None:
    """Gives every value of the loop, and every result of it, its symbolic form."""
    lower, step = analysis.integer(loop.lower), analysis.integer(loop.step)
    divisors = analysis.scalars.divisors()
    divisor = math.gcd(lower.divisor(divisors), step.divisor(divisors)) or 1
    # Triton's loops count upwards.
    fact = Fact(divisor, nonnegative=analysis.scalars.nonnegative(lower))
    analysis.forms[loop.induction] = scalar(analysis.scalars.declare(loop.induction, fact))
    increments = inductions(analysis, loop)
    counter = IterationCounter(analysis, loop)
    for carry in loop.carried:
        advance(analysis, carry, carry.argument, increments, counter.iterations)
    with analysis.scalars.scope():
        analysis.block(loop.body)
    for carry in loop.carried:
        advance(analysis, carry, carry.result, increments, counter.trips)


def inductions(analysis: Analysis, loop: Loop) -> dict[int, Increment]:
    """The increment of each induction variable, by its argument: all carried integers and addresses
    are taken to be induction variables, and those refuted by the loop's body withdrawn, until none is.
    """
    loops = (loop, *loops_of(loop.body))
    inside = {value for one in loops for value in (one.induction, *(carry.argument for carry in one.carried))}
    inside |= {result for op in walk(loop.body) for result in op.results}
    inside |= {carry.result for one in loops[1:] for carry in one.carried}
    assumed = {carry.argument for carry in loop.carried if may_advance(analysis, carry)}
    while True:
        trial = analysis.trial()
        unknown: dict[int, AffineTile] = {}
        symbol = 0
        for carry in loop.carried:
            form = opaque(trial, carry, carry.argument)
            if carry.argument in assumed:
                form = unknown[carry.argument] = stand_in(trial, carry, symbol)
                symbol -= len(form.parts)
            if form:
                trial.forms[carry.argument] = form
        trial.block(loop.body)
        found = {}
        for carry in loop.carried:
            if carry.argument in assumed:
                added = increment(trial.forms.get(carry.yielded), unknown[carry.argument])
                if added and not any(s < 0 or s in inside for part in added for s in part.symbols()):
                    found[carry.argument] = added
        if len(found) == len(assumed):
            return found
        assumed = set(found)


def may_advance(analysis: Analysis, carry: Carry) -> bool:
    """Whether a carried value is an integer or address of known initial form."""
    element = analysis.type_of(carry.argument).element
    number = element.startswith("i") and element != "i1"
    return (number or element.startswith("ptr:")) and isinstance(analysis.forms.get(carry.init), AffineTile)


def stand_in(trial: Analysis, carry: Carry, symbol: int) -> AffineTile:
    """A form with fresh (negative) symbols, the first below `symbol`, for all that may change."""
    init = trial.forms[carry.init]
    assert isinstance(init, AffineTile)
    fresh = [trial.scalars.declare(symbol - 1 - part) for part in range(len(init.parts))]
    steps = tuple(f if extent > 1 else ZERO for f, extent in zip(fresh[1:], init.shape, strict=True))
    return AffineTile(init.shape, fresh[0], steps, init.base, init.within, init.terms)


def increment(yielded: Symbolic | None, argument: AffineTile) -> Increment | None:
    """What the yielded form has more than the argument's."""
    if not isinstance(yielded, AffineTile):
        return None
    if (yielded.base, yielded.within, yielded.terms) != (argument.base, argument.within, argument.terms):
        return None
    return tuple(new - old for new, old in zip(yielded.parts, argument.parts, strict=True))


def opaque(analysis: Analysis, carry: Carry, value: int) -> Symbolic | None:
    """The form of a carried value (its argument or result) that is no induction variable."""
    kind: TileType = analysis.type_of(value)
    if not kind.shape and not kind.element.startswith(("ptr:", "desc:")):
        return scalar(analysis.scalars.declare(value))
    if kind.element == "i1":
        return UNKNOWN_MASK
    if not kind.element.startswith(("i", "ptr:", "desc:")):
        return None
    init = analysis.forms.get(carry.init)
    if isinstance(init, NotAffine):
        return init
    return NotAffine(
        value,
        "changes by another amount in every iteration",
        "an index computed from the loop variable, or advanced by the same amount in every iteration",
    )


def advance(
    analysis: Analysis,
    carry: Carry,
    value: int,
    increments: dict[int, Increment],
    times: Callable[[Polynomial], Polynomial],
) -> None:
    """Gives the carried value its form: the initial one and `times` of the increment."""
    init, added = analysis.forms.get(carry.init), increments.get(carry.argument)
    if added and isinstance(init, AffineTile):
        parts = [old + times(new) for old, new in zip(init.parts, added, strict=True)]
        analysis.forms[value] = AffineTile(init.shape, parts[0], tuple(parts[1:]), init.base, init.within, init.terms)
        return
    form = opaque(analysis, carry, value)
    if form:
        analysis.forms[value] = form


class IterationCounter:
    """Iteration number and trip count of a loop, times increments."""

    def __init__(self, analysis: Analysis, loop: Loop) -> None:
        self.analysis = analysis
        self.loop = loop
        self.lower, self.upper, self.step = map(analysis.integer, (loop.lower, loop.upper, loop.step))
        self.kind = analysis.type_of(loop.lower)

    def iterations(self, added: Polynomial) -> Polynomial:
        """`added` times the number of the current iteration."""
        elapsed = Polynomial.symbol(self.loop.induction) - self.lower
        exact = (elapsed * added).divide_exactly(self.step)
        if exact is not None:
            return exact
        start = self.analysis.start
        difference = self._emit(start, "iteration", "sub", self.loop.induction, self.loop.lower)
        number = self._emit(start, "iteration", "div", difference, self.loop.step, signed=1)
        return added * self._nonnegative(number)

    def trips(self, added: Polynomial) -> Polynomial:
        """`added` times the number of iterations that the loop makes."""
        if not added:
            return ZERO
        distance = self.upper - self.lower
        if distance.is_constant and self.step.is_constant:
            return added * max(0, -(-distance.constant // self.step.constant))
        exact = distance.divide_exactly(self.step)
        if exact is not None and self.analysis.scalars.nonnegative(distance):
            return added * exact
        before, name = self.analysis.before, "trips"
        one, zero = (self._emit(before, name, "constant", value=value) for value in (1, 0))
        reach = self._emit(before, name, "add", self.loop.upper, self._emit(before, name, "sub", self.loop.step, one))
        span = self._emit(before, name, "sub", reach, self.loop.lower)
        rounded = self._emit(before, name, "div", span, self.loop.step, signed=1)
        number = self._emit(before, name, "max", rounded, zero, signed=1)
        return added * self._nonnegative(number)

    def _emit(self, where: dict[int, list[Op]], name: str, kind: str, *operands: int, **attributes: int) -> int:
        numbering = self.analysis.numbering
        made = numbering.value(self.kind, self.loop, name)
        op = numbering.op(kind, operands, made, self.loop, **attributes)
        where.setdefault(self.loop.id, []).append(op)
        self.analysis.op(op)
        return op.results[0]

    def _nonnegative(self, number: int) -> Polynomial:
        value = self.analysis.integer(number)
        for symbol in value.symbols() if len(value.terms) == 1 else ():
            fact = self.analysis.scalars.facts[symbol]
            self.analysis.scalars.facts[symbol] = replace(fact, nonnegative=True)
        return value
