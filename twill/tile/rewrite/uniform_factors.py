"""Factors and summands that all elements of a tile have in common are collected, and applied once and late.

Soft-capped scores are `2 / (1 + exp(-2 * (x * scale))) - 1`, times a cap, masked, less their maximum, exponentiated. A
value that is `root * a + b` with uniform a and b is not made where what reads it can read the root:

    x * a * b, -x, x / 2               one multiplication by the product
    exp(x * a)                         exp2(x * (a * log2(e)))
    select(mask, x * a + b, c)         select(mask, x, (c - b) / a) * a + b
    max of a row of x * a + b          (max of the row of x) * a + b, for a > 0: a number, or promised to be positive
    (x * a + b) - y                    fma(x, a, b - y), where y is a vector spread over the tile

In real numbers nothing changes; rounding does, in the last place of each factor and summand. Floats are no real numbers
where they overflow, vanish or cancel:

- Factors are collected as long as their product is far from what float32 overflows or vanishes at, and so are numbers
  that are divided by them: a mask of -3.4028e38 stays where it is, one of minus infinity moves.
- Summands are collected while they are small and do not cancel one another. (x + 12582912.) - 12582912. rounds x to an
  integer and (x + 1.) - 1. to 23 bits behind the point: that is what they are for.
- A number that a mask chooses moves only if it is as large as what has been added: 0 would come back as almost 0.
- What an operation says of its own rounding (a quotient to nearest, an accurate exp) it keeps.

The program is changed only where its loops then compute less.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from twill.tile.dead_code import compact
from twill.tile.program import Loop, Op, TileProgram, TileType, walk
from twill.tile.rewrite.rescale_rules import numbers_of
from twill.tile.rewrite.writer import OpWriter
from twill.tile.uniformity import Uniformity, classify
from twill.tile.vocabulary import ELEMENTWISE, NATURAL, REDUCE

LOG2_E = 1.4426950408889634
FARTHEST = 2.0**64  # of factors: float32's 2^127 and 2^-126 are as far again
LARGEST_SUMMAND = 2.0**12  # leaves 11 bits behind the point: who adds more may want what is rounded away
CANCELS = 0.25  # summands whose sum is smaller than so much of the larger one
EDGE = 2.0**100  # of numbers that are divided by factors: 2^27 from what float32 overflows or vanishes at
EXACT = ("rounding", "accurate")  # attributes of operations that say how they round
Span = tuple[float, float]
PROMISED: Span = (2.0**-32, 2.0**32)  # what a scalar that is promised to be positive may be
FREE = ("neg", "bitcast")  # operations that the readers of their result do
SPREADING = ("broadcast", "expand_dims")


@dataclass(frozen=True)
class Line:
    """A value as `root * (number * factors) + offset`. factors: uniform scalars. steps: operations it stands for."""

    root: int
    number: float = 1.0
    factors: tuple[int, ...] = ()
    offset: float = 0.0
    steps: int = 0

    def times(self, number: float) -> Line:
        """Multiplied by a number."""
        return replace(self, number=self.number * number, offset=self.offset * number, steps=self.steps + 1)

    def plus(self, number: float) -> Line:
        """With a number added."""
        return replace(self, offset=self.offset + number, steps=self.steps + 1)

    @property
    def known(self) -> bool:
        """Whether all of it is known before the launch."""
        return not self.factors

    @property
    def usable(self) -> bool:
        """Whether its factor is far from overflow, and its offset small enough for what is added to it."""
        return 1 / FARTHEST < abs(self.number) < FARTHEST and abs(self.offset) < LARGEST_SUMMAND


def collect_factors(program: TileProgram) -> TileProgram:
    """The program with factors and summands of its loops collected, and the lines where that changed something
    (`regrouped`); the same one if nothing is saved.

    Raises `NestedLoop`."""
    made = program
    for loop in [item for item in program.body if isinstance(item, Loop)]:
        changed = _Collector(made, classify(made)).collected(loop.id)
        if work(changed) < work(made):
            made = changed
    if made is program:
        return program
    made = compact(made)
    before, after = (Counter((op.kind, op.line) for op in one.ops() if op.line) for one in (program, made))
    return replace(made, regrouped=tuple(sorted({line for _, line in ((before - after) + (after - before))})))


def work(program: TileProgram) -> int:
    """Instructions of all tiles' elements in loops, about."""
    swept = compact(program)
    index = classify(swept).index
    loops = [item for item in swept.body if isinstance(item, Loop)]
    total = 0
    for loop in loops:
        ops = [op for op in walk(loop.body) if op.results and op.results[0] not in index]
        contracted = {op.id for op in ops if op.kind == "mul" and _is_contracted(op, ops)}
        live = (op for op in ops if op.operands and op.id not in contracted)
        total += sum(weight(op) * math.prod(swept.type_of(op.operands[0]).shape) for op in live)
    return total


