"""Loops whose tiles have no room whatever their schedule, found without a solver."""

from __future__ import annotations

from collections.abc import Iterator

from twill import exc
from twill.graph.cooperation import cooperations
from twill.graph.cost import cost
from twill.graph.costed import CostedGraph, Instruction
from twill.graph.dependence import DependenceGraph
from twill.machine.description import Machine
from twill.smt.explain import slots_of_tiles
from twill.solve.candidates import most_width
from twill.solve.regions import main_region, schedulable
from twill.zlp.relief import least_lacking

SPACES = ("shared", "tmem")


def refuse_too_large(graph: DependenceGraph, machine: Machine) -> None:
    """Raises Infeasible where one slot of each tile of a loop is more than a memory has, or the tiles that one
    instruction reads are more than the registers of a warp group, in however many row blocks. Values of a kernel
    without matrix multiplies may be in the registers of more threads: nothing is said."""
    main = main_region(graph)
    if most_width(main) > 1:
        return
    whys: list[tuple[str, int]] = []
    for cooperation in cooperations(graph, main, machine):
        loops = [(region, cost(graph, region, machine, cooperation)) for region in schedulable(graph)]
        said = [(slots_of_tiles(loop, machine, space), region.line) for region, loop in loops for space in SPACES]
        full = next(((why, line) for (why, beyond), line in said if beyond), None)
        full = full or next((found for _, loop in loops for found in beyond_registers(loop, machine)), None)
        if full is None:
            return
        whys.append(full)
    if whys:
        why, line = whys[0]
        what = f"{graph.kernel} has no schedule on {machine.name}: {why}"
        raise exc.Infeasible(what, file=graph.file, line=line, hint="smaller tiles")


def without_room(graph: DependenceGraph, machine: Machine) -> exc.UnsupportedInKernel:
    """What is said of a kernel whose tiles have no room even one iteration at a time, in any of the warp groups that
    are tried (which is no proof that there is no schedule): the loop that lacks the most registers, and how many, in
    the row blocks in which that is the least."""
    found: list[tuple[int, int]] = []
    for cooperation in cooperations(graph, main_region(graph), machine):
        loops = [(cost(graph, region, machine, cooperation), region.line) for region in schedulable(graph)]
        found.append(max((least_lacking(loop, machine), line) for loop, line in loops))
    lacking, line = min(found)
    room = f"{lacking} registers a thread" if lacking else "registers or shared memory"
    return exc.UnsupportedInKernel(
        f"the tiles of this loop lack {room} on {machine.name} even one iteration at a time",
        file=graph.file, line=line,
        hint="smaller tiles; or a schedule of `twill solve`, with a large --budget, by --schedule",
    )  # fmt: skip


def beyond_registers(loop: CostedGraph, machine: Machine) -> Iterator[tuple[str, int]]:
    """Instructions that read more registers than any warp group has that may issue them, in words, and their lines.

    What an instruction reads is there when it starts, in its warp group: made there, or in a landing place."""
    waits = {(edge.src, edge.dst, edge.distance): edge.delay for edge in loop.edges}
    for one in loop.instructions:
        read = [
            value
            for value in loop.values
            if value.space == "register" and value.registers and value.storage is None
            for at in value.reads
            if at.reader == one.id
            and waits.get((value.producer, one.id, at.distance), -1) >= _born(loop.instructions[value.producer])
        ]
        taken = sum(value.registers for value in {value.id: value for value in read}.values())
        most = max(
            (int(machine.context(name).max_registers - machine.context(name).overhead.value) for name in one.contexts),
            default=0,
        )
        if taken > most:
            names = ", ".join(dict.fromkeys(value.name for value in read))
            yield (
                f"{names}: {taken} registers a thread are read together, and a warp group has {most}",
                one.line,
            )


def _born(producer: Instruction) -> int:
    """Cycles from an instruction's start to the birth of its value in registers."""
    return 0 if producer.asynchronous else producer.hold
