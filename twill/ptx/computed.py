"""Steps that compute one register of others, lane by lane, as data: equal ones are known, and can be done together."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from twill.ptx.program import PtxInstruction, Register
from twill.ptx.registers import LaneOperand, Operands, Via
from twill.ptx.step import Array, LaneRegisters, Step

Function = Callable[..., Array]


def form_of(operands: Operands, instruction: PtxInstruction) -> Hashable:
    """Equal for instructions that compute the same, of whatever registers: each of these is its type."""
    types = operands.types
    given = [types.get(one.name, one) if isinstance(one, Register) else one for one in instruction.operands]
    return (instruction.name, instruction.modifiers, *given)


@dataclass(frozen=True)
class Computation:
    """What instructions of one form compute. result, arguments: types that the function gives and takes."""

    form: Hashable
    result: str
    arguments: tuple[str, ...]
    function: Function

    def of(self, operands: Operands, instruction: PtxInstruction) -> ComputedRegister | None:
        """The step of an instruction of the form; None if threads differ in an operand by themselves."""
        sources = []
        for operand, type in zip(instruction.operands[1:], self.arguments, strict=False):
            source = operands.source(instruction, operand, type)
            if source is None:
                return None
            sources.append(source)
        return ComputedRegister(self, sources, operands.writing(instruction, instruction.operands[0], self.result))


class ComputedRegister:
    """A step: target = function(sources)."""

    def __init__(self, of: Computation, sources: list[LaneOperand], target: Via) -> None:
        self.of = of
        self.sources = sources
        self.target = target

    def __call__(self, g: LaneRegisters) -> None:
        """Runs it."""
        self.run(g)

    @cached_property
    def run(self) -> Step:
        """The step as a function."""
        function, (target, become) = self.of.function, self.target
        fetches = [_fetch(source) for source in self.sources]

        def put(g: LaneRegisters, value: Array) -> None:
            if become is not None:
                value = become(value)
            g.registers[target] = value if g.mask is None else np.where(g.mask, value, g.registers[target])

        if len(fetches) == 1:
            (one,) = fetches
            return lambda g: put(g, function(one(g.registers)))
        if len(fetches) == 2:
            first, second = fetches
            return lambda g: put(g, function(first(g.registers), second(g.registers)))
        return lambda g: put(g, function(*[fetch(g.registers) for fetch in fetches]))


def _fetch(source: LaneOperand) -> Callable[[list[Array]], Array]:
    number, convert, value = source
    if value is not None:
        return lambda registers: value
    if convert is None:
        return lambda registers: registers[number]
    return lambda registers: convert(registers[number])