def _is_contracted(product: Op, ops: Sequence[Op]) -> bool:
    """Whether all that reads a product are additions, so that it is part of their instruction."""
    readers = [op for op in ops if product.results[0] in op.operands]
    return bool(readers) and all(op.kind in ("add", "sub") for op in readers)


def weight(op: Op) -> int:
    """Instructions of one element."""
    if op.kind in FREE or (op.kind not in ELEMENTWISE and op.kind not in REDUCE):
        return 0
    return 2 if op.kind in ("exp", "log") else 1


class _Collector:
    def __init__(self, program: TileProgram, uniformity: Uniformity) -> None:
        self.program, self.uniformity = program, uniformity
        self.write = OpWriter(program)
        self.spans = spans(program)
        self.lines: dict[int, Line] = {}
        self.applied: dict[Line, int] = {}
        self.numbers: dict[int, float | None] = {}
        self.learn(program.ops())

    def learn(self, ops: Iterable[Op]) -> None:
        """Remembers the constants among the results."""
        for op in ops:
            if len(op.results) == 1:
                known = [self.numbers.get(operand) for operand in op.operands]
                self.numbers[op.results[0]] = numbers_of(op, known)

    def collected(self, number: int) -> TileProgram:
        """The program with the factors of that loop collected; what nothing reads any more is still there."""
        body = tuple(
            self.loop(item) if isinstance(item, Loop) and item.id == number else item for item in self.program.body
        )
        return replace(self.program, body=body, values=tuple(self.write.values))

    def loop(self, loop: Loop) -> Loop:
        """The loop, operation by operation."""
        self.write.made = []
        for op in loop.body:
            assert isinstance(op, Op)
            self.write.made.append(self.rewritten(op))
        carried = tuple(replace(carry, yielded=self.read(carry.yielded, loop.line)) for carry in loop.carried)
        return replace(loop, body=tuple(self.write.made), carried=carried)

    def rewritten(self, op: Op) -> Op:
        """An operation that reads roots where it can. What it makes is noted, if it lies on a line."""
        if len(op.results) != 1 or not self.is_float(op.results[0]):
            return self.reading(op)
        line = self.step(op) or self.chosen(op) or self.reduced(op)
        if line is not None and line.usable:
            self.lines[op.results[0]] = line
            return op
        if op.kind == "exp" and self.line(op.operands[0]).steps and not says_how(op):
            return self.exponential(op)
        return self.difference(op) or self.reading(op)

    # -- what lies on a line ------------------------------------------------------------------------

    def step(self, op: Op) -> Line | None:
        """What multiplies by a uniform number or adds one."""
        if op.kind == "neg":
            return self.line(op.operands[0]).times(-1.0)
        if op.kind not in ("mul", "add", "sub", "div") or len(op.operands) != 2 or says_how(op):
            return None
        for here, there in ((0, 1), (1, 0)):
            line, number = self.line(op.operands[here]), self.numbers.get(op.operands[there])
            if number is not None and math.isfinite(number):
                found = _stepped(op.kind, line, number, here)
                if found is not None:
                    return found
            factor = self.scalar(op.operands[there])
            if factor is not None and op.kind == "mul" and not line.offset:
                return replace(line, factors=(*line.factors, factor), steps=line.steps + 1)
        return None

    def chosen(self, op: Op) -> Line | None:
        """A mask's choice between what lies on a line and a number."""
        if op.kind != "select":
            return None
        for here in (1, 2):
            line, number = self.line(op.operands[here]), self.numbers.get(op.operands[3 - here])
            if line.steps and self.is_safe(line) and number is not None and self.may_move(number, line):
                kind = self.program.type_of(op.results[0])
                other = self.divided((number - line.offset) / line.number, line.factors, kind, op.line)
                either = (line.root, other) if here == 1 else (other, line.root)
                root = self.write.op("select", (op.operands[0], *either), kind, op.line, op.name)
                return replace(line, root=root)
        return None

    def reduced(self, op: Op) -> Line | None:
        """The maximum or minimum of a row of it."""
        if op.kind != "reduce" or op.attribute("combine") not in ("max", "min"):
            return None
        line = self.line(op.operands[0])
        if not line.steps or not self.is_safe(line) or line.number < 0:
            return None
        kind = self.program.type_of(op.results[0])
        root = self.write.op("reduce", (line.root,), kind, op.line, op.name, **dict(op.attributes))
        return replace(line, root=root)

    # -- what reads it ------------------------------------------------------------------------------

    def exponential(self, op: Op) -> Op:
        """exp as exp2, with the factor of one among the others."""
        line = self.line(op.operands[0]).times(LOG2_E)
        operand = self.apply(line, self.program.type_of(op.operands[0]), op.line, op.name)
        return replace(op, kind="exp2", operands=(operand,), attributes=((NATURAL, 1),))

    def difference(self, op: Op) -> Op | None:
        """A sum or difference with a vector that is spread over the tile, as one multiplication and addition."""
        if op.kind not in ("add", "sub"):
            return None
        for here, there in ((0, 1), (1, 0)):
            line = self.line(op.operands[here])
            if line.steps and line.offset and line.known:
                sign = -1.0 if op.kind == "sub" else 1.0
                turned = line.times(sign) if here == 1 else line
                vector = self.shifted(op.operands[there], turned.offset, sign if here == 0 else 1.0, op)
                if vector is not None:
                    factor = self.constant(turned.number, self.program.type_of(op.results[0]), op.line)
                    return replace(op, kind="fma", operands=(turned.root, factor, vector), attributes=())
        return None

    def shifted(self, value: int, offset: float, sign: float, op: Op) -> int | None:
        """offset + sign * value, made of the vector that is spread to `value`; None if it is no such vector."""
        views: list[Op] = []
        while self.write.makers.get(value) is not None and self.write.makers[value].kind in SPREADING:
            views.insert(0, self.write.makers[value])
            value = views[0].operands[0]
        kind = self.write.values[value].type
        wide = self.program.type_of(op.results[0]).shape
        if not views or 2 * math.prod(kind.shape) > math.prod(wide) or self.numbers.get(value) is not None:
            return None
        ends = (self.constant(offset, kind, op.line), self.read(value, op.line))
        made = self.write.op("add" if sign > 0 else "sub", ends, kind, op.line, op.name)
        for view in views:
            made = self.write.op(view.kind, (made,), self.write.values[view.results[0]].type, op.line, op.name,
                                 **dict(view.attributes))  # fmt: skip
        return made

    def reading(self, op: Op) -> Op:
        """The operation on values that are made by one operation instead of several."""
        return replace(op, operands=tuple(self.read(operand, op.line) for operand in op.operands))

    def read(self, value: int, line: int) -> int:
        """A value, made in one step from its root if it took more."""
        found = self.lines.get(value)
        if found is None:
            return value
        maker = self.write.makers[value]
        if found.steps < 2 and maker.kind not in ("select", *REDUCE):
            return value
        return self.apply(found, self.program.type_of(value), line, maker.name)

    def apply(self, line: Line, kind: TileType, at: int, name: str) -> int:
        """root * factor + offset."""
        if line not in self.applied:
            factor = self.factor(line, kind, at)
            if line.offset:
                offset = self.constant(line.offset, kind, at)
                self.applied[line] = self.write.op("fma", (line.root, factor, offset), kind, at, name)
            else:
                self.applied[line] = self.write.op("mul", (line.root, factor), kind, at, name)
        return self.applied[line]

    def factor(self, line: Line, kind: TileType, at: int) -> int:
        """The number and the scalars multiplied, spread over a tile."""
        if line.known:
            return self.constant(line.number, kind, at)
        scalar = TileType((), kind.element)
        product = line.factors[0]
        for other in line.factors[1:]:
            product = self.write.op("mul", (product, other), scalar, at)
        if line.number != 1.0:
            product = self.write.op("mul", (product, self.constant(line.number, scalar, at)), scalar, at)
        return self.write.op("splat", (product,), kind, at)

    def divided(self, number: float, factors: tuple[int, ...], kind: TileType, at: int) -> int:
        """A tile of a number, divided by each of the scalars."""
        if not factors:
            return self.constant(number, kind, at)
        scalar = TileType((), kind.element)
        quotient = self.constant(number, scalar, at)
        for factor in factors:
            quotient = self.write.op("div", (quotient, factor), scalar, at)
        return self.write.op("splat", (quotient,), kind, at)

    # -- what is known ------------------------------------------------------------------------------

    def is_safe(self, line: Line) -> bool:
        """Whether its factor can be divided by, and has the sign of its number: without factors, or with such as are
        promised to be positive."""
        if not all(factor in self.spans for factor in line.factors):
            return False
        low, high = span_of_product([(abs(line.number),) * 2, *(self.spans[factor] for factor in line.factors)])
        return low > 1 / FARTHEST and high < FARTHEST

    def may_move(self, number: float, line: Line) -> bool:
        """Whether a number that stands beside what lies on a line may stand beside its root instead: it comes back as
        itself, up to a few roundings, and nothing on the way is near what float32 overflows or vanishes at."""
        if math.isinf(number):
            return True
        if math.isnan(number) or abs(number) < abs(line.offset):
            return False
        lows, highs = [abs(number - line.offset) / abs(line.number)], [abs(number - line.offset) / abs(line.number)]
        for low, high in (self.spans[factor] for factor in line.factors):
            lows.append(lows[-1] / high)
            highs.append(highs[-1] / low)
        return not number or (abs(number) < EDGE and min(lows) > 1 / EDGE and max(highs) < EDGE)

    def line(self, value: int) -> Line:
        """Where a value lies: on a line of its own, if no other is known."""
        return self.lines.get(value) or Line(value)

    def constant(self, number: float, kind: TileType, at: int) -> int:
        """A tile of one number, rounded to float32."""
        made = self.write.op("constant", (), kind, at, value=in_f32(number))
        self.numbers[made] = number
        return made

    def scalar(self, value: int) -> int | None:
        """The uniform scalar that all elements of a tile are."""
        maker = self.write.makers.get(value)
        if maker is None or maker.kind != "splat" or maker.operands[0] not in self.uniformity.uniform:
            return None
        return maker.operands[0]

    def is_float(self, value: int) -> bool:
        """Whether it is data in float32, no index arithmetic and no constant."""
        return (
            self.program.type_of(value).element == "f32" and value not in self.uniformity.pure | self.uniformity.uniform
        )


