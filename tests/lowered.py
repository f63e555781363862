"""Tile programs with schedules of the quick strategy, for tests of what comes after the solver."""

from __future__ import annotations

from itertools import count

from tests.kernels import H100
from twill.codegen.lower.assign import assign
from twill.codegen.lower.candidates import candidates
from twill.codegen.lower.place import place
from twill.codegen.lower.placement import Placement
from twill.codegen.lower.plan import LoweringPlan
from twill.codegen.lower.registers import Registers
from twill.codegen.lower.streams import split_class
from twill.codegen.lower.tiles import TileLayouts
from twill.codegen.lower.values import shared_values
from twill.codegen.targets.base import target_of
from twill.graph.build import Wired, dependence_graph, wire
from twill.machine.description import Machine
from twill.schedule.document import Schedule
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.tile.program import TileProgram


def scheduled(program: TileProgram, blocks: int = 1) -> Schedule:
    """A schedule by list scheduling, in that many row blocks."""
    return solve(dependence_graph(program), H100, SolveOptions(strategy="heuristic", blocks=blocks, fuse=False))


def plan_of(wired: Wired, schedule: Schedule, machine: Machine = H100) -> LoweringPlan:
    """The plan of the first candidate that is not refused."""
    tiles = TileLayouts(wired, target_of(machine), split_class(wired, schedule), schedule.cooperation.split)
    for candidate in candidates(wired.program, schedule, machine):
        plan = assign(wired, tiles, schedule, machine, candidate)
        if isinstance(plan, LoweringPlan):
            return plan
    raise AssertionError("one without ping-pong is never refused")


def planned(program: TileProgram, blocks: int = 1) -> Placement:
    """Tasks and rings of a program."""
    return place(plan_of(wire(program), scheduled(program, blocks)))


def registers_of(plan: LoweringPlan, group: int) -> Registers:
    """The variables of one warp group, before any."""
    return Registers(plan, shared_values(plan, group), count())
