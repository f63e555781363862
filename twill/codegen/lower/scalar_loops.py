"""A loop over scalars of a tile program (`twill.tile.scalar_region`) as statements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from twill.codegen.warp.expression import Apply, Expr, Local, Lookup, Number, NumPrograms, ProgramId
from twill.codegen.warp.program import Atomic, Let, ScalarLoop, Stmt
from twill.tile.interpret.atomics import values_of
from twill.tile.program import Op
from twill.tile.scalar_region import ScalarRegion
from twill.tile.vocabulary import ATOMIC, combining


@dataclass(frozen=True)
class LoweredLoop:
    """stmts: the loop. results: what it leaves, in order."""

    stmts: tuple[Stmt, ...]
    results: tuple[Expr, ...]


def lowered_region(op: Op, operands: Sequence[Expr], fresh: Callable[[str], str]) -> LoweredLoop:
    """The loop of an operation. operands: of the operation. fresh: names that nothing has."""
    assert op.region is not None
    region, elements = op.region, op.region.elements()
    known = dict(zip(region.parameters, operands, strict=True))
    first = [known[init] for init in region.inits]
    stmts = [*_before(region, first, known, fresh)]
    passed = tuple(known[value] for value in region.passed)
    if known[region.condition] == Number(0, "i1") and not region.yielded:
        return LoweredLoop(tuple(stmts), passed)  # it runs once
    name = op.name.split(".")[0] or "s"
    names = [fresh(name) for _ in passed]
    go = fresh("more")
    inits = (*passed, known[region.condition])
    inner = dict(known)
    inner |= {value: Local(one, elements[value]) for value, one in zip(region.inside, names, strict=True)}
    body = [*_ops(region.body, inner, region, fresh)]
    body += _before(region, [inner[value] for value in region.yielded], inner, fresh)
    yields = (*(inner[value] for value in region.passed), inner[region.condition])
    loop = ScalarLoop((*names, go), inits, Local(go, "i1"), yields, tuple(body), line=op.line)
    results = tuple(Local(one, elements[value]) for value, one in zip(region.passed, names, strict=True))
    return LoweredLoop((*stmts, loop), results)


def _before(
    region: ScalarRegion, values: Sequence[Expr], known: dict[int, Expr], fresh: Callable[[str], str]
) -> Iterator[Stmt]:
    """What is computed in front of the condition, for these arguments."""
    known.update(zip(region.arguments, values, strict=True))
    yield from _ops(region.before, known, region, fresh)


def _ops(
    ops: Sequence[Op], known: dict[int, Expr], region: ScalarRegion, fresh: Callable[[str], str]
) -> Iterator[Stmt]:
    """Operations by name; `known` grows."""
    elements = region.elements()
    for op in ops:
        operands = [known[operand] for operand in op.operands]
        if op.region is not None:
            inner = lowered_region(op, operands, fresh)
            known.update(zip(op.results, inner.results, strict=True))
            yield from inner.stmts
            continue
        value, attributes = op.results[0], dict(op.attributes)
        if op.kind == ATOMIC:
            name = fresh(op.name.split(".")[0] or "old")
            known[value] = Local(name, elements[value])
            yield _atomic(op, operands, name)
            continue
        made = _expression(op, operands, elements[value])
        if isinstance(made, Number | ProgramId | NumPrograms):
            known[value] = made
            continue
        name = fresh(str(attributes.get("name", "")) or op.name.split(".")[0] or "s")
        known[value] = Local(name, elements[value])
        yield Let(name, made, line=op.line)


def _atomic(op: Op, operands: Sequence[Expr], name: str) -> Atomic:
    said = dict(op.attributes)
    count = 1 + values_of(str(said["combine"]))
    mask = operands[count] if len(operands) > count else None
    words = (combining(said), str(said["element"]), str(said["order"]))
    return Atomic(name, str(said["base"]), operands[0], tuple(operands[1:count]), *words, mask, line=op.line)


def _expression(op: Op, operands: Sequence[Expr], element: str) -> Expr:
    attributes = dict(op.attributes)
    match op.kind:
        case "constant":
            number = attributes["value"]
            assert isinstance(number, int | float)
            return Number(number, element)
        case "program_id":
            return ProgramId(int(str(attributes["axis"])))
        case "num_programs":
            return NumPrograms(int(str(attributes["axis"])))
        case "look_up":
            mask = operands[1] if len(operands) > 1 else None
            return Lookup(str(attributes["base"]), operands[0], element, mask, 0.0)
    return Apply(op.kind, tuple(operands), element, op.attributes)
