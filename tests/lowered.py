"""Tile programs with schedules of the quick strategy, for tests of what comes after the solver."""

from __future__ import annotations

from itertools import count

from tests.kernels import H100
from twill.codegen.lower import split_class
from twill.codegen.memory import Memory
from twill.codegen.plan import Plan
from twill.codegen.registers import Registers
from twill.codegen.rings import Rings
from twill.codegen.tiles import Tiles
from twill.graph.build import dependence_graph, wire
from twill.graph.program import TileProgram
from twill.options import SolveOptions
from twill.pipeline import solve
from twill.schedule import Schedule


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
