"""The schedule: the one document that is solved for, stored, sent, cached, checked and drawn.

Times are cycles from the start of one iteration (integers); a row is a time modulo I, a stage
a time divided by I. The top-level `ii`, `length`, `copies`, `ops`, ... describe the whole
kernel: `ii`, `length`, `copies`, `objective` and `certificate` are those of the main loop, the
one with the most work; `loops` has every loop's own, and each op, buffer names its loop.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from twill.document import Document
from twill.graph.costed import Cooperation, CostedGraph, Normalization

Verdict = Literal["optimal", "feasible", "infeasible", "bound", "unknown"]
INSTANCES = "program instances"  # the trip count of straight-line code, which is repeated for nothing else
Strategy = Literal["joint", "paper", "heuristic", "none"]


class ScheduledOp(Document):
    """One scheduled tile instruction. start = stage * ii + row."""

    id: int  # instruction id within its loop's costed graph
    loop: int  # Region.id
    name: str
    op: str
    unit: str
    line: int
    block: int
    start: int
    stage: int
    row: int
    warp_group: int
    cycles: int  # latency: until its result can be read
    hold: int


class ScheduledWarpGroup(Document):
    """A warp group, its role in words ("load", "mma", "consumer 0", "softmax 0", "correction"),
    the machine context it is of, its register budget per thread and number of threads."""

    id: int
    role: str
    context: str
    registers: int
    threads: int


class ScheduledBuffer(Document):
    """A ring of `depth` slots of `bytes` each (depth 1, resident: storages and invariants)."""

    name: str
    loop: int
    space: Literal["shared", "tmem"]
    bytes: int
    depth: int
    block: int = -1  # row block, -1 if shared by all


class Objective(Document):
    """The objectives in their order; each is minimal given the ones before it (if proven)."""

    ii: int
    copies: int
    crossing: int  # summed crossing cycles of all value edges between warp groups
    length: int
    registers: int  # summed budgets, registers per thread, over warp groups
    proven: tuple[str, ...]  # names of those proven minimal, a prefix of the fields above


class SolverStep(Document):
    """One question put to a solver or bound, and its answer.

    `ii` and `ii_to`: the closed range of initiation intervals asked about. `copies`: 0 = any.
    """

    ii: int
    ii_to: int
    copies: int
    question: str  # "feasible", "copies <= 2", "crossing <= 180", "length <= 4101", ...
    verdict: Verdict
    solver: str  # "z3 5.4.0", or the bound's name
    seconds: float


class Bounds(Document):
    """Lower bounds on I in cycles; the witness names the instructions or cycle that give it."""

    resource: int
    recurrence: int
    memory: int
    issue: int
    witness: str

    @property
    def best(self) -> int:
        """The largest of them."""
        return max(self.resource, self.recurrence, self.memory, self.issue, 1)


class Certificate(Document):
    """Why no better schedule exists: bounds, and the verdict of every step of the search."""

    bounds: Bounds
    steps: tuple[SolverStep, ...]
    optimal: bool
    lower_bound: int  # proven lower bound on I
    seed: int
    resource_limit: int  # deterministic solver budget per step, 0 = none
    budget_seconds: float | None


class LoopSchedule(Document):
    """One loop's figures; ops and buffers of it carry the same `loop` id."""

    loop: int
    line: int
    trip: str
    ii: int
    length: int
    copies: int
    objective: Objective
    certificate: Certificate
    graph: CostedGraph


class CooperationCandidate(Document):
    """A cooperation that was considered and what became of it."""

    cooperation: Cooperation
    verdict: str  # "chosen", "dominated: I >= 1024 per instance", "infeasible: shared memory ..."
    ii: int | None


class Schedule(Document):
    """See the top of this file. `key` hashes canonical graph, machine, options.

    strategy: what made it (`twill.solve.strategies`); only "joint" can prove optimality.
    """

    schema_version: Literal["twill.schedule/1"] = Field(default="twill.schedule/1", alias="schema")
    kernel: str
    spec: str
    machine: str
    machine_digest: str
    cooperation: Cooperation
    normalization: Normalization | None
    ii: int
    length: int
    copies: int
    objective: Objective
    ops: tuple[ScheduledOp, ...]
    warp_groups: tuple[ScheduledWarpGroup, ...]
    buffers: tuple[ScheduledBuffer, ...]
    certificate: Certificate
    loops: tuple[LoopSchedule, ...]
    candidates: tuple[CooperationCandidate, ...]
    pins: tuple[str, ...]
    solve_seconds: float
    key: str
    strategy: Strategy = "joint"
