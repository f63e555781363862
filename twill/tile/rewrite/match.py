"""Whether two loop bodies are the same dataflow up to elementwise operations on some values.

One body is the main one. A value of it stands for a value of the other if the same operation makes both, of operands
that stand for each other. Where the other body goes further (a mask: select(visible, s * scale, -1e6)), the main value
is *amended*: what reads it finds it after elementwise operations on it and on index arithmetic alone. Where the main
body has an operation that the other lacks, its uniform operand may be one that changes nothing (a factor of 1): the
operation is *neutral* there. A value is amended in one way for all of its readers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from twill.tile.affine import Polynomial
from twill.tile.dead_code import EFFECTS
from twill.tile.program import Access, Axis, Loop, Op, TileProgram
from twill.tile.uniformity import Uniformity
from twill.tile.vocabulary import ELEMENTWISE, MMA, REDUCE, VIEWS

# kind -> (the operand that leaves the other one as it is, bit by bit; on the right only)
NEUTRAL: Mapping[str, tuple[float, bool]] = {
    "mul": (1.0, False), "div": (1.0, True), "add": (-0.0, False), "sub": (0.0, True),
}  # fmt: skip


@dataclass(frozen=True)
class Match:
    """How the other body follows from the main one, by value ids. made: main value -> the other's that the main
    operation makes; seen: the one that its readers find. neutral: operation of the main body -> position of the
    operand that is to change nothing."""

    made: Mapping[int, int]
    seen: Mapping[int, int]
    neutral: Mapping[int, int]

    def updated(self) -> dict[int, int]:
        """Main value -> the other's value that it is amended to."""
        return {main: other for main, other in self.seen.items() if self.made[main] != other}


def match_bodies(program: TileProgram, uniformity: Uniformity, main: Loop, other: Loop) -> Match | None:
    """How `other`, whose carried values are those of `main` in order, follows from `main`; None if it does not."""
    matcher = _Matcher(program, uniformity, main, other)
    if not matcher.effects() or not matcher.yields():
        return None
    found = Match(matcher.made, matcher.seen, matcher.neutral)
    return found if all(may_be_updated(program, uniformity, main, value) for value in found.updated()) else None


def may_be_updated(program: TileProgram, uniformity: Uniformity, loop: Loop, value: int) -> bool:
    """Whether a value of a loop can be changed where it is, behind the operation that makes it: a tile in registers
    that elementwise operations read. Products read theirs too early, or from shared memory."""
    ops = [op for op in loop.body if isinstance(op, Op)]
    maker = next((op for op in ops if value in op.results), None)
    if (
        maker is None
        or not program.type_of(value).shape
        or value in uniformity.pure
        or uniformity.home[maker.id] % 2 == 0
    ):
        return False
    if maker.kind in ELEMENTWISE or maker.kind in REDUCE:
        return True
    readers = _readers(ops, value)
    in_registers = all(reader.kind in ELEMENTWISE or reader.kind in REDUCE for reader in readers)
    return maker.kind in MMA and bool(readers) and in_registers


def _readers(ops: list[Op], value: int) -> list[Op]:
    """Operations that read a value as it is or through views; none if it leaves the body unread."""
    found = [op for op in ops if value in op.operands]
    return [reader for op in found for reader in ([op] if op.kind not in VIEWS else _readers(ops, op.results[0]))]


