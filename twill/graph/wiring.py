"""Where the values that a step reads come from, through views and loop-carried values.

A block argument read in iteration i is what the loop yielded in iteration i - 1: following it to
the yielded value adds one to the distance, and again if that is another block argument.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from twill.graph.work import is_free
from twill.tile.flat import UNIFORM, Flat, FlatCarry


@dataclass(frozen=True)
class ValueOrigin:
    """A value made by step `step` (index in `Flat.steps`), `distance` iterations ago. via: the
    carried values it came through, the reader's own first.
    """

    step: int
    distance: int
    via: tuple[FlatCarry, ...] = ()


class Wiring:
    """Answers for one flat program."""

    def __init__(self, flat: Flat) -> None:
        self.flat = flat
        self.maker = {result: i for i, step in enumerate(flat.steps) for result in step.results}
        self.argument = {carry.argument: carry for carry in flat.carries}
        self.result = {carry.result: carry for carry in flat.carries}

    def origins(self, cell: int, seen: tuple[FlatCarry, ...] = ()) -> tuple[ValueOrigin, ...]:
        """The steps that make a cell: none for what costs nothing (constants, index arithmetic),
        several where a join puts tiles side by side.

        A carried value that no iteration makes (it is handed round, or replaced by a value from
        outside the loop) comes from everywhere outside that it may come from.
        """
        if cell == UNIFORM:
            return ()
        if cell in self.argument:
            return self._carried(self.argument[cell], seen)
        if cell in self.result:
            carry = self.result[cell]
            made = [replace(o, distance=0, via=()) for o in self.origins(carry.yielded)]
            inside = self.makes(carry)
            return tuple(dict.fromkeys(made)) if inside else (*made, *self.origins(carry.init))
        step = self.flat.steps[self.maker[cell]]
        if is_free(step):
            found = (origin for operand in step.operands for origin in self.origins(operand, seen))
            return tuple(dict.fromkeys(found))
        return () if step.index else (ValueOrigin(self.maker[cell], 0, ()),)

    def _carried(self, carry: FlatCarry, seen: tuple[FlatCarry, ...]) -> tuple[ValueOrigin, ...]:
        if carry.pure or carry in seen:
            return ()
        found = self.origins(carry.yielded, (*seen, carry))
        inside = [o for o in found if self.stretch(o) == carry.stretch]
        outside = [o for o in found if self.stretch(o) != carry.stretch]
        entry = () if inside else self.origins(carry.init)
        counted = [ValueOrigin(o.step, o.distance + 1, (carry, *o.via)) for o in inside]
        return tuple(dict.fromkeys((*counted, *outside, *entry)))

    def is_transposed(self, cell: int) -> bool:
        """Whether a matrix is its maker's result with rows and columns exchanged by views."""
        maker = self.maker.get(cell)
        if maker is None or not is_free(self.flat.steps[maker]):
            return False
        step = self.flat.steps[maker]
        cells = step.cells()
        inner = self.is_transposed(cells[0]) if len(cells) == 1 else False
        return inner != (step.op.kind == "transpose" and step.op.attribute("order") == (1, 0))

    def stretch(self, origin: ValueOrigin) -> int:
        """The stretch in which the origin's step runs."""
        return self.flat.steps[origin.step].stretch

    def makes(self, carry: FlatCarry) -> bool:
        """Whether some step of the loop makes the carried value."""
        return any(self.stretch(o) == carry.stretch for o in self.origins(carry.yielded))
