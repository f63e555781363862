"""Moving scalar operations that do not change in a loop to before it.

Then the same scalar is one symbol inside and outside of loops, and available to all of a loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from twill.tile.program import Items, Loop, Op, TileProgram
from twill.tile.vocabulary import ELEMENTWISE, SOURCES

PURE = frozenset({*SOURCES, *ELEMENTWISE})


def hoist_scalars(program: TileProgram) -> TileProgram:
    """The same program; what is moved is free of effects and of divisions that could be by zero."""
    constants = {op.results[0]: dict(op.attributes)["value"] for op in program.ops() if op.kind == "constant"}
    return replace(program, body=_block(program, program.body, constants))


def _block(program: TileProgram, items: Items, constants: Mapping[int, object]) -> Items:
    """The items, and in front of each loop what is moved out of it."""
    body: list[Op | Loop] = []
    for item in items:
        if isinstance(item, Op):
            body.append(item)
            continue
        inside = {item.induction, *(carry.argument for carry in item.carried)}
        retained: list[Op | Loop] = []
        for inner in _block(program, item.body, constants):
            if isinstance(inner, Op) and _fixed(program, inner, inside, constants):
                body.append(inner)
                continue
            retained.append(inner)
            inside.update(inner.results if isinstance(inner, Op) else _results(inner))
        body.append(replace(item, body=tuple(retained)))
    return tuple(body)


def _results(loop: Loop) -> set[int]:
    return {carry.result for carry in loop.carried}


def _fixed(program: TileProgram, op: Op, inside: set[int], constants: Mapping[int, object]) -> bool:
    if op.kind not in PURE or inside.intersection(op.operands):
        return False
    if any(program.type_of(value).shape for value in (*op.operands, *op.results)):
        return False
    return op.kind not in ("div", "rem") or bool(constants.get(op.operands[1]))
