"""Factors that all elements of a tile have in common multiply a vector that is spread over it, not the tile.

    (x * v[:, None]) * s              x * (v * s)[:, None], of a uniform scalar s
    (x * v[:, None]) * w[:, None]     x * (v * w)[:, None]

As for other factors (`twill.tile.rewrite.uniform_factors`), nothing changes in real numbers, and rounding does in the
last place of a factor.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
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

    def like(self, other: SpreadFactor) -> bool:
        """Whether the views are those of the other one."""
        return [(view.kind, view.attributes) for view in self.views] == [
            (view.kind, view.attributes) for view in other.views
        ]


def multiply_vectors(program: TileProgram) -> TileProgram:
    """The program with such factors of its loops moved, and the lines where that changed something (`regrouped`)."""
    writer, uniform = OpWriter(program), classify(program).uniform
    readers = Counter(operand for op in program.ops() for operand in op.operands)
    readers.update(value for loop in program.body if isinstance(loop, Loop) for value in yields(loop))
    moved = set[int]()

    def shape_of(value: int) -> tuple[int, ...]:
        return writer.values[value].type.shape

    def spread(value: int) -> SpreadFactor | None:
        """What is spread over a tile to be this value, if it has at most half as many elements."""
        shape, views = shape_of(value), list[Op]()
        while (maker := writer.makers.get(value)) is not None and maker.kind in (*SPREADING, "splat"):
            views.insert(0, maker)
            value = maker.operands[0]
        small = views and 2 * math.prod(shape_of(value)) <= math.prod(shape)
        return SpreadFactor(value, tuple(views)) if small and (shape_of(value) or value in uniform) else None

    def factors(op: Op) -> tuple[int, SpreadFactor, SpreadFactor] | None:
        """x, v and s or w of a multiplication."""
        if op.kind != "mul" or says_how(op) or program.type_of(op.results[0]).element != "f32":
            return None
        for here, there in ((0, 1), (1, 0)):
            outer, inner = spread(op.operands[there]), writer.makers.get(op.operands[here])
            if outer is None or inner is None or inner.kind != "mul" or says_how(inner):
                continue
            if readers[op.operands[here]] != 1:
                continue
            for x, v in (inner.operands, inner.operands[::-1]):
                vector = spread(v)
                if vector is None or not shape_of(vector.value) or spread(x) is not None:
                    continue
                alike = shape_of(vector.value) == shape_of(outer.value) and vector.like(outer)
                if not shape_of(outer.value) or alike:
                    return x, vector, outer
        return None

    def rewritten(ops: Iterable[Op | Loop]) -> tuple[Op, ...]:
        writer.made = []
        for op in ops:
            assert isinstance(op, Op)  # loops in loops are one (`twill.tile.nests`)
            found = factors(op)
            if found is not None:
                x, vector, factor = found
                op = replace(op, operands=(x, product(op, vector, factor)))
                moved.add(op.line)
            writer.made.append(op)
            writer.makers |= dict.fromkeys(op.results, op)
        return tuple(writer.made)

    def product(op: Op, vector: SpreadFactor, factor: SpreadFactor) -> int:
        """The vector times the factor, spread as the vector is."""
        kind, other = writer.values[vector.value].type, factor.value
        if not shape_of(other):
            other = writer.op("splat", (other,), kind, op.line, op.name)
        value = writer.op("mul", (vector.value, other), kind, op.line, op.name)
        for view in vector.views:
            seen = writer.values[view.results[0]].type
            value = writer.op(view.kind, (value,), seen, op.line, op.name, **dict(view.attributes))
        return value

    body = tuple(replace(item, body=rewritten(item.body)) if isinstance(item, Loop) else item for item in program.body)
    if not moved:
        return program
    lines = tuple(sorted({*program.regrouped, *moved}))
    return compact(replace(program, body=body, values=tuple(writer.values), regrouped=lines))


def yields(loop: Loop) -> tuple[int, ...]:
    """What a loop carries on."""
    return tuple(carry.yielded for carry in loop.carried)
