"""Register hazards of MMAs, on which ptxas serializes them, as constraints for the solver.

An MMA whose accumulator or operand A is in registers runs beside the instructions that follow it. ptxas serializes
all MMAs of a stretch of code in which something else writes such registers while any of them is in flight, even
registers of another MMA that is complete (its remarks C7513 and C7515): `quiet_pairs`. And an MMA writes the
same registers in every iteration, so that it can be issued again only when its last result has been read, or its
result would have to be moved, register by register: `one_result`.
"""

from __future__ import annotations

from twill.graph.costed import CostedEdge, CostedGraph, Instruction


def is_mma(instruction: Instruction) -> bool:
    """Whether it is an MMA of the tensor core: asynchronous, of a latency that is known."""
    return instruction.asynchronous and not instruction.variable_latency


def hazard_pairs(graph: CostedGraph) -> tuple[tuple[int, int], ...]:
    """(writer, MMA): instructions that must not be held in the time from an MMA's issue to its end, if both are
    in one warp group."""
    mmas = [i.id for i in graph.instructions if is_mma(i)]
    storages = {v.storage for v in graph.values if v.space == "register" and v.producer in mmas} - {None}
    writers = {
        v.producer
        for v in graph.values
        if v.space == "register"
        and not graph.instructions[v.producer].asynchronous
        and (v.storage in storages or any(read.reader in mmas for read in v.reads))
    }
    return tuple((writer, mma) for writer in sorted(writers) for mma in mmas)


def one_result(graph: CostedGraph) -> CostedGraph:
    """The graph in which an MMA with its result in registers waits for the readers of its last one."""
    made = []
    for value in graph.values:
        if value.space != "register" or value.storage is not None or not is_mma(graph.instructions[value.producer]):
            continue
        for read in value.reads:
            reader = graph.instructions[read.reader]
            read_end = reader.latency if reader.asynchronous else reader.hold
            again = 1 - read.distance
            made.append(
                CostedEdge(src=reader.id, dst=value.producer, delay=read_end, distance=again, crossing=0, kind="anti")
            )
    return graph.model_copy(update={"edges": (*graph.edges, *(e for e in made if e.distance >= 0))})


def awaited(graph: CostedGraph, edge: CostedEdge) -> bool:
    """Whether the edge is a wait for an MMA, of an instruction that is not asynchronous."""
    return is_mma(graph.instructions[edge.src]) and not graph.instructions[edge.dst].asynchronous