def spans(program: TileProgram) -> dict[int, Span]:
    """Scalars that are promised to be positive, and what is multiplied of them and positive numbers: between what."""
    found = {argument.value: PROMISED for argument in program.arguments if argument.positive}
    for op in program.ops():
        if op.kind == "constant":
            number = numbers_of(op, ())
            if number is not None and 0 < number < math.inf and not program.type_of(op.results[0]).shape:
                found[op.results[0]] = (number, number)
        elif op.kind == "mul" and all(operand in found for operand in op.operands):
            found[op.results[0]] = span_of_product([found[operand] for operand in op.operands])
    return found


def span_of_product(factors: Sequence[Span]) -> Span:
    """Between what the product of numbers lies, each of which lies between the ends of a span."""
    return math.prod(low for low, _ in factors), math.prod(high for _, high in factors)


def _stepped(kind: str, line: Line, number: float, here: int) -> Line | None:
    match kind:
        case "mul":
            return line.times(number) if number else None
        case "add":
            return _added(line, number)
        case "sub":
            return _added(line, -number) if here == 0 else _added(line.times(-1.0), number)
        case "div" if here == 0 and number:
            return line.times(1 / number)
    return None


def _added(line: Line, number: float) -> Line | None:
    """The line with a number added; None if that cancels what was added before."""
    before, after = abs(line.offset), abs(line.offset + number)
    return line.plus(number) if not before or after >= CANCELS * max(before, abs(number)) else None


def says_how(op: Op) -> bool:
    """Whether an operation says how it rounds."""
    return any(name in EXACT for name, _ in op.attributes)


def in_f32(number: float) -> float:
    """The number as float32 has it."""
    return float(struct.unpack("f", struct.pack("f", number))[0])
