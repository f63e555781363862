"""A tile program as the target of a machine takes it: what is solved for that machine, and what is lowered."""

from __future__ import annotations

from dataclasses import replace

from twill import exc
from twill.codegen.targets.base import target_of
from twill.graph.build import dependence_graph
from twill.graph.dependence import DependenceGraph
from twill.machine.description import Machine
from twill.tile.program import TileProgram
from twill.tile.rewrite.integer_products import whole_integers
from twill.tile.rewrite.operand_order import multiply_in_quads
from twill.tile.rewrite.precision import split_mmas
from twill.tile.rewrite.repeated_rows import repeat_rows
from twill.tile.rewrite.separate_sums import separate_sums
from twill.tile.rewrite.short_products import transpose_short
from twill.tile.rewrite.straight_products import put_products_in_loops


def program_on(program: TileProgram, machine: Machine, integers: bool = True) -> TileProgram:
    """Where results are in tensor memory, with every product in a loop, none that adds to what threads have, none of
    too few rows, none of 8 bits that threads compute, and those of int8 as such; elsewhere with columns of such an
    operand where threads have them. The program itself where nothing changes, or if no code is made for the machine.
    integers: whether what is printed has products of int8."""
    try:
        target = target_of(machine)
    except exc.NoTarget:
        return program
    if not target.has_tensor_memory:
        made = multiply_in_quads(program)
        return made if made is program else replace(made, original=program.original or program)
    made = split_mmas(program, computed=False)
    if integers and target.mma is not None and target.mma.integers:
        made = whole_integers(made, target.contracted("i8"))
    made = transpose_short(separate_sums(made), target.has_rows)
    made = put_products_in_loops(repeat_rows(made, target.tensor_rows))
    return made if made is program else replace(made, original=program.original or program)


def graph_on(program: TileProgram, graph: DependenceGraph, machine: Machine) -> DependenceGraph:
    """The dependence graph of that. graph: of the program as it is."""
    made = program_on(program, machine)
    return graph if made is program else dependence_graph(made)