@dataclass
class _Matcher:
    program: TileProgram
    uniformity: Uniformity
    main: Loop
    other: Loop
    made: dict[int, int] = field(default_factory=dict)
    seen: dict[int, int] = field(default_factory=dict)
    neutral: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        pairs = zip(self.main.carried, self.other.carried, strict=True)
        self.given = {left.argument: right.argument for left, right in pairs}
        self.given[self.main.induction] = self.other.induction
        self.inside = {result for op in self.other.body if isinstance(op, Op) for result in op.results}
        self.makers = self.program.makers

    def effects(self) -> bool:
        """Whether both do the same to memory, in order."""
        left, right = (
            [op for op in loop.body if isinstance(op, Op) and op.kind in EFFECTS] for loop in (self.main, self.other)
        )
        return len(left) == len(right) and all(map(self.alike, left, right))

    def yields(self) -> bool:
        """Whether carried values become the same."""
        pairs = zip(self.main.carried, self.other.carried, strict=True)
        return all(self.same(left.yielded, right.yielded) for left, right in pairs)

    def is_data(self, value: int) -> bool:
        return value not in self.uniformity.pure and value not in self.uniformity.uniform

    def same(self, main: int, other: int) -> bool:
        """Whether readers of `main` find `other`; remembers how."""
        if not self.is_data(main):
            return self.equal(main, other)
        if main in self.seen:
            return self.seen[main] == other
        for made in (other, *self.below(other)):
            retained = dict(self.made), dict(self.seen), dict(self.neutral)
            if self.makes(main, made) and self.program.type_of(main) == self.program.type_of(other):
                self.seen[main] = other
                return True
            self.made, self.seen, self.neutral = retained
        return False

    def below(self, other: int) -> Iterator[int]:
        """What a value was before each of the elementwise operations on it and on index arithmetic that end in it."""
        while other in self.inside and self.makers[other].kind in ELEMENTWISE:
            data = {operand for operand in self.makers[other].operands if self.is_data(operand)}
            if len(data) != 1 or self.loads(set(self.makers[other].operands) - data):
                return
            other = data.pop()
            yield other

    def loads(self, values: Collection[int]) -> bool:
        """Whether any of these is made of a number that the other body loads: it is loaded there alone."""
        makers = [self.makers[value] for value in values if value in self.inside]
        return any(op.access is not None or self.loads(op.operands) for op in makers)

    def makes(self, main: int, other: int) -> bool:
        """Whether the operation that makes `main` makes `other`."""
        if main in self.made:
            return self.made[main] == other
        if self.program.type_of(main) != self.program.type_of(other):
            return False
        if not self.equal(main, other) and not self.passes(main, other):
            return False
        self.made[main] = other
        return True

    def equal(self, main: int, other: int) -> bool:
        """Whether both are one value from outside, or made alike."""
        if main in self.given or other in self.given.values():
            return self.given.get(main) == other
        if main == other:
            return True
        left, right = self.makers.get(main), self.makers.get(other)
        if left is None or right is None or left.results.index(main) != right.results.index(other):
            return False
        return self.alike(left, right)

    def alike(self, left: Op, right: Op) -> bool:
        """Whether two operations do the same to the same."""
        if (left.kind, left.attributes, len(left.operands)) != (right.kind, right.attributes, len(right.operands)):
            return False
        if not self.at_one_place(left.access, right.access):
            return False
        return all(map(self.same, left.operands, right.operands))

    def at_one_place(self, left: Access | None, right: Access | None) -> bool:
        """Whether two accesses are one, each in its iteration."""
        if left is None or right is None:
            return left is right
        renamed = {main: Polynomial.symbol(other) for main, other in self.given.items()}

        def seen(polynomial: Polynomial) -> Polynomial:
            return polynomial.substitute({s: p for s, p in renamed.items() if s in polynomial.symbols()})

        def axis(one: Axis) -> Axis:
            bounds = (None if bound is None else seen(bound) for bound in (one.lower, one.upper))
            return Axis(one.extent, seen(one.stride), seen(one.offset), *bounds)

        indices = tuple(replace(index, scale=seen(index.scale)) for index in left.indices)
        axes = tuple(map(axis, left.axes))
        moved = (left.base, left.element, axes, seen(left.constant), left.pad, left.transport, indices)
        return moved == (
            right.base, right.element, right.axes, right.constant, right.pad, right.transport, right.indices
        )  # fmt: skip

    def passes(self, main: int, other: int) -> bool:
        """Whether `main` is `other` if a uniform operand of its operation changes nothing."""
        op = self.makers.get(main)
        if op is None or op.kind not in NEUTRAL or not self.program.type_of(main).element.startswith(("f", "bf")):
            return False
        for position in (1,) if NEUTRAL[op.kind][1] else (1, 0):
            value = op.operands[1 - position]
            if self.is_uniform(op.operands[position]) and self.is_data(value) and self.same(value, other):
                self.neutral[op.id] = position
                return True
        return False

    def is_uniform(self, value: int) -> bool:
        """Whether all elements are one number, known outside."""
        maker = self.makers.get(value)
        known = maker is not None and maker.kind == "splat" and maker.operands[0] in self.uniformity.uniform
        return value in self.uniformity.uniform or known or (maker is not None and maker.kind == "constant")
