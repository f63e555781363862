"""Carried values that never change: an index that is made again in every iteration, as it was before the loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from twill.tile.program import Items, Loop, Op, TileProgram


def without_invariant_carries(program: TileProgram) -> TileProgram:
    """The program in which a carried value that yields what it began with is that, in the loop and behind it.

    For raw programs, whose operations have no accesses yet.
    """
    same: dict[int, int] = {}
    body = _block(program.body, same)
    return replace(program, body=body) if same else program


def _block(items: Items, same: dict[int, int]) -> Items:
    made: list[Op | Loop] = []
    for item in items:
        if isinstance(item, Op):
            made.append(replace(item, operands=tuple(same.get(operand, operand) for operand in item.operands)))
        else:
            made.append(_loop(item, same))
    return tuple(made)


def _loop(loop: Loop, same: dict[int, int]) -> Loop:
    while True:
        found = [c for c in loop.carried if _now(c.yielded, same) in (_now(c.init, same), c.argument)]
        if not found:
            break
        for carry in found:
            same[carry.argument] = same[carry.result] = _now(carry.init, same)
        loop = replace(loop, carried=tuple(carry for carry in loop.carried if carry not in found))
    body = _block(loop.body, same)
    carried = tuple(replace(c, init=_now(c.init, same), yielded=_now(c.yielded, same)) for c in loop.carried)
    bounds = {name: _now(getattr(loop, name), same) for name in ("lower", "upper", "step")}
    return replace(loop, carried=carried, body=body, **bounds)


def _now(value: int, same: Mapping[int, int]) -> int:
    return same.get(value, value)
