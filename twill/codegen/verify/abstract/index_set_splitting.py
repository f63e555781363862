"""Steady states that change once (`twill.codegen.lower.index_set_splitting`): how many steps a launch has of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from twill.codegen.verify.abstract.scalars import EvaluationScope, evaluate, integer, no_element
from twill.codegen.warp.expression import Expr
from twill.codegen.warp.parameters import given
from twill.codegen.warp.program import Let, Pipeline, WarpProgram
from twill.tile.interpret.sequential import instances


@dataclass(frozen=True)
class SplitPipeline:
    """A pipeline that changes. lets: what is defined around it."""

    lets: tuple[tuple[str, Expr], ...]
    step: str
    stages: int
    trip: Expr
    until: Expr

    def steps(self, scalars: Mapping[str, int | float], grid: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Steps before and after the change, in every program instance of a launch. Nothing if
        they depend on what is loaded."""
        x, y, z = (*grid, 1, 1, 1)[:3]
        for index in instances(grid):
            scope = EvaluationScope(scalars, (x, y, z), index, no_element)
            try:
                yield self._steps(scope)
            except KeyError:
                return

    def _steps(self, scope: EvaluationScope) -> tuple[int, int]:
        for name, value in self.lets:
            scope.names[name] = evaluate(value, scope)
        steps = range(self.stages, integer(self.trip, scope))
        for early, step in enumerate(steps):
            scope.names[self.step] = step
            if evaluate(self.until, scope):
                return early, len(steps) - early
        return len(steps), 0


def split_pipelines(program: WarpProgram) -> list[SplitPipeline]:
    """Those of a program, each once."""
    found: dict[SplitPipeline, None] = {}
    common = tuple((one.name, one.value) for one in given(program))
    for group in program.groups:
        lets = (*common, *((stmt.name, stmt.value) for stmt in group.body if isinstance(stmt, Let)))
        for stmt in group.body:
            if isinstance(stmt, Pipeline) and stmt.until is not None:
                found[SplitPipeline(lets, stmt.step, stmt.stages, stmt.trip, stmt.until)] = None
    return [*found]
