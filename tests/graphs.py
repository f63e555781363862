"""Small builders of costed graphs, for tests that need a particular shape."""

from __future__ import annotations

from typing import Literal

from tests.strategies import make_graph, make_machine
from twill.graph.build import dependence_graph
from twill.graph.cooperation import cooperations
from twill.graph.cost import cost
from twill.graph.costed import CostedEdge, CostedGraph, CostedValue, Instruction, Read, Use
from twill.machine.description import Machine
from twill.tile.program import TileProgram


def instruction(
    number: int,
    *uses: tuple[str, int],
    latency: int | None = None,
    hold: int | None = None,
    contexts: tuple[str, ...] = ("compute",),
    asynchronous: bool = False,
    variable: bool = False,
    issuer: str = "",
) -> Instruction:
    """Instruction `number` at line 10 + number, with (unit, cycles) uses from its start.

    Its latency and hold are the longest use unless they are given.
    """
    busy = max([cycles for _, cycles in uses], default=1)
    return Instruction(
        id=number,
        name=f"v{number}",
        op="op",
        unit=uses[0][0] if uses else "",
        line=10 + number,
        block=-1,
        uses=tuple(Use(unit=unit, start=0, cycles=cycles) for unit, cycles in uses),
        latency=busy if latency is None else latency,
        hold=(1 if asynchronous else busy) if hold is None else hold,
        asynchronous=asynchronous,
        variable_latency=variable,
        contexts=contexts,
        single_issuer=issuer,
    )


def edge(src: int, dst: int, delay: int, distance: int = 0, crossing: int = 0) -> CostedEdge:
    """A value edge."""
    return CostedEdge(src=src, dst=dst, delay=delay, distance=distance, crossing=crossing, kind="value")


def value(
    producer: int,
    *reads: tuple[int, int],
    space: Literal["register", "shared", "tmem"] = "register",
    size: int = 0,
) -> CostedValue:
    """The value of `producer` with (reader, distance) reads; `size` in bytes, or registers."""
    return CostedValue(
        id=producer,
        name=f"x{producer}",
        line=10 + producer,
        block=-1,
        producer=producer,
        space=space,
        bytes=0 if space == "register" else size,
        registers=size if space == "register" else 0,
        reads=tuple(Read(reader=reader, distance=distance) for reader, distance in reads),
        spill=0,
    )


def graph(
    instructions: tuple[Instruction, ...],
    edges: tuple[CostedEdge, ...] = (),
    values: tuple[CostedValue, ...] = (),
    machine: Machine | None = None,
) -> CostedGraph:
    """A loop of these parts."""
    return make_graph(machine or make_machine(), instructions, edges, values, (), ())


def costed(program: TileProgram, machine: Machine, *, split: int = 1, fuse: int = 1) -> CostedGraph:
    """The main loop of a tile program, costed under one cooperation."""
    dependences = dependence_graph(program)
    loop = next(region for region in dependences.regions if region.kind == "loop")
    chosen = next(c for c in cooperations(dependences, loop, machine) if (c.split, c.fuse) == (split, fuse))
    return cost(dependences, loop, machine, chosen)
