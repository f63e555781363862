"""A `while` that counts becomes a `for`, in Triton's IR.

::

    while i < n and i >= first:      # or <=, >, >=, !=; any number of such bounds, each the same in all iterations
        ...
        i += step                    # or i -= step; a step that is the same in all iterations

runs for `i` in `range(i, n, step)`, and not at all where a bound that `i` only moves away from (`i >= first`) does not
hold to begin with. A loop that counts down runs over the distance from where it began. What is compared need not be
positive, and neither need the step be, but a loop that would never end in Triton ends here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from twill.tile.mlir import Python, RawBlock, RawOp, RawValue, every
from twill.tile.program import TileType
from twill.tile.translate.raw_rewriter import RawRewriter

PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge")  # by their value in the IR; behind them the unsigned ones
SWAPPED = {"slt": "sgt", "sle": "sge", "sgt": "slt", "sge": "sle", "ne": "ne"}
GRID = ("tt.get_program_id", "tt.get_num_programs")
TRUTH = TileType((), "i1")


def count_whiles(blocks: Sequence[RawBlock]) -> tuple[RawBlock, ...]:
    """The blocks of a function in which each `scf.while` that counts is an `scf.for`; others stay."""
    if not any(op.name == "scf.while" for op in every(blocks)):
        return tuple(blocks)
    return _Rewriter(blocks).rewritten()


@dataclass(frozen=True)
class _Bound:
    """One comparison of the counter with a number: `counter predicate value`."""

    predicate: str
    value: int


@dataclass
class _Rewriter(RawRewriter):
    made: list[RawOp] = field(default_factory=list)

    def operation(self, op: RawOp) -> tuple[RawOp, ...]:
        """The operation, or what replaces it; those in its regions first."""
        op = replace(op, regions=tuple(self.blocks(region) for region in op.regions))
        if op.name != "scf.while":
            return (op,)
        self.made = []
        loop = self.counted(op)
        return (*self.made, loop) if loop is not None else (op,)

    def counted(self, op: RawOp) -> RawOp | None:
        """The loop as `scf.for`; None if it does not count. Appends the operations that make its bounds."""
        before, body = op.regions[0][0], op.regions[1][0]
        *_, leave = before.operations
        condition, *passed = leave.operands
        arguments = [argument.id for argument in before.arguments]
        if any(value not in arguments for value in passed) or len(set(passed)) < len(passed):
            return None
        if not all(map(self.pure, before.operations[:-1])):  # it runs once more than the body
            return None
        seen = dict(zip((argument.id for argument in body.arguments), passed, strict=True))  # in the body -> argument
        yielded = [seen.get(value, value) for value in body.operations[-1].operands]
        inside = {value.id for inner in every((before, body)) for value in inner.results} | set(arguments) | set(seen)
        conditions = self.conjunction(condition)
        for number, counter in enumerate(arguments):
            step = self.step(yielded[number], counter, seen, inside)
            bounds = None if step is None else self.bounds(conditions, counter, inside)
            if step is not None and bounds is not None:
                return self.loop(op, number, step, bounds, seen, inside)
        return None

    def conjunction(self, condition: int) -> list[int]:
        """The conditions that all have to hold."""
        op = self.makers.get(condition)
        if op is None or op.name != "arith.andi":
            return [condition]
        return [side for operand in op.operands for side in self.conjunction(operand)]

    def step(self, yielded: int, counter: int, seen: Mapping[int, int], inside: set[int]) -> tuple[int, int] | None:
        """(1 or -1, value) if an iteration adds the value to the counter or takes it away."""
        op = self.makers.get(yielded)
        if op is None or op.name not in ("arith.addi", "arith.subi"):
            return None
        left, right = (seen.get(operand, operand) for operand in op.operands)
        if op.name == "arith.addi" and right == counter:
            left, right = right, left
        if left != counter or not self.fixed(right, inside):
            return None
        known = self.number(right)
        if op.name == "arith.addi" and known is not None and known < 0:
            return -1, self.constant(-known, op, op.results[0])
        return (1 if op.name == "arith.addi" else -1), right

    def bounds(self, conditions: Sequence[int], counter: int, inside: set[int]) -> list[_Bound] | None:
        """What the counter is compared with; None if the loop depends on anything else."""
        found = []
        for op in map(self.makers.get, conditions):
            code = op.attributes["predicate"] if op is not None and op.name == "arith.cmpi" else 0
            if op is None or code not in range(1, len(PREDICATES)):
                return None
            predicate, (left, right) = PREDICATES[code], op.operands
            if right == counter:
                left, right, predicate = right, left, SWAPPED[predicate]
            if left != counter or not self.fixed(right, inside):
                return None
            found.append(_Bound(predicate, right))
        return found

    def fixed(self, value: int, inside: set[int]) -> bool:
        """Whether a value is there before the loop, or is arithmetic on such values, which can be done again there."""
        if value not in inside:
            return True
        op = self.makers.get(value)
        return op is not None and self.pure(op) and all(self.fixed(operand, inside) for operand in op.operands)

    def pure(self, op: RawOp) -> bool:
        """Whether it may be computed as often as one likes."""
        return op.name.startswith("arith.") or op.name in GRID

    def number(self, value: int) -> int | None:
        """The integer that a value is known to be."""
        op = self.makers.get(value)
        known = op.attributes.get("value") if op is not None and op.name == "arith.constant" else None
        return known if isinstance(known, int) else None

    def loop(
        self,
        op: RawOp,
        number: int,
        step: tuple[int, int],
        bounds: Sequence[_Bound],
        seen: Mapping[int, int],
        inside: set[int],
    ) -> RawOp | None:
        """The `scf.for` for the counter of that number; None where nothing says when it ends."""
        before = op.regions[0][0]
        counter, first, (sign, width) = before.arguments[number], op.operands[number], step
        width = self.outside(width, op, inside)
        ends, entered = [], []
        for bound in bounds:
            value, predicate = self.outside(bound.value, op, inside), bound.predicate
            ending = ("slt", "sle") if sign > 0 else ("sgt", "sge")
            if predicate == "ne" and self.number(width) == 1:
                predicate = ending[0]
            if predicate == "ne":
                return None
            if predicate not in ending:
                entered.append(
                    self.emit("arith.cmpi", (first, value), TRUTH, op, predicate=PREDICATES.index(predicate))
                )
                continue
            end = value if sign > 0 else self.emit("arith.subi", (first, value), counter.type, op)
            if predicate in ("sle", "sge"):
                end = self.emit("arith.addi", (end, self.constant(1, op, counter)), counter.type, op)
            ends.append(end)
        if not ends:
            return None
        lower = first if sign > 0 else self.constant(0, op, counter)
        upper = ends[0]
        for end in ends[1:]:
            upper = self.emit("arith.minsi", (upper, end), counter.type, op)
        for holds in entered:
            upper = self.emit("arith.select", (holds, upper, lower), counter.type, op)
        if not self.positive(width):
            width = self.emit("arith.maxsi", (width, self.constant(1, op, counter)), counter.type, op)
        return self.made_loop(op, number, (lower, upper, width), sign, seen)

    def made_loop(
        self, op: RawOp, number: int, bounds: tuple[int, int, int], sign: int, seen: Mapping[int, int]
    ) -> RawOp:
        """The loop over `bounds`, which carries all that the `while` did but the counter."""
        before, body = op.regions[0][0], op.regions[1][0]
        counter, first = before.arguments[number], op.operands[number]
        induction = replace(counter, id=next(self.fresh))
        stands_for, made = {counter.id: induction.id}, self.made
        if sign < 0:
            self.made = []
            stands_for[counter.id] = self.emit("arith.subi", (first, induction.id), counter.type, op)
        top = self.made if sign < 0 else []
        self.made = made
        stands_for |= {inner: stands_for.get(argument, argument) for inner, argument in seen.items()}
        operations = (*before.operations[:-1], *body.operations)
        *inner, leave = (_renamed(one, stands_for) for one in operations)
        carried = [place for place in range(len(before.arguments)) if place != number]
        leave = replace(leave, operands=tuple(leave.operands[place] for place in carried))
        # What the condition passes on is what the `while` gives: of each argument at most once.
        given = dict(zip(before.operations[-1].operands[1:], op.results, strict=True))
        arguments = [before.arguments[place] for place in carried]
        results = tuple(given.get(one.id) or replace(one, id=next(self.fresh)) for one in arguments)
        block = RawBlock((induction, *arguments), (*top, *inner, leave))
        if counter.id in given:
            self.last(op, given[counter.id], first, bounds, sign)
        inits = (op.operands[place] for place in carried)
        return RawOp("scf.for", (*bounds, *inits), results, MappingProxyType({}), ((block,),), op.line, op.variable)

    def last(self, op: RawOp, result: RawValue, first: int, bounds: tuple[int, int, int], sign: int) -> None:
        """The counter behind the loop: first ± cdiv(max(upper - lower, 0), step)·step."""
        lower, upper, step = bounds
        zero, one = (self.constant(known, op, result) for known in (0, 1))
        span = self.emit(
            "arith.maxsi", (self.emit("arith.subi", (upper, lower), result.type, op), zero), result.type, op
        )
        reach = self.emit("arith.addi", (span, self.emit("arith.subi", (step, one), result.type, op)), result.type, op)
        trips = self.emit("arith.divsi", (reach, step), result.type, op)
        moved = self.emit("arith.muli", (trips, step), result.type, op)
        name = "arith.addi" if sign > 0 else "arith.subi"
        self.made.append(RawOp(name, (first, moved), (result,), MappingProxyType({}), (), op.line, op.variable))

    def positive(self, value: int) -> bool:
        """Whether an integer is known to be positive."""
        known, op = self.number(value), self.makers.get(value)
        if known is not None or op is None:
            return known is not None and known > 0
        if op.name == "tt.get_num_programs":
            return True
        return op.name in ("arith.muli", "arith.addi", "arith.extsi") and all(map(self.positive, op.operands))

    def outside(self, value: int, op: RawOp, inside: set[int]) -> int:
        """A fixed value where it is before the loop; what makes it in the loop is done again."""
        if value not in inside:
            return value
        maker = self.makers[value]
        operands = tuple(self.outside(operand, op, inside) for operand in maker.operands)
        return self.emit(maker.name, operands, maker.results[0].type, op, **maker.attributes)

    def constant(self, number: int, op: RawOp, like: RawValue) -> int:
        """A new constant of the type of a value."""
        return self.emit("arith.constant", (), like.type, op, value=number)

    def emit(self, name: str, operands: Sequence[int], kind: TileType, at: RawOp, **attributes: Python) -> int:
        """A new operation; its result."""
        value = RawValue(next(self.fresh), kind, at.line, "")
        op = RawOp(name, tuple(operands), (value,), MappingProxyType(attributes), (), at.line, "")
        self.makers[value.id] = op
        self.made.append(op)
        return value.id


def _renamed(op: RawOp, stands_for: Mapping[int, int]) -> RawOp:
    """The operation with values replaced, those in its regions too."""
    regions = tuple(
        tuple(
            replace(block, operations=tuple(_renamed(one, stands_for) for one in block.operations)) for block in region
        )
        for region in op.regions
    )
    return replace(op, operands=tuple(stands_for.get(value, value) for value in op.operands), regions=regions)
