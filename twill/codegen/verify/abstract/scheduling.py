"""The arithmetic of the tile scheduler: which program instances a CTA has, as the statements of a program say it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from twill.codegen.verify.abstract.scalars import EvaluationScope, Scalar, evaluate, integer, no_element
from twill.codegen.warp import program as ir
from twill.codegen.warp.scheduling import SchedulingStmt, evenly
from twill.tile.interpret.arithmetic import Array
from twill.tile.interpret.tables import tables_of

Index = tuple[int, int, int]


@dataclass(frozen=True)
class LaunchedCta:
    """Which CTA this is: its number, of how many, and its number in its cluster."""

    number: int = 0
    count: int = 1
    rank: int = 0

    def says(self) -> Mapping[str, int]:
        """The values of `twill.codegen.warp.expression.Cta`."""
        return {"cta": self.number, "ctas": self.count, "rank": self.rank}


def execute(stmt: SchedulingStmt, scope: EvaluationScope, recalled: list[int]) -> None:
    """One statement that only computes. recalled: what `Keep` leaves for `Recall`."""
    match stmt:
        case ir.Define(names, values):
            for name, value in zip(names, values, strict=True):
                scope.names[name] = evaluate(value, scope)
        case ir.Given(name, value):
            scope.names[name] = evaluate(value, scope)
        case ir.Evenly(name, count, most):
            scope.names[name] = evenly(integer(count, scope), integer(most, scope))
        case ir.SumOver():
            total = sum(_values(stmt, scope))
            scope.names[stmt.name] = total * integer(stmt.each, scope)
        case ir.Seek():
            _seek(stmt, scope)
        case ir.Keep(values):
            recalled[:] = [integer(value, scope) for value in values]
        case ir.Recall():
            scope.names.update(zip(ir.RECALLED, recalled, strict=True))
        case ir.SetProgramId(axis, value):
            index = list(scope.index)
            index[axis] = integer(value, scope)
            scope.index = (index[0], index[1], index[2])


def _values(stmt: ir.SumOver | ir.Seek, scope: EvaluationScope) -> Iterator[int]:
    for number in range(integer(stmt.extent, scope)):
        scope.names[stmt.index] = number
        for name, value in zip(stmt.names, stmt.values, strict=True):
            scope.names[name] = evaluate(value, scope)
        yield integer(stmt.value, scope)


def _seek(stmt: ir.Seek, scope: EvaluationScope) -> None:
    place, each, before = integer(stmt.place, scope), integer(stmt.each, scope), 0
    values = [*_values(stmt, scope)]
    for number, here in enumerate(values):
        if place < before + here * each or number + 1 == len(values):
            scope.names.update({stmt.index: number, stmt.before: before, stmt.here: here})
            return
        before += here * each


def instances_from(loop: ir.InstanceLoop, scope: EvaluationScope) -> Iterator[int]:
    """What a loop calls `instance`, in order. ValueError if it would never end."""
    first, end, step = (integer(bound, scope) for bound in (loop.first, loop.end, loop.step))
    yield from range(first, end, step)


@dataclass
class CommonScalars:
    """What `setup` and `once` leave: scalars by name, and what `Keep` left."""

    names: Mapping[str, Scalar]
    recalled: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, setup: Sequence[ir.Stmt], once: Sequence[ir.Stmt], scope: EvaluationScope) -> CommonScalars:
        """Computed in a scope, which has the scalars of `setup` then."""
        recalled: list[int] = []
        _run(setup, scope, recalled)
        names = dict(scope.names)
        _run(once, scope, recalled)
        scope.names = dict(names)
        return cls(names, recalled)


def instance_count(
    program: ir.WarpProgram, scalars: Mapping[str, int | float], grid: Index, tensors: Mapping[str, Array]
) -> int:
    """Program instances of a launch that has no clusters, as `setup` counts them. tensors: that are looked up in."""
    scope = EvaluationScope(scalars, grid, (0, 0, 0), no_element, {}, LaunchedCta().says(), tensors)
    return int(CommonScalars.of(program.setup, (), scope).names["instances"])


def _run(stmts: Sequence[ir.Stmt], scope: EvaluationScope, recalled: list[int]) -> None:
    for stmt in stmts:
        if isinstance(stmt, SchedulingStmt):
            execute(stmt, scope, recalled)


def _visits(stmts: Sequence[ir.Stmt], scope: EvaluationScope) -> Iterator[None]:
    """The visits of a walk: the scope has the scalars of each."""
    for stmt in stmts:
        match stmt:
            case ir.Visit():
                yield
            case ir.Let(name, value):
                scope.names[name] = evaluate(value, scope)
            case ir.ScalarLoop(names, inits, condition, yields, body):
                values = [evaluate(init, scope) for init in inits]
                while True:
                    scope.names.update(zip(names, values, strict=True))
                    if not evaluate(condition, scope):
                        break
                    yield from _visits(body, scope)
                    values = [evaluate(value, scope) for value in yields]


@dataclass(frozen=True)
class InstanceOrder:
    """The instances of a launch as one CTA has them, from the statements of all its warp groups (each asks for some of
    the grid indices). An index along an axis that no warp group asks for is 0.

    loops: that of each warp group, None where it asks for instances one by one; following: the statements by which each
    gets its next one, those that are alike once. The rest as in `WarpProgram`."""

    setup: tuple[ir.Stmt, ...]
    once: tuple[ir.Stmt, ...]
    loops: tuple[ir.InstanceLoop | None, ...]
    following: tuple[tuple[ir.Stmt, ...], ...]
    walk: tuple[ir.Stmt, ...]

    @classmethod
    def of(cls, program: ir.WarpProgram) -> InstanceOrder:
        """That of a program."""
        loops = tuple(group.loop for group in program.groups)
        following = tuple(dict.fromkeys(group.next for group in program.groups))
        return cls(program.setup, program.once, loops, following, program.walk)

    def instances(
        self, grid: Index, scalars: Mapping[str, int | float], cta: LaunchedCta
    ) -> Iterator[tuple[Index, Mapping[str, Scalar]]]:
        """In order: the grid indices of each, and the scalars that its statements define. In a dynamic order, those of
        places that CTAs take in turn."""
        known = tables_of(scalars)
        scope = EvaluationScope(scalars, grid, (0, 0, 0), no_element, cta=cta.says(), tensors=known or None)
        common = CommonScalars.of(self.setup, self.once, scope)
        loops = [loop for loop in self.loops if loop is not None]
        for count, instance in enumerate(instances_from(loops[0], scope) if loops else self._places(cta, scope)):
            scope.index = (0, 0, 0)
            scope.names = {**common.names, ir.INSTANCE: instance, ir.PLACE: instance, ir.INSTANCES: count}
            for stmts in self.following:
                self._next(stmts, scope, common.recalled)
            if not self.walk:
                yield scope.index, dict(scope.names)
            elif known:
                yield from ((scope.index, dict(scope.names)) for _ in _visits(self.walk, scope))

    def _places(self, cta: LaunchedCta, scope: EvaluationScope) -> Iterator[int]:
        return iter(range(cta.number, int(scope.names["instances"]), cta.count))

    def _next(self, stmts: Sequence[ir.Stmt], scope: EvaluationScope, recalled: list[int]) -> None:
        published = [stmt for stmt in stmts if isinstance(stmt, ir.PublishInstance)]
        for stmt in published:
            _run(stmt.body, scope, recalled)
            x, y, z = (integer(value, scope) for value in stmt.index)
            scope.index = (x, y, z)
        if all(loop is not None for loop in self.loops):
            _run(stmts, scope, recalled)
