"""Branches become straight code: both sides run, and what they would have changed is guarded.

A tile program has no branches. Under a condition, pure operations run anyhow; a load, a store or an atomic addition is
given the condition as its *guard*, without which it touches nothing; a loop has no iteration where the condition does
not hold; and what the branch gives is a select between its two sides. So an `if` over scalars, with or without results,
an `else`, an early `return` and whatever else has no way back is the same program, whatever the condition is made of.

A condition is a conjunction of literals: (a scalar i1, whether it holds).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from twill.tile.mlir import RawBlock, RawOp, RawValue
from twill.tile.program import TileType
from twill.tile.translate.builder import Condition, Literal, Made, ProgramBuilder
from twill.tile.translate.refusals import refuse, refuse_choice

Translate = Callable[[RawOp, ProgramBuilder], None]


OFFSET = TileType((), "i64")
DEEPEST = 32  # calls of functions by one another
QUOTE = '"'  # around names with other signs than those of words


@dataclass(frozen=True)
class BranchEdge:
    """A way into a block: under which condition it is taken, and what it passes to the block's arguments."""

    condition: Condition
    passed: tuple[Made, ...]
    branch: RawOp


def conditional(op: RawOp, emitter: ProgramBuilder, translate: Translate) -> None:
    """`scf.if condition` with a block for each side; the second may be missing. Binds its results."""
    literal = emitter.literal(op.operands[0])
    given: list[tuple[Made, ...]] = []
    for truth, blocks in zip((True, False), op.regions, strict=False):
        if not blocks or (literal is not None and bool(literal.number) != truth):
            given.append(())
            continue
        operations = blocks[0].operations
        inside: Condition = () if literal is not None else ((emitter.value(op.operands[0]), truth),)
        with emitter.under(inside):
            for inner in operations:
                translate(inner, emitter)
        given.append(tuple(map(emitter.made, operations[-1].operands)))
    for number, raw in enumerate(op.results):
        sides = [side[number] for side in given if side]
        chosen = sides[0] if len(sides) == 1 else choose(op, emitter, emitter.value(op.operands[0]), sides, raw)
        emitter.bind(raw, chosen)


def call(op: RawOp, emitter: ProgramBuilder, translate: Translate) -> None:
    """`tt.call` of a function that Triton has not inlined, as it is told not to, or because it returns in several
    places: its blocks where it is called. Binds its results. Refuses one whose calls end in itself."""
    blocks = emitter.functions.get(str(op.attributes["callee"]).removeprefix("@").strip(QUOTE))
    if blocks is None or emitter.calls > DEEPEST:
        refuse(emitter.file, op)
    for raw, operand in zip(blocks[0].arguments, op.operands, strict=True):
        emitter.bind(raw, emitter.made(operand))
    emitter.calls += 1
    returns = blocks_without_loops(emitter.file, blocks, emitter, translate)
    emitter.calls -= 1
    emitter.line = op.line
    for raw, made in zip(op.results, _met(op.results, returns, emitter), strict=True):
        emitter.bind(raw, made)


def blocks_without_loops(
    file: str, blocks: Sequence[RawBlock], emitter: ProgramBuilder, translate: Translate
) -> list[BranchEdge]:
    """The blocks of a function that branch forward only; its ways out. Refuses those of a loop that was not written as
    one."""
    returns: list[BranchEdge] = []
    ways: dict[int, list[BranchEdge]] = {0: [BranchEdge((), (), blocks[0].operations[-1])]}
    for number in in_order(file, blocks):
        edges = ways.get(number, [])
        if not edges:  # nothing leads here
            continue
        if number:
            _enter(blocks[number], edges, emitter)
        condition = _any([edge.condition for edge in edges], emitter, edges[0].branch)
        with emitter.under(condition):
            for op in blocks[number].operations:
                translate(op, emitter)
        last = blocks[number].operations[-1]
        for target, edge in _ways_out(last, condition, emitter):
            ways.setdefault(target, []).append(edge)
        if last.name == "tt.return":
            returns.append(BranchEdge(condition, tuple(map(emitter.made, last.operands)), last))
    return returns


def in_order(file: str, blocks: Sequence[RawBlock]) -> list[int]:
    """The blocks that can be reached, each behind all that lead to it."""
    order: list[int] = []
    state: dict[int, bool] = {}  # block -> whether all behind it is in the order

    def visit(number: int) -> None:
        state[number] = False
        last = blocks[number].operations[-1]
        for target in last.successors:
            if target not in state:
                visit(target)
            elif not state[target]:
                refuse(file, last)
        state[number] = True
        order.append(number)

    visit(0)
    return order[::-1]


