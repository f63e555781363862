"""A stored schedule in the names and lines of the kernel that asks for it.

Two spellings of one kernel have one key (`twill.graph.canonical`), so an entry may have been solved for
other names and lines, or for operations in another order. Names and lines are put in the place of the
others; a schedule for another order is not translated: that kernel is solved for itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from twill.graph.cost import cost
from twill.graph.costed import Cooperation, CostedGraph, Instruction, Storage
from twill.graph.dependence import DependenceGraph
from twill.machine.description import Machine
from twill.schedule.checker.check import check
from twill.schedule.document import Certificate, LoopSchedule, Schedule, ScheduledBuffer
from twill.store.interface import Entry
from twill.store.rescaled import same_graph
from twill.zlp.bounds import lower_bounds

NAMES = {"kernel", "spec", "file", "name", "line", "operations", "transport_reason", "tensor", "text"}


def spelled(entry: Entry, graph: DependenceGraph, machine: Machine) -> Schedule | None:
    """The entry's schedule as one of `graph`; None if the entry is of another order, or of other pinned names.

    The entry is one that was read under the key of `graph` and `machine`.
    """
    if entry.graph is None:
        return entry.schedule if fits(entry.schedule, graph, machine) else None
    if entry.graph == graph:
        return entry.schedule
    if entry.schedule.pins or bare(entry.graph) != bare(graph):
        return None
    return renamed(entry.schedule, entry.graph, graph, machine)


def fits(schedule: Schedule, graph: DependenceGraph, machine: Machine) -> bool:
    """Whether an exact schedule's loops are those of `graph`, names and lines included."""
    regions = {region.id: region for region in graph.regions}
    return (schedule.kernel, schedule.spec) == (graph.kernel, graph.spec) and all(
        loop.loop in regions and cost(graph, regions[loop.loop], machine, schedule.cooperation) == loop.graph
        for loop in schedule.loops
    )


def bare(graph: DependenceGraph) -> Any:
    """The graph without its names and lines, its tensors numbered."""
    tensors = list(dict.fromkeys(node.tensor for region in graph.regions for node in region.nodes))

    def without(value: Any) -> Any:
        if isinstance(value, dict):
            retained = {key: without(item) for key, item in value.items() if key not in NAMES}
            return retained | {"tensor": tensors.index(value["tensor"])} if "tensor" in value else retained
        return [without(item) for item in value] if isinstance(value, list | tuple) else value

    return without(graph.model_dump())


def renamed(schedule: Schedule, old: DependenceGraph, new: DependenceGraph, machine: Machine) -> Schedule | None:
    """The schedule with the names and lines of `new`, which differs from `old` in nothing else."""
    dims = {before.name: after.name for before, after in zip(old.dims, new.dims, strict=True)}
    regions = {region.id: region for region in new.regions}
    cooperation = in_dims(schedule.cooperation, dims)
    loops: list[LoopSchedule] = []
    buffers: list[ScheduledBuffer] = []
    for loop in schedule.loops:
        exact = cost(new, regions[loop.loop], machine, cooperation)
        graph = named(loop.graph, exact)
        mine = [buffer for buffer in schedule.buffers if buffer.loop == loop.loop]
        names = list(buffer_names(exact))
        if not same_graph(exact, graph) or len(names) != len(mine):
            return None
        buffers += [b.model_copy(update={"name": name}) for b, name in zip(mine, names, strict=True)]
        trip = regions[loop.loop].trip
        loops.append(
            loop.model_copy(
                update={
                    "line": regions[loop.loop].line,
                    "trip": trip.text if trip else loop.trip,
                    "certificate": witnessed(loop.certificate, graph, machine),
                    "graph": graph,
                }
            )
        )
    main = next(n for n, loop in enumerate(schedule.loops) if loop.certificate == schedule.certificate)
    instructions = {(loop.loop, i.id): i for loop in loops for i in loop.graph.instructions}
    result = schedule.model_copy(
        update={
            "kernel": new.kernel,
            "spec": new.spec,
            "cooperation": cooperation,
            "ops": tuple(op.model_copy(update=people(instructions[op.loop, op.id])) for op in schedule.ops),
            "buffers": tuple(buffers),
            "certificate": loops[main].certificate,
            "loops": tuple(loops),
            "candidates": tuple(
                c.model_copy(update={"cooperation": in_dims(c.cooperation, dims)}) for c in schedule.candidates
            ),
        }
    )
    return None if check(result, machine) else result


def people(instruction: Instruction) -> dict[str, Any]:
    """What an instruction has for people."""
    return {"name": instruction.name, "op": instruction.op, "line": instruction.line}


def in_dims(cooperation: Cooperation, dims: dict[str, str]) -> Cooperation:
    """The cooperation along the dimension of another name."""
    return cooperation.model_copy(update={"dim": dims.get(cooperation.dim, cooperation.dim)})


def named(graph: CostedGraph, like: CostedGraph) -> CostedGraph:
    """A costed graph with the names and lines of another."""
    retained = [
        tuple(one.model_copy(update={"name": other.name, "line": other.line}) for one, other in pairs)
        for pairs in (
            zip(graph.values, like.values, strict=True),
            zip(graph.storages, like.storages, strict=True),
            zip(graph.invariants, like.invariants, strict=True),
        )
    ]
    pairs = zip(graph.instructions, like.instructions, strict=True)
    return graph.model_copy(
        update={
            "name": like.name,
            "line": like.line,
            "cooperation": like.cooperation,
            "instructions": tuple(one.model_copy(update=people(other)) for one, other in pairs),
            "values": retained[0],
            "storages": retained[1],
            "invariants": retained[2],
        }
    )


def buffer_names(graph: CostedGraph) -> Iterator[str]:
    """The names of a loop's buffers in their order (`twill.solve.assemble`)."""
    yield from (v.name for v in graph.values if v.space != "register" and v.storage is None)
    retained: tuple[Storage, ...] = (*graph.storages, *graph.invariants)
    yield from (r.name for r in retained if r.space != "register")


def witnessed(certificate: Certificate, graph: CostedGraph, machine: Machine) -> Certificate:
    """A certificate whose bounds have their witness in the words of `graph`."""
    bounds = lower_bounds(graph, machine)
    old = certificate.bounds.witness
    steps = tuple(s.model_copy(update={"question": s.question.replace(old, bounds.witness)}) for s in certificate.steps)
    return certificate.model_copy(update={"bounds": bounds, "steps": steps if old else certificate.steps})
