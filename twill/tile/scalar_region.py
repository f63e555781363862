"""A loop over scalars as one operation of a tile program (`scalar_loop`): a `while` that searches, halves, or reads its
condition from memory.

Every warp group runs it for itself, as it computes any other uniform scalar: it may look numbers up in tensors that the
kernel does not write, and does nothing else. What it has in it is numbered by itself, and is no part of the program's
numbering.

Grammar::

    ScalarRegion ::= parameter* init* argument* Op* condition passed* inside* Op* yielded*
                     (arguments begin as inits; `before`; where the condition holds, `inside` is what is passed, `body`,
                      and the arguments are what is yielded; where it does not, what is passed are the results)
    Op           ::= a scalar operation | look_up index [mask] | scalar_loop operand* region

Parameters stand for the operands of the operation, in order. look_up: attributes base, element, pad. Of an operation
`elected` there are atomic operations among them (`ATOMIC` of `twill.tile.vocabulary`), and it may run once: no
argument, and a condition that does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from twill.tile.program import Op
from twill.tile.vocabulary import ATOMIC

MOST_TURNS = 1 << 16  # at sizes that a check makes up


class Endless(Exception):  # noqa: N818, a kernel may not end at sizes that are made up
    """A loop over scalars makes more turns than anything that is checked should."""


def _nothing() -> None:
    """Where nobody asks."""


@dataclass(frozen=True)
class ScalarRegion:
    """See the top of this file. types: the element of every number in it."""

    parameters: tuple[int, ...]
    inits: tuple[int, ...]
    arguments: tuple[int, ...]
    before: tuple[Op, ...]
    condition: int
    passed: tuple[int, ...]
    inside: tuple[int, ...]
    body: tuple[Op, ...]
    yielded: tuple[int, ...]
    types: tuple[tuple[int, str], ...]

    def bases(self) -> frozenset[str]:
        """The tensors that numbers are looked up in."""
        found = {str(op.attribute("base")) for op in self.ops() if op.kind == "look_up"}
        return frozenset(found)

    def atomics(self) -> Iterator[Op]:
        """The operations that touch memory as it is now (`ATOMIC`)."""
        return (op for op in self.ops() if op.kind == ATOMIC)

    def touched(self) -> frozenset[str]:
        """The tensors that atomic operations touch."""
        return frozenset(str(op.attribute("base")) for op in self.atomics())

    def written(self) -> frozenset[str]:
        """Those that they may change."""
        return frozenset(str(op.attribute("base")) for op in self.atomics() if op.attribute("combine") != "load")

    def ops(self) -> Iterator[Op]:
        """Every operation, those of loops in it included."""
        for op in (*self.before, *self.body):
            yield op
            if op.region is not None:
                yield from op.region.ops()

    def elements(self) -> Mapping[int, str]:
        """The element of every number."""
        return dict(self.types)

    def run(
        self, operands: Sequence[Any], step: Callable[[Op, list[Any], Mapping[int, str]], Sequence[Any]],
        again: Callable[[], None] = _nothing,
    ) -> tuple[Any, ...]:  # fmt: skip
        """The results for these operands. step: the results of an operation that has no region of its own. again: is
        called wherever a loop's condition holds."""
        elements = self.elements()
        values = dict(zip(self.parameters, operands, strict=True))

        def block(ops: Sequence[Op]) -> None:
            for op in ops:
                given = [values[operand] for operand in op.operands]
                made = op.region.run(given, step, again) if op.region is not None else step(op, given, elements)
                values.update(zip(op.results, made, strict=True))

        current = [values[init] for init in self.inits]
        for _ in range(MOST_TURNS):
            values.update(zip(self.arguments, current, strict=True))
            block(self.before)
            passed = tuple(values[value] for value in self.passed)
            if not values[self.condition]:
                return passed
            again()
            values.update(zip(self.inside, passed, strict=True))
            block(self.body)
            current = [values[value] for value in self.yielded]
        raise Endless

    def said(self) -> tuple[Any, ...]:
        """All of it as tuples, numbers and texts."""
        before, body = (tuple(map(_said, ops)) for ops in (self.before, self.body))
        return (
            self.parameters, self.inits, self.arguments, before, self.condition, self.passed, self.inside, body,
            self.yielded, self.types,
        )  # fmt: skip

    @classmethod
    def of(cls, said: Sequence[Any]) -> ScalarRegion:
        """The other way round. Raises ValueError, TypeError for anything else."""
        parameters, inits, arguments, before, condition, passed, inside, body, yielded, types = said
        made = (tuple(map(_op, ops)) for ops in (before, body))
        return cls(
            tuple(parameters), tuple(inits), tuple(arguments), next(made), int(condition), tuple(passed), tuple(inside),
            next(made), tuple(yielded), tuple((int(number), str(element)) for number, element in types),
        )  # fmt: skip


def _said(op: Op) -> tuple[Any, ...]:
    region = None if op.region is None else op.region.said()
    return op.kind, op.operands, op.results, op.attributes, op.line, op.name, region


def _op(said: Sequence[Any]) -> Op:
    kind, operands, results, attributes, line, name, region = said
    made = Op(0, str(kind), tuple(operands), tuple(results), tuple(attributes), int(line), str(name))
    return made if region is None else replace(made, region=ScalarRegion.of(region))
