"""Schedules written by hand for tests of what is shown: attention forward on the H100.

The graph is a simplification of `examples/attention.py` (two row blocks of 64, costs rounded);
its schedule is a true one: `twill.schedule.checker.check` finds nothing against it, and 2048 cycles is what the
tensor cores need. Two consumer warp groups work in ping-pong beside a load warp.
"""

from __future__ import annotations

from functools import cache

from twill.graph.costed import (
    Cooperation,
    CostedEdge,
    CostedGraph,
    CostedValue,
    Instruction,
    Invariant,
    Read,
    Storage,
    Use,
)
from twill.machine.description import Machine
from twill.machine.file import load_machine
from twill.schedule.document import (
    Bounds,
    Certificate,
    CooperationCandidate,
    LoopSchedule,
    Objective,
    Schedule,
    ScheduledBuffer,
    ScheduledOp,
    ScheduledWarpGroup,
    SolverStep,
    Verdict,
)

LOOP = 1
SPLIT = Cooperation(dim="m", split=2, fuse=1)
CROSSING = 58

# name, operations, unit, line, uses, latency, hold, asynchronous
LOADS = (
    ("k", "tma_load", "tma", 21, (("tma", 456),), 916, 100),
    ("v", "tma_load", "tma", 34, (("tma", 456),), 916, 100),
)
BLOCK = (
    ("qk", "wgmma", "tensor", 22, (("tensor", 512),), 577, 100, True),
    ("m_ij", "reduce max mul max", "alu", 29, (("alu", 130),), 150, 150, False),
    ("p", "mul sub exp2", "mufu", 30, (("mufu", 512), ("fma", 64)), 540, 540, False),
    ("alpha", "sub exp2", "mufu", 31, (("mufu", 4),), 24, 24, False),
    ("l_ij", "reduce sum", "fma", 32, (("fma", 64),), 90, 90, False),
    ("l_i", "mul add", "fma", 32, (("fma", 1),), 8, 8, False),
    ("p_bf16", "cast", "alu", 35, (("alu", 64),), 70, 70, False),
    ("acc_scaled", "mul", "fma", 33, (("fma", 64),), 70, 70, False),
    ("acc", "wgmma", "tensor", 35, (("tensor", 512),), 577, 100, True),
)
K, V, FIRST = 0, 1, 2
QK, M, P, ALPHA, L_IJ, L, P16, SCALED, ACC = range(9)

# (producer, reader, distance) within a block
READS = (
    (QK, M, 0), (QK, P, 0), (M, M, 1), (M, P, 0), (M, ALPHA, 0), (M, ALPHA, 1), (P, L_IJ, 0), (P, P16, 0),
    (ALPHA, L, 0), (ALPHA, SCALED, 0), (L_IJ, L, 0), (L, L, 1), (ACC, SCALED, 1), (SCALED, ACC, 0), (P16, ACC, 0),
)  # fmt: skip
REGISTERS = {QK: 64, M: 1, P: 64, ALPHA: 1, L_IJ: 1, L: 1, P16: 32, SCALED: 64, ACC: 64}


def ident(block: int, member: int) -> int:
    """The instruction id of a member of `BLOCK`."""
    return FIRST + block * len(BLOCK) + member


def attention_graph(machine: Machine) -> CostedGraph:
    """The costed graph of the loop."""
    instructions = [
        Instruction(
            id=n, name=name, op=op, unit=unit, line=line, block=-1, uses=uses_of(uses), latency=latency, hold=hold,
            asynchronous=True, variable_latency=True, contexts=("issue",), source=n,
        )
        for n, (name, op, unit, line, uses, latency, hold) in enumerate(LOADS)
    ]  # fmt: skip
    edges: list[CostedEdge] = []
    values: list[CostedValue] = []
    for block in (0, 1):
        for member, (name, op, unit, line, uses, latency, hold, asynchronous) in enumerate(BLOCK):
            instructions.append(
                Instruction(
                    id=ident(block, member), name=name, op=op, unit=unit, line=line, block=block, uses=uses_of(uses),
                    latency=latency, hold=hold, asynchronous=asynchronous, variable_latency=False,
                    contexts=("compute",), source=FIRST + member,
                )
            )  # fmt: skip
    for load, member in ((K, QK), (V, ACC)):
        edges += [edge(instructions, load, ident(block, member), 0) for block in (0, 1)]
        reads = tuple(Read(reader=ident(block, member), distance=0) for block in (0, 1))
        values.append(
            CostedValue(
                id=load, name=LOADS[load][0], line=LOADS[load][3], block=-1, producer=load, space="shared",
                bytes=32768, registers=0, reads=reads, spill=0,
            )
        )  # fmt: skip
    for block in (0, 1):
        edges += [edge(instructions, ident(block, a), ident(block, b), d) for a, b, d in READS]
        for member, (name, _, _, line, *_) in enumerate(BLOCK):
            reads = tuple(Read(reader=ident(block, b), distance=d) for a, b, d in READS if a == member)
            values.append(
                CostedValue(
                    id=ident(block, member), name=name, line=line, block=block, producer=ident(block, member),
                    space="register", bytes=0, registers=REGISTERS[member], reads=reads,
                    spill=4 + REGISTERS[member] * 8, storage=block if member in (SCALED, ACC) else None,
                )
            )  # fmt: skip
    return CostedGraph(
        name="attention",
        line=20,
        region=LOOP,
        machine=machine.name,
        machine_digest=machine.digest(),
        cooperation=SPLIT,
        instructions=tuple(instructions),
        edges=tuple(edges),
        values=tuple(values),
        storages=tuple(
            Storage(id=b, name="acc", line=35, block=b, space="register", bytes=0, registers=64) for b in (0, 1)
        ),
        invariants=tuple(
            Invariant(
                id=b, name="q", line=56, block=b, space="shared", bytes=16384, registers=0, readers=(ident(b, QK),)
            )
            for b in (0, 1)
        ),
    )


