"""Uniform scalars of a tile program as expressions: addresses, trip counts, scalar operands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, count

from twill import exc
from twill.codegen.lower.scalar_loops import lowered_region
from twill.codegen.lower.walk import walk_of
from twill.codegen.warp.expression import (
    Apply,
    Expr,
    Local,
    Lookup,
    Number,
    NumPrograms,
    ProgramId,
    Symbol,
    add,
    multiply,
    subtract,
)
from twill.codegen.warp.program import LAST_PART, Let, Stmt
from twill.graph.build import Wired
from twill.tile.affine import Polynomial
from twill.tile.program import Access, Carry, Loop, Op, walk
from twill.tile.vocabulary import ELECTED


@dataclass(frozen=True)
class Iteration:
    """Where a statement stands: in `loop`, at step `step` (a Local) of its pipeline, `stage` steps behind.

    None for a loop means straight-line code.
    """

    loop: Loop | None = None
    step: str = ""
    stage: int = 0

    @property
    def number(self) -> Expr:
        """The iteration that is worked on: 0, 1, ..."""
        return subtract(Local(self.step), Number(self.stage))


OUTSIDE = Iteration()


@dataclass
class ScalarTable:
    """The scalars of one warp group: those that no loop changes are defined once (`lets`). looked_up: numbers that the
    event at hand looks up in its iteration, by value and where it stands."""

    wired: Wired
    lets: dict[int, Let] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)  # names in use in the group
    looked_up: dict[tuple[int, str, int], Let] | None = None
    loops: dict[int, tuple[Stmt, ...]] = field(default_factory=dict)  # over scalars, by their first result
    left: dict[int, Expr] = field(default_factory=dict)  # what they leave

    def __post_init__(self) -> None:
        self.program = self.wired.program
        self.taken |= walk_of(self.program).names
        self.arguments = {a.value: a for a in self.program.arguments}
        self.inductions = {item.induction: item for item in self.program.body if isinstance(item, Loop)}
        self.in_loops = {
            result
            for item in self.program.body
            if isinstance(item, Loop)
            for op in walk(item.body)
            for result in op.results
            if op.access is not None or op.kind == ELECTED
        }

    @contextmanager
    def event(self, made: list[Stmt]) -> Iterator[None]:
        """What is appended to `made` inside is one event: it looks up each number once, in front of all else."""
        self.looked_up, first = {}, len(made)
        yield
        made[first:first] = self.looked_up.values()
        self.looked_up = None

    def value(self, value: int, at: Iteration) -> Expr:
        """A uniform scalar as an expression. Raises UnsupportedInKernel for carried scalars that are no counters."""
        if value in self.arguments:
            return Symbol(value, self.arguments[value].name, self.arguments[value].type.element)
        if value in self.inductions:
            return self.counter(self.inductions[value], at)
        carry = self.wired.uniformity.carries.get(value)
        if carry is not None:
            return self.carried(carry, value, at)
        op = self.wired.uniformity.makers[value]
        leaf = self.leaf(op)
        if leaf is not None:
            return leaf
        if op.kind == ELECTED:
            return self.elected(value, op)
        if op.region is not None:
            return self.found(value, op, at)
        if (at.loop is None or not self.varies(value, at.loop)) and not self.is_elected(value):
            return self.let(value, op)
        return self.apply(op, value, at)

    def leaf(self, op: Op) -> Expr | None:
        """A constant, a grid index, or None for any other operation."""
        element = self.program.type_of(op.results[0]).element
        if op.kind == "constant":
            number = op.attribute("value")
            assert isinstance(number, int | float)
            return Number(number, element)
        axis = dict(op.attributes).get("axis", 0)
        if op.kind == "program_id":
            return ProgramId(int(str(axis)))
        if op.kind == "num_programs":
            return NumPrograms(int(str(axis)))
        if op.kind == "visited":
            return walk_of(self.program).visited[int(str(op.attribute("index")))]
        if op.kind == "last_part":
            return Local(LAST_PART, "i1")
        return None

    def let(self, value: int, op: Op) -> Expr:
        """The name of a scalar that is defined once for each program instance."""
        element = self.program.type_of(value).element
        if value not in self.lets:
            made = self.apply(op, value, OUTSIDE)
            name = op.name.split(".")[0] or "t"
            name = name if name not in self.taken else f"{name}_{value}"
            self.taken.add(name)
            self.lets[value] = Let(name, made, line=op.line)
        return Local(self.lets[value].name, element)

    def found(self, value: int, op: Op, at: Iteration) -> Expr:
        """What a loop over scalars leaves: it runs once for each program instance."""
        if at.loop is not None and self.varies(value, at.loop):
            raise exc.UnsupportedInKernel(
                "a `while` loop over scalars runs in every iteration of another loop", file=self.program.file,
                line=op.line, hint="the `while` in front of the loop, or a kernel of its own that stores what it finds",
            )  # fmt: skip
        if op.results[0] not in self.left:
            operands = [self.value(operand, OUTSIDE) for operand in op.operands]
            made = lowered_region(op, operands, self.fresh)
            self.left.update(zip(op.results, made.results, strict=True))
            self.loops[op.results[0]] = made.stmts
        return self.left[value]

    def elected(self, value: int, op: Op) -> Expr:
        """What one thread finds out for all: by name, which is defined where it does so."""
        if value not in self.left:
            for result in op.results:
                name = self.fresh(op.name.split(".")[0] or "found")
                self.left[result] = Local(name, self.program.type_of(result).element)
        return self.left[value]

    def is_elected(self, value: int) -> bool:
        """Whether a scalar is made of what one thread finds out: it is not known at the start of an instance."""
        makers = self.wired.uniformity.makers
        return any(
            maker is not None and maker.kind == ELECTED
            for maker in (makers.get(one) for one in self.wired.scalars.reach(value))
        )

    def fresh(self, wish: str) -> str:
        """A name that the group does not use yet."""
        name = next(n for n in chain((wish,), (f"{wish}_{i}" for i in count())) if n not in self.taken)
        self.taken.add(name)
        return name

    def apply(self, op: Op, value: int, at: Iteration) -> Expr:
        """The operation on its operands."""
        if op.access is not None:
            return self.lookup(op, op.access, value, at)
        operands = tuple(self.value(operand, at) for operand in op.operands)
        return Apply(op.kind, operands, self.program.type_of(value).element, op.attributes)

    def lookup(self, op: Op, access: Access, value: int, at: Iteration) -> Expr:
        """A number from a tensor that the kernel does not write; in an event, by name."""
        known = None if self.looked_up is None else self.looked_up.get((value, at.step, at.stage))
        if known is not None:
            return Local(known.name, access.element)
        index = self.polynomial(access.constant, at, wide=True)
        for axis in access.axes:
            place = multiply(self.polynomial(axis.stride, at, wide=True), self.polynomial(axis.offset, at, wide=True))
            index = add(index, place)
        mask = None if op.mask_operand is None else self.value(op.operands[op.mask_operand], at)
        made = Lookup(access.base, index, access.element, mask, access.pad)
        if self.looked_up is None or at.loop is None:
            return made
        named = Let(self.fresh(op.name.split(".")[0] or "looked"), made, line=op.line)
        self.looked_up[value, at.step, at.stage] = named
        return Local(named.name, access.element)

    def varies(self, value: int, loop: Loop) -> bool:
        """Whether a scalar depends on a loop's iteration, or is looked up in the loop."""
        inside = {loop.induction, *(c.argument for c in loop.carried), *self.in_loops}
        return bool(self.wired.scalars.reach(value) & inside)

    def counter(self, loop: Loop, at: Iteration) -> Expr:
        """The induction variable."""
        if at.loop is not loop:
            raise exc.UnsupportedInKernel(
                "a loop counter is used outside its loop", file=self.program.file, line=loop.line
            )
        return add(self.value(loop.lower, OUTSIDE), multiply(at.number, self.value(loop.step, OUTSIDE)))

    def carried(self, carry: Carry, value: int, at: Iteration) -> Expr:
        """A carried scalar to which every iteration adds the same: init + number * difference."""
        maker = self.wired.uniformity.makers.get(carry.yielded)
        loop = next(item for item in self.inductions.values() if carry in item.carried)
        known = maker is not None and maker.kind in ("add", "sub") and carry.argument in maker.operands
        others = [o for o in maker.operands if o != carry.argument] if maker else []
        if not known or maker is None or len(others) != 1 or self.varies(others[0], loop):
            raise exc.UnsupportedInKernel(
                f"the scalar `{carry.name}` changes from iteration to iteration by more than a fixed difference",
                file=self.program.file,
                line=loop.line,
                hint="add the same number to it in every iteration, or compute it from the loop counter",
            )
        passed = at.number if value == carry.argument else self.trip(loop)
        change = multiply(passed, self.value(others[0], OUTSIDE))
        start = self.value(carry.init, OUTSIDE)
        return add(start, change) if maker.kind == "add" else subtract(start, change)

    def trip(self, loop: Loop) -> Expr:
        """The number of iterations, max(0, ceil((upper - lower) / step)); steps are positive."""
        lower, upper, step = (self.value(v, OUTSIDE) for v in (loop.lower, loop.upper, loop.step))
        span = subtract(upper, lower)
        if step == Number(1):
            return span
        return Apply("div", (add(span, subtract(step, Number(1))), step), "i32", (("signed", 1),))

    def polynomial(self, polynomial: Polynomial, at: Iteration, *, wide: bool = False) -> Expr:
        """A polynomial over scalars; wide: in 64-bit integers."""
        total: Expr = Number(0, "i64" if wide else "i32")
        for monomial, coefficient in reversed(polynomial.terms):
            term: Expr = Number(coefficient, "i64" if wide else "i32")
            for symbol, power in monomial:
                factor = self.value(symbol, at)
                if wide and factor.element != "i64":
                    factor = Apply("cast", (factor,), "i64")
                if not wide and factor.element == "i64":
                    factor = Apply("cast", (factor,), "i32")
                for _ in range(power):
                    term = multiply(term, factor)
            total = add(total, term)
        return total


class InlinedScalars(ScalarTable):
    """Scalars without names in between: expressions of arguments and grid indices alone."""

    def let(self, value: int, op: Op) -> Expr:
        """The operation itself."""
        return self.apply(op, value, OUTSIDE)
