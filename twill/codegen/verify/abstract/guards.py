"""What the scalar conditions of a warp program compare in a launch: how far from equal both sides are.

`8 < n` and `8 <= n` differ where n is 8, and nowhere else. So of every comparison launches are wanted in which its
sides are equal, and in which either is larger by one: in an instance after which the warp group has another one, too,
since what a wrong turn leaves in a ring may only show there; and of the conditions that an instance begins with, every
combination.

Conditions are found where a warp group looks at them: in the `If`s of its blocks, the `until` of its pipelines, and the
`Let`s that either is made of. What depends on loaded values is not foreseen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from twill.codegen.verify.abstract.cross_tile_reuse import count_reuse
from twill.codegen.verify.abstract.scalars import EvaluationScope, Scalar, evaluate, no_element
from twill.codegen.verify.abstract.scheduling import Index
from twill.codegen.warp.by_identity import by_identity
from twill.codegen.warp.expression import Apply, Expr, Local, ProgramId
from twill.codegen.warp.parameters import nodes
from twill.codegen.warp.program import INSTANCES, NEIGHBOUR, PRESENT, CountReuse, If, Let, Pipeline, Stmt, WarpProgram
from twill.manifest.evaluate import HOLDS

NEAR = 1  # sides of a comparison that differ by more are as good as any others

Found = tuple[object, ...]
"""("guard", comparison, left - right, whether another instance follows) or ("guards", number of the outline, what each
condition says)."""


@dataclass(frozen=True)
class Outline:
    """What a warp group computes with scalars in a program instance: its body without any other statement."""

    body: tuple[Stmt, ...]
    share: tuple[int, int]
    walks: bool = False

    @cached_property
    def varies(self) -> bool:
        """Whether anything in it may differ between the instances of a launch. walks: these are visits of a walk."""
        of_one = (INSTANCES, PRESENT, NEIGHBOUR)
        return self.walks or any(
            isinstance(node, ProgramId | CountReuse) or (isinstance(node, Local) and node.name in of_one)
            for node in nodes(self.body)
        )


def outlines(program: WarpProgram) -> tuple[Outline, ...]:
    """Of all warp groups; those that compute the same once."""
    found = {Outline(outline(group.body), group.share, bool(program.walk)): None for group in program.groups}
    return tuple(one for one in found if one.body)


def outline(block: Iterable[Stmt]) -> tuple[Stmt, ...]:
    """A block's control flow, as far as conditions depend on it."""
    retained: list[Stmt] = []
    for stmt in block:
        match stmt:
            case Let() | CountReuse():
                retained.append(stmt)
            case If(condition, body, otherwise):
                retained.append(replace(stmt, condition=condition, body=outline(body), otherwise=outline(otherwise)))
            case Pipeline():
                retained.append(outline_of(stmt))
    return without_idle(tuple(retained))


def outline_of(loop: Pipeline) -> Pipeline:
    """A pipeline of nothing but control flow."""
    return replace(
        loop,
        prologue=tuple(map(outline, loop.prologue)),
        steady=outline(loop.steady),
        epilogue=tuple(map(outline, loop.epilogue)),
        later=outline(loop.later),
    )


