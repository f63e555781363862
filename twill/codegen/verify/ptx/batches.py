"""Equal steps of a block, done together: arrays of several registers behind one another go through one function.

A block of unrolled code has the same instruction for each of a thread's elements. NumPy takes as long for 128 lanes as
for many times 128, so steps of one form that do not depend on one another become one. What they compute is the same,
element by element. Steps that do more than compute a register stay in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from twill.codegen.verify.ptx.code import Step
from twill.codegen.verify.ptx.threads import Array, Gang
from twill.ptx.computed import ComputedRegister
from twill.ptx.registers import LaneOperand

FEW = 4  # steps of a block that are left as they are
Touched = tuple[frozenset[int], frozenset[int], int]
"""Registers that an instruction reads and writes, and the source if it is a move, else -1."""


def batched(steps: Sequence[Step], touched: Sequence[Touched]) -> tuple[Step, ...]:
    """The steps of a block in an order in which they do the same, equal ones together. touched: of each step, registers
    that it reads and writes."""
    if len(steps) < FEW:
        return tuple([step.run if isinstance(step, ComputedRegister) else step for step in steps])
    rounds: dict[int, tuple[dict[Hashable, list[ComputedRegister]], list[Step]]] = {}
    for step, depth in zip(steps, _depths(steps, touched), strict=True):
        computed, others = rounds.get(depth) or rounds.setdefault(depth, ({}, []))
        if isinstance(step, ComputedRegister):
            computed.setdefault(step.of.form, []).append(step)
        else:
            others.append(step)
    found: list[Step] = []
    for _, (computed, others) in sorted(rounds.items(), key=itemgetter(0)):
        for alike in computed.values():
            found += [together(alike)] if len(alike) > 1 and _varies(alike) else [one.run for one in alike]
        found += others
    return tuple(found)


def _depths(steps: Sequence[Step], touched: Sequence[Touched]) -> list[int]:
    """When each step can run: at one depth what computes registers comes first, in any order, and then the others."""
    written: dict[int, int] = {}  # register -> the last depth at which it was written, read
    read: dict[int, int] = {}
    last, depths = 0, []
    for step, (reads, writes, _) in zip(steps, touched, strict=True):
        depth = -1
        for register in reads:
            depth = max(depth, written.get(register, -1))
        for register in writes:
            depth = max(depth, written.get(register, -1), read.get(register, -1))
        if isinstance(step, ComputedRegister):
            depth += 1
        else:
            depth = last = max(depth, last)
        for register in reads:
            read[register] = max(depth, read.get(register, -1))
        for register in writes:
            written[register] = depth
        depths.append(depth)
    return depths


def _varies(alike: Sequence[ComputedRegister]) -> bool:
    return any(len(set(numbers)) > 1 for numbers in _numbers(alike))


def _numbers(alike: Sequence[ComputedRegister]) -> list[tuple[int, ...]]:
    """The registers of each operand."""
    return list(zip(*[[source.number for source in one.sources] for one in alike], strict=True))


def together(alike: Sequence[ComputedRegister]) -> Step:
    """Steps of one form, none of which reads what another one writes, as one."""
    first, count = alike[0], len(alike)
    function, become = first.of.function, first.target[1]
    targets = [one.target[0] for one in alike]
    columns = [_column(source, numbers) for source, numbers in zip(first.sources, _numbers(alike), strict=True)]

    def step(g: Gang) -> None:
        registers = g.registers
        given = None if g.mask is not None else _operands(registers, columns, count, g.size)
        if given is None:
            for one in alike:
                one.run(g)
            return
        result = function(*given)
        if become is not None:
            result = become(result)
        for target, row in zip(targets, result.reshape(count, -1), strict=True):
            registers[target] = row

    return step


Column = tuple[Callable[[list[Array]], tuple[Array, ...]] | None, Any, Array | None]
"""What takes an operand's registers from all, what is done with them behind it, or what all steps have there."""


def _column(source: LaneOperand, numbers: tuple[int, ...]) -> Column:
    if source.value is not None:
        return None, None, source.value
    return itemgetter(*numbers), source.convert, None


def _operands(registers: list[Array], columns: Sequence[Column], count: int, size: int) -> list[Array] | None:
    """The operands of all steps behind one another: of all lanes, or where all lanes have the same, one element for
    each step. None where that is not so of all steps alike."""
    given: list[Array] = []
    most = count
    for take, convert, value in columns:
        if take is not None:
            value = np.concatenate(take(registers))
            most = max(most, len(value))
            if convert is not None:
                value = convert(value)
        assert value is not None
        given.append(value)
    if most == count:
        return given
    whole = count * size
    for place, (take, convert, _) in enumerate(columns):
        if take is None or len(given[place]) == whole:
            continue
        if len(given[place]) == count:
            given[place] = given[place].repeat(size)
            continue
        if most < whole:
            return None
        spread = np.concatenate([one if len(one) > 1 else one.repeat(size) for one in take(registers)])
        given[place] = spread if convert is None else convert(spread)
    return given if most == whole else None
