"""The rule of operations that are one operation of the tile program, element by element."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from twill.tile.fold import fold, identity
from twill.tile.mlir import RawOp
from twill.tile.program import Attribute
from twill.tile.translate.builder import Literal, Made, ProgramBuilder

Rule = Callable[[RawOp, ProgramBuilder], tuple[Made, ...] | None]
"""What an operation becomes: value ids, or literals where everything is known now. None: not in this form."""


def elementwise(kind: str, **attributes: Attribute) -> Rule:
    """`kind` applied to the operands element by element; folded if all of them are known."""

    def rule(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...]:
        result = op.results[0].type
        known = [literal.number if literal else None for literal in map(emitter.literal, op.operands)]
        numbers = [number for number in known if number is not None]
        if len(numbers) == len(known):
            folded = fold(kind, numbers, attributes, result.element)
            if folded is not None:
                return (Literal(folded, result),)
        same = identity(kind, known, result.element)
        if same is not None:
            return (emitter.value(op.operands[same]),)
        return emit(op, emitter, kind, attributes)

    return rule


def emit(op: RawOp, emitter: ProgramBuilder, kind: str, attributes: Mapping[str, Attribute]) -> tuple[int, ...]:
    """One operation of that kind, with all operands and results of `op`."""
    operands = [emitter.value(operand) for operand in op.operands]
    return emitter.emit(op, kind, operands, [result.type for result in op.results], tuple(attributes.items()))
