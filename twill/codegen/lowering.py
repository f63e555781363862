"""Schedule + tile program -> warp program: streams, then passes, of the first candidate that has room."""

from __future__ import annotations

from twill import exc
from twill.codegen.lower.candidates import CandidateRefusal, LoweringCandidate, Recorder, candidates, search, unrecorded
from twill.codegen.lower.dynamic_scheduler import Order
from twill.codegen.lower.streams import streams
from twill.codegen.passes.pipeline import LOWERING, Watcher, run_passes
from twill.codegen.warp.program import WarpProgram
from twill.graph.build import Wired, wire
from twill.machine.description import Machine
from twill.schedule.document import Schedule
from twill.tile.program import TileProgram


def unwatched(name: str, made: WarpProgram) -> None:
    """The watcher of a caller who looks at no program in between."""


def lower(
    kernel: TileProgram | Wired,
    schedule: Schedule,
    machine: Machine,
    hold_operands: bool = True,
    order: Order = "chosen",
    cluster: int = 1,
    split_index_sets: bool = True,
    watch: Watcher = unwatched,
    record: Recorder = unrecorded,
) -> WarpProgram:
    """The warp program that does what a tile program does, as `schedule` says: of the first candidate that fits into
    shared memory; nothing is compiled. kernel: the program, with the graph that was solved if there is one. hold,
    split_index_sets: false leaves out the candidates with `registers` or `switches` (`twill.codegen.lower.candidates`).
    Otherwise as `lower_candidate`.

    Raises ScheduleMismatch, UnsupportedInKernel, SharedMemoryFull.
    """
    wired = kernel if isinstance(kernel, Wired) else wire(kernel)
    every = [
        candidate
        for candidate in candidates(wired.program, schedule, machine)
        if (hold_operands or not candidate.registers) and (split_index_sets or not candidate.switches)
    ]

    def attempt(candidate: LoweringCandidate) -> WarpProgram | CandidateRefusal:
        return lower_candidate(wired, schedule, machine, candidate, order, cluster, watch)

    return search(every, attempt, record)


def lower_candidate(
    wired: Wired,
    schedule: Schedule,
    machine: Machine,
    candidate: LoweringCandidate,
    order: Order,
    cluster: int,
    watch: Watcher = unwatched,
) -> WarpProgram | CandidateRefusal:
    """The warp program of one candidate. order: of program instances; dynamic where they have unequal trip counts or
    CTAs share an SM, unless said otherwise. cluster: CTAs that load tiles together (1 or 2); two know only a static
    order. watch: gets the program behind lowering (as "lowering") and behind every pass of
    `twill.codegen.passes.pipeline`.

    Raises what `lower` raises.
    """
    made = streams(wired, schedule, machine, candidate, order, cluster)
    if isinstance(made, CandidateRefusal):
        return made
    watch(LOWERING, made.program)
    return with_barriers(run_passes(made.program, made.choices, watch), machine)


def with_barriers(program: WarpProgram, machine: Machine) -> WarpProgram:
    """The program. Raises UnsupportedInKernel if the machine has fewer named barriers than it needs."""
    most = machine.emitting.named_barriers.whole
    if len(program.barriers) > most:
        raise exc.UnsupportedInKernel(f"more than {most} named barriers are needed", file=program.program.file)
    return program
