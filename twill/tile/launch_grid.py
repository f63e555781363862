"""The grid that a tile program has where its kernel is launched on another: that of its tiles (`TileProgram.tiles`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from twill.kernel.problem import Case, ProblemTable
from twill.manifest.tile_loop import TileLoop, instance_grid
from twill.tile.program import TileProgram


@dataclass(frozen=True)
class InstanceProblem(ProblemTable):
    """A problem whose cases have the grid of instances."""

    tiles: TileLoop | None = None

    def case(self, sizes: Mapping[str, int]) -> Case:
        """As `ProblemTable.case`. Raises MalformedSidecar also for a grid that leaves tiles out."""
        made = super().case(sizes)
        try:
            return replace(made, grid=instance_grid(self.tiles, made.grid, made.scalars))
        except (ValueError, KeyError, ArithmeticError) as error:
            raise self._wrong(
                f"the grid {made.grid}: {error}", "a grid whose programs reach every tile once"
            ) from error


def of_instances(program: TileProgram, problem: ProblemTable) -> ProblemTable:
    """The problem with the grid of the program's instances."""
    if program.tiles is None or isinstance(problem, InstanceProblem):
        return problem
    return InstanceProblem(**{one.name: getattr(problem, one.name) for one in fields(problem)}, tiles=program.tiles)


def instance_case(program: TileProgram, case: Case) -> Case:
    """The case with the grid of the program's instances. Errors: those of `instance_grid`."""
    return replace(case, grid=instance_grid(program.tiles, case.grid, case.scalars)) if program.tiles else case
