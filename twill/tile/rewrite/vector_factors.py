"""Factors that all elements of a tile have in common multiply a vector that is spread over it, not the tile.

    (x * v[:, None]) * s              x * (v * s)[:, None], of a uniform scalar s
    (x * v[:, None]) * w[:, None]     x * (v * w)[:, None]

As for other factors (`twill.tile.rewrite.uniform_factors`), nothing changes in real numbers, and rounding does in the
last place of a factor. Nothing is known of how large v, w and s are: where their product overflows or vanishes in
float32, so does the tile, though it might not if x were multiplied first.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace

from twill.tile.dead_code import compact
from twill.tile.program import Loop, Op, TileProgram
from twill.tile.rewrite.uniform_factors import SPREADING, says_how
from twill.tile.rewrite.writer import OpWriter
from twill.tile.uniformity import classify


@dataclass(frozen=True)
class SpreadFactor:
    """A vector or uniform scalar, and the views that spread it over a tile, the first one first."""

    value: int
    views: tuple[Op, ...]

    def seen_like(self, other: SpreadFactor) -> bool:
        """Whether the views are those of the other one."""
        mine, theirs = ([(view.kind, view.attributes) for view in one.views] for one in (self, other))
        return mine == theirs


def multiply_vectors(program: TileProgram) -> TileProgram:
    """The program with such factors of its loops moved, and the lines where that changed something (`regrouped`)."""
    moving = _Moving(program)
    body = tuple(moving.loop(item) if isinstance(item, Loop) else item for item in program.body)
    if not moving.moved:
        return program
    lines = tuple(sorted({*program.regrouped, *moving.moved}))
    return compact(replace(program, body=body, values=tuple(moving.write.values), regrouped=lines))


class _Moving:
    """One program. moved: lines where something changed."""

    def __init__(self, program: TileProgram) -> None:
        self.write, self.uniform = OpWriter(program), classify(program).uniform
        self.readers = Counter(operand for op in program.ops() for operand in op.operands)
        loops = [item for item in program.body if isinstance(item, Loop)]
        self.readers.update(carry.yielded for loop in loops for carry in loop.carried)
        self.moved = set[int]()

    def loop(self, loop: Loop) -> Loop:
        """The loop, operation by operation."""
        self.write.made = []
        for op in loop.body:
            assert isinstance(op, Op)  # loops in loops are one (`twill.tile.nests`)
            made = self.rewritten(op)
            self.write.made.append(made)
            self.write.makers |= dict.fromkeys(made.results, made)
        return replace(loop, body=tuple(self.write.made))

    def rewritten(self, op: Op) -> Op:
        """x * (v * s) for (x * v) * s."""
        found = self.factors(op)
        if found is None:
            return op
        x, vector, factor = found
        self.moved.add(op.line)
        return replace(op, operands=(x, self.product(op, vector, factor)))

    def factors(self, op: Op) -> tuple[int, SpreadFactor, SpreadFactor] | None:
        """x, v and s (or w) of a multiplication, if nothing else reads x * v."""
        if op.kind != "mul" or says_how(op) or self.write.values[op.results[0]].type.element != "f32":
            return None
        for product, other in (op.operands, op.operands[::-1]):
            factor, inner = self.spread(other), self.write.makers.get(product)
            if factor is None or inner is None or inner.kind != "mul" or says_how(inner) or self.readers[product] != 1:
                continue
            for x, v in (inner.operands, inner.operands[::-1]):
                vector = self.spread(v)
                if vector is not None and self.spread(x) is None and self.may_multiply(vector, factor):
                    return x, vector, factor
        return None

    def may_multiply(self, vector: SpreadFactor, factor: SpreadFactor) -> bool:
        """Whether a vector times the factor is a vector."""
        mine, theirs = self.shape(vector.value), self.shape(factor.value)
        return bool(mine) and (not theirs or (mine == theirs and vector.seen_like(factor)))

    def spread(self, value: int) -> SpreadFactor | None:
        """What is spread over a tile to be this value, if it has at most half as many elements."""
        shape, views = self.shape(value), list[Op]()
        while (maker := self.write.makers.get(value)) is not None and maker.kind in (*SPREADING, "splat"):
            views.insert(0, maker)
            value = maker.operands[0]
        small = views and 2 * math.prod(self.shape(value)) <= math.prod(shape)
        return SpreadFactor(value, tuple(views)) if small and (self.shape(value) or value in self.uniform) else None

    def product(self, op: Op, vector: SpreadFactor, factor: SpreadFactor) -> int:
        """The vector times the factor, spread as the vector is."""
        kind, other = self.write.values[vector.value].type, factor.value
        if not self.shape(other):
            other = self.write.op("splat", (other,), kind, op.line, op.name)
        value = self.write.op("mul", (vector.value, other), kind, op.line, op.name)
        return self.write.spread(value, vector.views, op)

    def shape(self, value: int) -> tuple[int, ...]:
        """Of a value, old or new."""
        return self.write.values[value].type.shape
