"""Products outside of loops become loops of one iteration.

::

    c = dot(a, b, acc)      becomes      for i in range(0, 1): t = dot(a, b, t)      from t = 0; then c = acc + t

Where one thread issues products into tensor memory, what is done before and behind them is said of loops alone: who
fills the operands, which accumulator is free, who reads it. A product outside of loops is no other case, but a loop
that ends at once. What it adds to is added by threads, which have it in registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from twill.tile.program import Carry, Loop, Op, TileProgram, constant_of
from twill.tile.rewrite.writer import I32, OpWriter

RANK = 2  # of a result that products of tensor memory have
PRODUCT = "dot"


def put_products_in_loops(program: TileProgram) -> TileProgram:
    """The program with its matrix products outside of loops in loops of their own; the same one if there are none."""
    if not any(_is_straight(program, item) for item in program.body):
        return program
    writer = OpWriter(program)
    body: list[Op | Loop] = []
    for item in program.body:
        body += _in_loop(program, item, writer) if isinstance(item, Op) and _is_straight(program, item) else (item,)
    return replace(program, body=tuple(body), values=tuple(writer.values))


def _is_straight(program: TileProgram, item: Op | Loop) -> bool:
    return isinstance(item, Op) and item.kind == PRODUCT and len(program.type_of(item.results[0]).shape) == RANK


def _in_loop(program: TileProgram, op: Op, writer: OpWriter) -> Iterator[Op | Loop]:
    """A loop whose one iteration is the product, and the sum with what it adds to."""
    (result,), added = op.results, op.operands[2:3]
    wanted = program.type_of(result)
    writer.made = []
    lower, upper = (writer.op("constant", (), I32, op.line, value=number) for number in (0, 1))
    zero = writer.op("constant", (), wanted, op.line, op.name, value=0.0)
    sums = [value for value in added if not is_zero(writer, value)]
    yield from writer.made
    argument, yielded = writer.value_like(result), writer.value_like(result)
    total = writer.value_like(result) if sums else result
    counter = writer.value_like(lower)
    product = replace(op, operands=(*op.operands[:2], argument), results=(yielded,))
    carry = Carry(op.name or "acc", zero, argument, yielded, total)
    yield Loop(writer.fresh(), counter, lower, upper, upper, (carry,), (product,), op.line)
    if sums:
        yield Op(writer.fresh(), "add", (sums[0], total), (result,), (), op.line, op.name)


def is_zero(writer: OpWriter, value: int) -> bool:
    """Whether a value is zeros."""
    maker = writer.makers.get(value)
    while maker is not None and maker.kind in ("splat", "broadcast"):
        maker = writer.makers.get(maker.operands[0])
    return constant_of(maker) == 0
