"""Which instances of a launch find tiles of the ones before them in their rings, as a warp group itself would say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from twill.codegen.verify.abstract.scalars import EvaluationScope, Scalar, evaluate, no_element
from twill.codegen.warp.expression import Local
from twill.codegen.warp.parameters import given, nodes
from twill.codegen.warp.program import CountReuse, Let, Stmt, WarpProgram


@dataclass(frozen=True)
class ReuseCounter:
    """A warp group that counts instances that are alike. lets: what it defines for that; asked: the names that say
    whether tiles are there."""

    group: int
    lets: tuple[Let | CountReuse, ...]
    asked: tuple[str, ...]

    @classmethod
    def of(cls, program: WarpProgram) -> tuple[ReuseCounter, ...]:
        """Those among the warp groups of a program."""
        made = []
        common = tuple(Let(one.name, one.value) for one in given(program))
        for group in program.groups:
            lets = (*common, *(stmt for stmt in group.body if isinstance(stmt, Let | CountReuse)))
            counts = {stmt.name for stmt in lets if isinstance(stmt, CountReuse)}
            asked = tuple(stmt.name for stmt in lets if isinstance(stmt, Let) and mentions(stmt, counts))
            made += [cls(group.id, needed(lets, asked), asked)] if asked else []
        return tuple(made)

    def finds(
        self, order: Iterable[tuple[int, int, int]], grid: tuple[int, int, int], scalars: Mapping[str, int | float]
    ) -> Iterator[tuple[str, bool]]:
        """Instance by instance, what each of the names says, of one CTA that has them all in this order."""
        last: dict[str, tuple[tuple[Scalar, ...], int]] = {}
        for index in order:
            scope = EvaluationScope(scalars, grid, index, no_element)
            for let in self.lets:
                known = evaluate(let.value, scope) if isinstance(let, Let) else count_reuse(let, scope, last)
                scope.names[let.name] = known
            yield from ((name, bool(scope.names[name])) for name in self.asked)


def needed(lets: Sequence[Let | CountReuse], asked: Iterable[str]) -> tuple[Let | CountReuse, ...]:
    """Those that define some of these names, or what they are made of."""
    wanted, found = set(asked), list[Let | CountReuse]()
    for stmt in reversed(lets):
        if stmt.name in wanted:
            found.append(stmt)
            wanted |= {node.name for node in nodes(stmt) if isinstance(node, Local)}
    return tuple(reversed(found))


def mentions(stmt: Stmt, names: Iterable[str]) -> bool:
    """Whether a statement's expressions have some of these names in them."""
    wanted = set(names)
    return any(isinstance(node, Local) and node.name in wanted for node in nodes(stmt))


def count_reuse(stmt: CountReuse, scope: EvaluationScope, last: dict[str, tuple[tuple[Scalar, ...], int]]) -> int:
    """How many instances just before had the same values; `last` is told of this one."""
    values = tuple(evaluate(value, scope) for value in stmt.values)
    before = last.get(stmt.name)
    found = before[1] + 1 if before is not None and before[0] == values else 0
    last[stmt.name] = values, found
    return found
