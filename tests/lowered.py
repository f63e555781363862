"""Tile programs with schedules of the quick strategy, for tests of what comes after the solver."""

from __future__ import annotations

from itertools import count

from tests.kernels import H100
from twill.codegen.lower.memory import Memory
from twill.codegen.lower.plan import Plan
from twill.codegen.lower.registers import Registers
from twill.codegen.lower.rings import Rings
from twill.codegen.lower.streams import split_class
from twill.codegen.lower.tiles import Tiles
from twill.graph.build import dependence_graph, wire
from twill.schedule.document import Schedule
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.tile.program import TileProgram


def scheduled(program: TileProgram, blocks: int = 1) -> Schedule:
    """A schedule by list scheduling, in that many row blocks."""
    return solve(dependence_graph(program), H100, SolveOptions(strategy="heuristic", blocks=blocks, fuse=False))


def planned(program: TileProgram, blocks: int = 1) -> Rings:
    """Tasks and rings of a program."""
    wired, schedule = wire(program), scheduled(program, blocks)
    tiles = Tiles(wired, split_class(wired, schedule), schedule.cooperation.split)
    return Rings(Plan(wired, schedule, H100, tiles), Memory(program.file))


def registers_of(plan: Plan, group: int) -> Registers:
    """The variables of one warp group, before any."""
    return Registers(plan, group, count())