def without_idle(block: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The block without definitions that no condition behind them needs, and without the same condition again."""
    retained: dict[Stmt, None] = {}
    needed: set[str] = set()
    for stmt in reversed(block):
        if isinstance(stmt, Let | CountReuse) and stmt.name not in needed:
            continue
        plain = replace(stmt, line=0, note="")
        if plain not in retained or isinstance(stmt, Pipeline):
            retained[plain] = None
            needed.update(node.name for node in nodes(stmt) if isinstance(node, Local))
    return tuple(reversed(retained))


Counts = dict[str, tuple[tuple[Scalar, ...], int]]
"""What `Alike` has seen, by name."""


@dataclass
class Conditions:
    """Goes through the outlines of a program in the instances of a launch.

    found: what it came by. scalars: of the launch. followed: whether the instance that is looked at is not the last.
    """

    grid: tuple[int, int, int]
    scalars: Mapping[str, int | float]
    found: set[Found] = field(default_factory=set)
    followed: bool = False

    def outline(self, number: int, one: Outline, order: Iterable[tuple[Index, Mapping[str, Scalar]]]) -> None:
        """The instances that a CTA has, in order, with the scalars of each. number: of the outline, for `found`."""
        mine, of = one.share
        last: Counts = {}
        counted = [(count, place) for count, place in enumerate(order) if count % of == mine]
        for count, place in counted if one.varies else [*counted[:1], *counted[1:][-1:]]:
            self.followed = count != counted[-1][0]
            index, names = place
            said: list[bool] = []
            scope = EvaluationScope(self.scalars, self.grid, index, no_element, {**names, INSTANCES: count})
            self.block(one.body, scope, last, said)
            self.found.add(("guards", number, tuple(said)))

    def block(
        self, block: tuple[Stmt, ...], scope: EvaluationScope, last: Counts, said: list[bool] | None = None
    ) -> None:
        """Statement by statement. said: is told of each condition; None where they differ from step to step."""
        names = dict(scope.names)
        for stmt in block:
            match stmt:
                case Let(name, value):
                    scope.names.pop(name, None)
                    known = self.looked_at(value, scope)
                    if known is not None:
                        scope.names[name] = known
                    if said is not None and known is not None and value.element == "i1":
                        said.append(bool(known))
                case CountReuse(name, values):
                    if all(value_of(value, scope) is not None for value in values):
                        scope.names[name] = count_reuse(stmt, scope, last)
                case If(condition, body, otherwise):
                    holds = self.looked_at(condition, scope)
                    if said is not None and holds is not None:
                        said.append(bool(holds))
                    for branch in (body, otherwise) if holds is None else (body if holds else otherwise,):
                        self.block(branch, scope, last, said)
                case Pipeline():
                    self.pipeline(stmt, scope, last)
        scope.names = names

    def pipeline(self, loop: Pipeline, scope: EvaluationScope, last: Counts) -> None:
        """Prologue, steady state and epilogue, as `twill.codegen.verify.abstract.control` runs them."""
        known = self.looked_at(loop.trip, scope)
        trip = int(known) if known is not None else 0
        if trip <= 0:
            return
        steps: list[tuple[int, tuple[Stmt, ...] | None]] = [*enumerate(loop.prologue)]
        steps += [(step, None) for step in range(loop.stages, trip)]
        steps += [(max(trip, loop.stages) + number, block) for number, block in enumerate(loop.epilogue)]
        names, steady = dict(scope.names), loop.steady
        for step, block in steps:
            scope.names[loop.step] = step
            if block is None and loop.until is not None and self.looked_at(loop.until, scope):
                steady = loop.later
            self.block(steady if block is None else block, scope, last)
        scope.names = names

    def looked_at(self, expr: Expr, scope: EvaluationScope) -> Scalar | None:
        """The value of an expression; how far apart the sides of each comparison within are is noted."""
        for node in comparisons(expr):
            left, right = (value_of(operand, scope) for operand in node.operands)
            if isinstance(left, int) and isinstance(right, int):
                self.found.add(("guard", node, max(-NEAR - 1, min(NEAR + 1, left - right)), self.followed))
        return value_of(expr, scope)


def said(found: Iterable[Found]) -> set[tuple[object, bool]]:
    """Each comparison with what it said."""
    every: set[tuple[object, bool]] = set()
    for one in found:
        match one:
            case ("guard", Apply() as comparison, int() as apart, _):
                every.add((comparison, HOLDS[str(dict(comparison.attributes)["predicate"])](apart, 0)))
    return every


@by_identity
def comparisons(expr: Expr) -> tuple[Apply, ...]:
    """Of integers, inside of an expression."""
    every = (node for node in nodes(expr) if isinstance(node, Apply) and node.kind == "compare")
    return tuple(node for node in every if node.operands[0].element in ("i32", "i64"))


def value_of(expr: Expr, scope: EvaluationScope) -> Scalar | None:
    """The number; None if it depends on what is not known in front of a launch."""
    try:
        return evaluate(expr, scope)
    except KeyError:
        return None