def _ways_out(last: RawOp, condition: Condition, emitter: ProgramBuilder) -> list[tuple[int, BranchEdge]]:
    """Where a block's last operation leads to."""
    if last.name == "cf.br":
        return [(last.successors[0], BranchEdge(condition, tuple(map(emitter.made, last.operands)), last))]
    if last.name != "cf.cond_br":
        return []
    counts = last.attributes["operandSegmentSizes"]
    operands = list(map(emitter.made, last.operands[1:]))
    passed = (tuple(operands[: counts[1]]), tuple(operands[counts[1] :]))
    literal = emitter.literal(last.operands[0])
    ways: list[tuple[int, BranchEdge]] = []
    for truth, target, values in zip((True, False), last.successors, passed, strict=True):
        if literal is None:
            taken: Condition = (*condition, (emitter.value(last.operands[0]), truth))
        elif bool(literal.number) == truth:
            taken = condition
        else:
            continue
        ways.append((target, BranchEdge(taken, values, last)))
    return ways


def _enter(block: RawBlock, edges: Sequence[BranchEdge], emitter: ProgramBuilder) -> None:
    """Binds the arguments of a block to what came along the way that was taken."""
    for raw, made in zip(block.arguments, _met(block.arguments, edges, emitter), strict=True):
        emitter.bind(raw, made)


def _met(results: Sequence[RawValue], edges: Sequence[BranchEdge], emitter: ProgramBuilder) -> Iterator[Made]:
    """What came along the way that was taken."""
    for number, raw in enumerate(results):
        made = edges[0].passed[number]
        for edge in edges[1:]:
            emitter.line = edge.branch.line
            taken = emitter.condition(edge.condition, edge.branch)
            made = choose(edge.branch, emitter, taken, [edge.passed[number], made], raw)
        yield made


def _any(conditions: list[Condition], emitter: ProgramBuilder, branch: RawOp) -> Condition:
    """That one of the conditions holds."""
    merged = conditions[0]
    for other in conditions[1:]:
        differing = set(merged) ^ set(other)
        if len(differing) == 2 and len({value for value, _ in differing}) == 1:  # it holds or it doesn't
            merged = tuple(one for one in merged if one not in differing)
            continue
        if not merged or not other:
            return ()
        both = [emitter.condition(merged, branch), emitter.condition(other, branch)]
        merged = ((emitter.emit(branch, "or", both, [TileType((), "i1")])[0], True),)
    return merged


def choose(op: RawOp, emitter: ProgramBuilder, condition: int, sides: Sequence[Made], raw: RawValue) -> Made:
    """The first side where the condition holds, else the second one. Refuses to choose between tensors."""
    first, second = sides
    if first == second:
        return first
    if raw.type.element.startswith(("ptr:", "desc:")):
        return _pointer(op, emitter, condition, (first, second), raw)
    if raw.type.shape:
        condition = emitter.emit(op, "splat", (condition,), [TileType(raw.type.shape, "i1")])[0]
    operands = (condition, *(emitter.constant(side) if isinstance(side, Literal) else side for side in sides))
    return emitter.emit(op, "select", operands, [raw.type])[0]


def _pointer(op: RawOp, emitter: ProgramBuilder, condition: int, sides: tuple[Made, Made], raw: RawValue) -> int:
    """The pointer of one of two sides: where they point into the same tensor, the offset is chosen, else the pointer
    (`twill.tile.translate.pointer_choices`)."""
    first, second = sides
    if isinstance(first, Literal) or isinstance(second, Literal) or not raw.type.element.startswith("ptr:"):
        refuse_choice(emitter.file, op, raw)
    (base, ahead), (other, behind) = emitter.way(first), emitter.way(second)
    if raw.type.shape:
        condition = emitter.emit(op, "splat", (condition,), [TileType(raw.type.shape, "i1")])[0]
    if raw.type.shape or base != other:
        return emitter.emit(op, "select", (condition, first, second), [raw.type])[0]
    offsets = tuple(_sum(op, emitter, offsets) for offsets in (ahead, behind))
    offset = emitter.emit(op, "select", (condition, *offsets), [OFFSET])[0]
    return emitter.emit(op, "add_pointer", (base, offset), [raw.type])[0]


def _sum(op: RawOp, emitter: ProgramBuilder, offsets: Sequence[int]) -> int:
    """The sum of offsets, in 64 bits."""
    wide = [emitter.widened(op, offset) for offset in offsets]
    total = wide[0] if wide else emitter.constant(Literal(0, OFFSET))
    for offset in wide[1:]:
        total = emitter.emit(op, "add", (total, offset), [OFFSET])[0]
    return total
