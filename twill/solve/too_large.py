"""Loops whose tiles have no room whatever their schedule, found without a solver."""

from __future__ import annotations

from twill import exc
from twill.graph.cooperation import cooperations
from twill.graph.cost import cost
from twill.graph.dependence import DependenceGraph
from twill.machine.description import Machine
from twill.smt.explain import slots_of_tiles
from twill.solve.candidates import most_width
from twill.solve.regions import main_region, schedulable

SPACES = ("shared", "tmem")


def refuse_too_large(graph: DependenceGraph, machine: Machine) -> None:
    """Raises Infeasible where one slot of each tile of a loop is more than a memory has, in however many row
    blocks. Values of a kernel without matrix multiplies may be in the registers of more threads: nothing is said."""
    main = main_region(graph)
    if most_width(main) > 1:
        return
    whys: list[tuple[str, int]] = []
    for cooperation in cooperations(graph, main, machine):
        loops = [(region, cost(graph, region, machine, cooperation)) for region in schedulable(graph)]
        said = [(slots_of_tiles(loop, machine, space), region.line) for region, loop in loops for space in SPACES]
        full = next(((why, line) for (why, beyond), line in said if beyond), None)
        if full is None:
            return
        whys.append(full)
    if whys:
        why, line = whys[0]
        what = f"{graph.kernel} has no schedule on {machine.name}: {why}"
        raise exc.Infeasible(what, file=graph.file, line=line, hint="smaller tiles")