def uses_of(uses: tuple[tuple[str, int], ...]) -> tuple[Use, ...]:
    """Reservation table rows that begin at issue."""
    return tuple(Use(unit=unit, start=0, cycles=cycles) for unit, cycles in uses)


def edge(instructions: list[Instruction], src: int, dst: int, distance: int) -> CostedEdge:
    """A value edge: the whole latency of the producer."""
    delay = instructions[src].latency
    return CostedEdge(src=src, dst=dst, delay=delay, distance=distance, crossing=CROSSING, kind="value")


II, LENGTH = 2048, 4111
STARTS = (
    0, 456,
    974, 1598, 1748, 2358, 2924, 3014, 2288, 2382, 2510,
    1998, 2582, 2732, 3362, 3272, 3526, 3456, 3386, 3534,
)  # fmt: skip
PROVEN = ("ii", "copies", "crossing", "length", "registers")


@cache
def attention_schedule() -> Schedule:
    """The schedule: two consumers of 192 registers, K and V in rings of two, tensor cores always busy."""
    machine = load_machine("h100")
    graph = attention_graph(machine)
    objective = Objective(ii=II, copies=3, crossing=232, length=LENGTH, registers=408, proven=PROVEN)
    certificate = Certificate(
        bounds=Bounds(resource=II, recurrence=781, memory=800, issue=1142, witness="tensor: qk 0, acc 0, qk 1, acc 1"),
        steps=(
            SolverStep(
                ii=1, ii_to=II - 1, copies=0, question="feasible", verdict="bound", solver="resource", seconds=0.0
            ),
            step(2, "feasible", "infeasible", 0.06),
            step(3, "feasible", "feasible", 0.72),
            step(3, "length <= 4110", "infeasible", 0.09),
            step(3, "registers <= 400", "infeasible", 0.23),
        ),
        optimal=True,
        lower_bound=II,
        seed=0,
        resource_limit=0,
        budget_seconds=None,
    )
    return Schedule(
        kernel="attention",
        spec="full",
        machine=machine.name,
        machine_digest=machine.digest(),
        cooperation=SPLIT,
        normalization=None,
        ii=II,
        length=LENGTH,
        copies=3,
        objective=objective,
        ops=tuple(op_of(i) for i in graph.instructions),
        warp_groups=(
            ScheduledWarpGroup(id=0, role="consumer 0", context="compute", registers=192, threads=128),
            ScheduledWarpGroup(id=1, role="consumer 1", context="compute", registers=192, threads=128),
            ScheduledWarpGroup(id=2, role="load", context="issue", registers=24, threads=128),
        ),
        buffers=(
            ScheduledBuffer(name="k", loop=LOOP, space="shared", bytes=32768, depth=2),
            ScheduledBuffer(name="v", loop=LOOP, space="shared", bytes=32768, depth=2),
            ScheduledBuffer(name="q", loop=LOOP, space="shared", bytes=16384, depth=1, block=0),
            ScheduledBuffer(name="q", loop=LOOP, space="shared", bytes=16384, depth=1, block=1),
        ),
        certificate=certificate,
        loops=(
            LoopSchedule(
                loop=LOOP, line=20, trip="cdiv(N_CTX, 128)", ii=II, length=LENGTH, copies=3, objective=objective,
                certificate=certificate, graph=graph,
            ),
        ),
        candidates=(
            CooperationCandidate(cooperation=SPLIT, verdict="chosen", ii=II),
            CooperationCandidate(
                cooperation=Cooperation(dim="", split=1, fuse=1),
                verdict="dominated: I >= 2216 (issue: qk, m_ij, p)",
                ii=None,
            ),
        ),
        pins=(),
        solve_seconds=2.4,
        key="0123456789abcdef" * 4,
    )  # fmt: skip


def op_of(instruction: Instruction) -> ScheduledOp:
    """The scheduled instruction."""
    start = STARTS[instruction.id]
    return ScheduledOp(
        id=instruction.id,
        loop=LOOP,
        name=instruction.name,
        op=instruction.op,
        unit=instruction.unit,
        line=instruction.line,
        block=instruction.block,
        start=start,
        stage=start // II,
        row=start % II,
        warp_group=2 if instruction.block < 0 else instruction.block,
        cycles=instruction.latency,
        hold=instruction.hold,
    )


def step(copies: int, question: str, verdict: Verdict, seconds: float) -> SolverStep:
    """What z3 was asked at the optimal I."""
    return SolverStep(
        ii=II, ii_to=II, copies=copies, question=question, verdict=verdict, solver="z3 5.4.0", seconds=seconds
    )
