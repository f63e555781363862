"""Operands of a product that have a variable, because its line is too long with all of them written out.

A variable is called as the buffer. Where both operands are of one buffer, as of `dot(x, x.T)`, they are told apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twill.codegen.print.gluon.role import Role
from twill.codegen.warp.program import SlotRef

Operand = tuple[SlotRef | int, bool, str]
"""A tile in memory, or the fragment that has it; whether it is transposed; its text."""


def print_views(
    operands: Sequence[Operand], order: Sequence[int], fits: Callable[[list[str]], bool], line: int, role: Role
) -> list[str]:
    """Both operands as they stand in the product's line. Those in memory become variables, which are printed, in this
    order until the line fits. order: places."""
    (a, _, left), (b, _, right) = operands
    one_buffer = isinstance(a, SlotRef) and isinstance(b, SlotRef) and a.buffer == b.buffer
    said, printed = [left, right], set[str]()
    for place in order:
        ref, turned, text = operands[place]
        if fits(said):
            break
        if not isinstance(ref, SlotRef):
            continue
        apart = _apart(place, turned, operands[1 - place][1]) if one_buffer and left != right else ""
        said[place] = role.view(ref.buffer, apart)
        if said[place] not in printed:
            role.out.line(f"{said[place]} = {text}", line)
        printed.add(said[place])
    return said


def _apart(place: int, turned: bool, other_turned: bool) -> str:
    """What an operand is called beside another one of its buffer."""
    if turned == other_turned:
        return "other" if place else ""
    return "transposed" if turned else ""
