"""Loops over constants around a loop with a product become one loop.

::

    for r in range(3):                   for m in range(9):
        for s in range(3):                   r, s = m // 3, m % 3
            for c in range(0, C, 32):        for c in range(0, C, 32):
                acc += dot(...)                  acc += dot(...)

Written out they would be nine loops, each with a pipeline to fill and to drain, and with code of its own, which
compilers take minutes for; `twill.tile.nests` makes what is left one loop. That is done of several loops over
constants, and of one that is written out more than `FEW` times, where nothing but index arithmetic stands between the
loops, nothing behind the inner ones, and what the innermost one counts to is known in front of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from twill.tile.mlir import RawBlock, RawOp
from twill.tile.program import Carry, Loop
from twill.tile.translate.builder import Literal, ProgramBuilder

ARITHMETIC = ("arith.", "tt.splat", "tt.expand_dims", "tt.broadcast", "tt.make_range", "tt.addptr")
SIGNED = (("signed", 1),)
FEW = 4  # iterations of one loop over constants that are written out

Counts = Callable[[RawOp, ProgramBuilder], range | None]


@dataclass(frozen=True)
class ConstantNest:
    """loops: from the outermost one in, with the values of their induction variables. bounds: what the bounds of the
    one with the product are made of in these loops, the same in every iteration."""

    loops: tuple[tuple[RawOp, range], ...]
    bounds: tuple[RawOp, ...] = ()

    @property
    def outer(self) -> RawOp:
        """The outermost one."""
        return self.loops[0][0]


def constant_nest(op: RawOp, emitter: ProgramBuilder, counts: Counts) -> ConstantNest | None:
    """Two or more loops over constants, or one of more than a few iterations, the first of which is `op`, around one
    with a product. counts: the values of a loop's induction variable, if they are known and few."""
    loops: list[tuple[RawOp, range]] = []
    loop = op
    while all(map(emitter.is_made, loop.operands[:3])) and (known := counts(loop, emitter)) is not None:
        loops.append((loop, known))
        inner = _only_loop(loop)
        if inner is None:
            return None
        loop = inner
    bounds = _made_of([op for one, _ in loops for op in _block(one).operations], loop.operands[:3])
    changing = {raw.id for one, _ in loops for raw in _block(one).arguments}
    fixed = changing.isdisjoint((*loop.operands[:3], *(operand for op in bounds for operand in op.operands)))
    body = _block(loop).operations
    plain = all(inside.name != "scf.for" for inside in body) and any(inside.name == "tt.dot" for inside in body)
    straight = all(_hands_on(one, inside) for one, inside in zip(_each(loops), _each(loops)[1:], strict=False))
    many = len(loops) > 1 or any(len(known) > FEW for _, known in loops)
    return ConstantNest(tuple(loops), tuple(bounds)) if many and fixed and plain and straight else None


def write_nest(nest: ConstantNest, emitter: ProgramBuilder, translate: Callable[[RawOp], None]) -> None:
    """Emits the one loop that a nest is. translate: an operation of its body."""
    outer = nest.outer
    kind = _block(outer).arguments[0].type
    inits = [emitter.value(operand) for operand in outer.operands[3:]]
    number = emitter.new_value(kind, outer.line, "")
    arguments = [emitter.define(raw, raw.name) for raw in _block(outer).arguments[1:]]

    def constant(value: int) -> int:
        return emitter.constant(Literal(value, kind))

    total = math.prod(len(values) for _, values in nest.loops)
    lower, upper, step = constant(0), constant(total), constant(1)
    guard = emitter.guard(outer)
    if guard is not None:  # no iteration where the nest is not reached
        upper = emitter.emit(outer, "select", (guard, upper, lower), (kind,))[0]
    for op in nest.bounds:
        translate(op)
    emitter.open_loop()
    left = number
    for loop, values in reversed(nest.loops):
        digit = left
        if loop is not outer:
            digit = emitter.emit(loop, "rem", (left, constant(len(values))), (kind,), SIGNED)[0]
            left = emitter.emit(loop, "div", (left, constant(len(values))), (kind,), SIGNED)[0]
        if values.step != 1:
            digit = emitter.emit(loop, "mul", (digit, constant(values.step)), (kind,))[0]
        if values.start != 0:
            digit = emitter.emit(loop, "add", (digit, constant(values.start)), (kind,))[0]
        emitter.bind(_block(loop).arguments[0], digit)
    inside = _each(nest.loops[1:])
    for loop, _ in nest.loops:
        for op in _block(loop).operations[:-1]:
            if not any(op is loop for loop in inside):
                if not any(op is bound for bound in nest.bounds):
                    translate(op)
                continue
            for raw, operand in zip(_block(op).arguments[1:], op.operands[3:], strict=True):
                emitter.bind(raw, emitter.made(operand))
    yielded = [emitter.value(operand) for operand in _block(nest.loops[-1][0]).operations[-1].operands]
    body = emitter.close_loop()
    names = [raw.name or made.name for raw, made in zip(_block(outer).arguments[1:], outer.results, strict=True)]
    results = [emitter.define(raw, name) for raw, name in zip(outer.results, names, strict=True)]
    carried = tuple(map(Carry, names, inits, arguments, yielded, results))
    emitter.append(Loop(emitter.next_id(), number, lower, upper, step, carried, body, outer.line))


def _block(loop: RawOp) -> RawBlock:
    return loop.regions[0][0]


def _each(loops: Sequence[tuple[RawOp, range]]) -> list[RawOp]:
    return [loop for loop, _ in loops]


def _only_loop(loop: RawOp) -> RawOp | None:
    """The loop in a loop, if nothing but index arithmetic stands before it and nothing behind it."""
    *before, last = _block(loop).operations[:-1] or (loop,)
    if last.name != "scf.for" or not all(op.name.startswith(ARITHMETIC) for op in before):
        return None
    return last


def _made_of(operations: Sequence[RawOp], values: Sequence[int]) -> list[RawOp]:
    """The operations, in order, that some values are made of."""
    wanted, found = set(values), list[RawOp]()
    for op in reversed(operations):
        if wanted.intersection(raw.id for raw in op.results):
            found.append(op)
            wanted.update(op.operands)
    return found[::-1]


def _hands_on(loop: RawOp, inner: RawOp) -> bool:
    """Whether a loop carries what the one within it carries, and nothing else: its results, in their order."""
    block = _block(loop)
    begun = [raw.id for raw in block.arguments[1:]] == list(inner.operands[3:])
    return begun and list(block.operations[-1].operands) == [raw.id for raw in inner.results]
