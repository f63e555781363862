"""A `while` that does not count: over scalars, it is one operation (`twill.tile.scalar_region`); with tiles in it, its
iterations are counted first.

::

    while low < high:                              # scalars alone: one operation `scalar_loop`
        middle = (low + high) // 2
        low, high = (middle + 1, high) if tl.load(starts + middle) <= row else (low, middle)

    while tl.load(next + i) != 0:                  # tiles, too: a `scalar_loop` finds how often the condition holds,
        total += tl.load(x + i * B + offsets)      # and a counted loop does the work
        i += 1

Counting runs the scalars that the condition depends on once more, in front of the loop. They may be made of scalars and
of numbers from tensors that the kernel does not write.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from twill.tile.mlir import RawOp
from twill.tile.program import Carry, Loop, Op, TileType
from twill.tile.scalar_region import ScalarRegion
from twill.tile.translate.builder import Literal, ProgramBuilder
from twill.tile.translate.elected import is_elected, refuse_in_nest
from twill.tile.translate.refusals import refuse
from twill.tile.vocabulary import ATOMIC, ELECTED, ELEMENTWISE, SCALAR_LOOP

Translate = Callable[[RawOp, ProgramBuilder], None]
COUNT, TRUTH = TileType((), "i32"), TileType((), "i1")
KINDS = frozenset({*ELEMENTWISE, "constant", "program_id", "num_programs", "look_up", "scalar_loop", ATOMIC, ELECTED})


def while_loop(op: RawOp, emitter: ProgramBuilder, translate: Translate) -> None:
    """`scf.while` with a block before the condition and one behind it. Binds its results. Refuses a loop whose
    condition depends on tiles, or on what the kernel writes."""
    if all(_is_scalar(raw.type) for raw in (*op.results, *op.regions[0][0].arguments)) and _only_scalars(op):
        for raw, value in zip(op.results, _scalar_loop(op, emitter, translate), strict=True):
            emitter.bind(raw, value)
        return
    if emitter.in_scalar_loop:
        refuse(emitter.file, op)
    _counted(op, emitter, translate)


def _is_scalar(kind: TileType) -> bool:
    return not kind.shape and ":" not in kind.element


def _only_scalars(op: RawOp) -> bool:
    """Whether a loop has nothing but scalars, and stores no tile."""
    for inner in (one for region in op.regions for block in region for one in block.operations):
        tiles = any(raw.type.shape or raw.type.element.startswith("desc:") for raw in inner.results)
        tiles |= inner.name.startswith("tt.descriptor_")
        if tiles or not _only_scalars(inner):
            return False
    return True


def _scalar_loop(op: RawOp, emitter: ProgramBuilder, translate: Translate) -> tuple[int, ...]:
    """The results of a loop over scalars."""
    before, after = op.regions[0][0], op.regions[1][0]
    elected = is_elected(op)
    if elected and emitter.in_nest:
        refuse_in_nest(emitter.file, op)
    inits = tuple(emitter.value(operand) for operand in op.operands)
    guard, under = emitter.guard(op), emitter.open_condition if elected else ()
    with emitter.scalars(elected, under) as made_before:
        arguments = tuple(emitter.define(raw, raw.name) for raw in before.arguments)
        for inner in before.operations[:-1]:
            translate(inner, emitter)
        condition, *passed = (emitter.value(operand) for operand in before.operations[-1].operands)
        if guard is not None:
            condition = emitter.emit(op, "and", (condition, guard), (TRUTH,))[0]
    with emitter.scalars(elected, under) as made_body:
        inside = tuple(emitter.define(raw, raw.name) for raw in after.arguments)
        for inner in after.operations[:-1]:
            translate(inner, emitter)
        yielded = tuple(emitter.value(operand) for operand in after.operations[-1].operands)
    loop = _Parts(inits, arguments, made_before, condition, tuple(passed), inside, made_body, yielded)
    return loop.operation(op, emitter, [raw.type for raw in op.results])


@dataclass(frozen=True)
class _Parts:
    """A loop over scalars in the numbers of the program."""

    inits: tuple[int, ...]
    arguments: tuple[int, ...]
    before: Sequence[Op | Loop]
    condition: int
    passed: tuple[int, ...]
    inside: tuple[int, ...]
    body: Sequence[Op | Loop]
    yielded: tuple[int, ...]

    def operation(self, op: RawOp, emitter: ProgramBuilder, results: Sequence[TileType]) -> tuple[int, ...]:
        """The results of it as one operation. Refuses what is no scalar."""
        ends = {self.condition, *self.passed, *self.yielded}
        body = _needed(self.body, ends)
        before = _needed(self.before, ends | {operand for one in body for operand in one.operands})
        for one in (*before, *body):
            if one.kind not in KINDS or any(emitter.kind(value).shape for value in (*one.operands, *one.results)):
                refuse(emitter.file, op)
        ops = (*before, *body)
        defined = {*self.arguments, *self.inside, *(result for one in ops for result in one.results)}
        read = [*self.inits, *ends, *(operand for one in ops for operand in one.operands)]
        parameters = tuple(dict.fromkeys(value for value in read if value not in defined))
        numbers = dict.fromkeys((*parameters, *defined))
        types = tuple((value, emitter.kind(value).element) for value in sorted(numbers))
        region = ScalarRegion(
            parameters, self.inits, self.arguments, before, self.condition, self.passed, self.inside, body,
            self.yielded, types,
        )  # fmt: skip
        kind = ELECTED if region.touched() else SCALAR_LOOP
        return emitter.emit_region(op, parameters, tuple(results), region, kind)


def _needed(ops: Sequence[Op | Loop], wanted: Collection[int]) -> tuple[Op, ...]:
    """The operations that make what is wanted, or do something to memory."""
    retained: list[Op] = []
    live = set(wanted)
    for op in reversed(ops):
        assert isinstance(op, Op)
        touches = op.kind in (ATOMIC, ELECTED) and (op.region is not None or op.attribute("combine") != "load")
        if touches or live.intersection(op.results):
            retained.append(op)
            live.update(op.operands)
    return tuple(reversed(retained))


def _counted(op: RawOp, emitter: ProgramBuilder, translate: Translate) -> None:
    """A loop with tiles in it, as a counted one."""
    before, after = op.regions[0][0], op.regions[1][0]
    count = _count(op, emitter, translate)
    zero, one = (emitter.constant(Literal(number, COUNT)) for number in (0, 1))
    inits = [emitter.value(operand) for operand in op.operands]
    induction = emitter.new_value(COUNT, op.line, "")
    arguments = [emitter.define(raw, raw.name) for raw in before.arguments]
    emitter.open_loop(emitter.is_over_tiles(op))
    for inner in before.operations[:-1]:
        translate(inner, emitter)
    for raw, operand in zip(after.arguments, before.operations[-1].operands[1:], strict=True):
        emitter.bind(raw, emitter.made(operand))
    for inner in after.operations:
        translate(inner, emitter)
    yielded = [emitter.value(operand) for operand in after.operations[-1].operands]
    body = emitter.close_loop()
    names = [raw.name for raw in before.arguments]
    results = [emitter.define(raw, name) for raw, name in zip(before.arguments, names, strict=True)]
    carried = tuple(map(Carry, names, inits, arguments, yielded, results))
    emitter.append(Loop(emitter.next_id(), induction, zero, count, one, carried, body, op.line))
    for inner in before.operations[:-1]:  # what is passed on where the condition does not hold
        translate(inner, emitter)
    for raw, operand in zip(op.results, before.operations[-1].operands[1:], strict=True):
        emitter.bind(raw, emitter.made(operand))


def _count(op: RawOp, emitter: ProgramBuilder, translate: Translate) -> int:
    """How often a loop's condition holds: its scalars alone, as far as the condition depends on them."""
    before, after = op.regions[0][0], op.regions[1][0]
    condition, *passed = before.operations[-1].operands
    places = {raw.id: number for number, raw in enumerate(before.arguments)}
    made = {raw.id: inner for block in (before, after) for inner in block.operations for raw in inner.results}
    inside = {raw.id: operand for raw, operand in zip(after.arguments, passed, strict=True)}
    yielded = after.operations[-1].operands
    needed, pending = set[int](), [condition]
    while pending:
        value = pending.pop()
        if value in needed:
            continue
        needed.add(value)
        if value in places:
            pending.append(yielded[places[value]])
        elif value in inside:
            pending.append(inside[value])
        elif value in made:
            pending += made[value].operands
            if made[value].regions or made[value].name.startswith("tt.atomic"):
                refuse(emitter.file, op)
    carried = [number for number, raw in enumerate(before.arguments) if raw.id in needed]
    chosen = [raw for raw in before.arguments if raw.id in needed]
    slices = [[inner for inner in block.operations[:-1] if needed.intersection(raw.id for raw in inner.results)]
              for block in (before, after)]  # fmt: skip
    if not all(_is_scalar(raw.type) for raw in chosen) or not all(
        not raw.type.shape for block in slices for inner in block for raw in inner.results
    ):
        refuse(emitter.file, op)
    guard = emitter.guard(op)
    zero = emitter.constant(Literal(0, COUNT))
    inits = (*(emitter.value(op.operands[number]) for number in carried), zero)
    with emitter.scalars() as made_before:
        arguments = [emitter.define(raw, raw.name) for raw in chosen]
        counted = emitter.new_value(COUNT, op.line, "")
        for inner in slices[0]:
            translate(inner, emitter)
        holds = emitter.value(condition)
        if guard is not None:
            holds = emitter.emit(op, "and", (holds, guard), (TRUTH,))[0]
    more = tuple(emitter.new_value(emitter.kind(value), op.line, "") for value in (*arguments, counted))
    with emitter.scalars() as made_body:
        known = dict(zip((raw.id for raw in chosen), more, strict=False))
        for raw, operand in zip(after.arguments, passed, strict=True):
            if raw.id in needed:
                emitter.bind(raw, known[operand] if operand in known else emitter.made(operand))
        for inner in slices[1]:
            translate(inner, emitter)
        then = [emitter.value(yielded[number]) for number in carried]
        then.append(emitter.emit(op, "add", (more[-1], emitter.constant(Literal(1, COUNT))), (COUNT,))[0])
    loop = _Parts(inits, (*arguments, counted), made_before, holds, (*arguments, counted), more, made_body, tuple(then))
    return loop.operation(op, emitter, [emitter.kind(value) for value in (*arguments, counted)])[-1]
