"""The described machine: units, throughputs, latencies, memories, warp groups, crossing costs.

A machine is one TOML file (`machines/*.toml`, installed as `twill.machines`, or a user's own)
whose every figure carries its source. This module holds the typed document and its look-ups;
`twill.machine.file` reads and validates the TOML. Units: cycles of the SM clock, bytes,
elements per cycle per SM, registers (32-bit) per thread.
"""

from __future__ import annotations

import math
from typing import Literal, TypeVar

from pydantic import Field

from twill import exc
from twill.document import Document, SparseDocument

Placement = Literal["register", "shared", "tmem"]


class Figure(SparseDocument):
    """A measured or documented number and where it comes from.

    spread: 5th and 95th percentile of what was measured, before `value` was rounded (None: no measurement of ours, and
    then it is no part of the canonical text).
    """

    value: float
    source: str
    spread: tuple[float, float] | None = None

    sparse = ("spread",)

    @property
    def whole(self) -> int:
        """The value of a figure that counts something."""
        return int(self.value)


class Unit(Document):
    """A functional unit of one SM that one instruction occupies at a time.

    interleaved: instructions take turns in it cycle by cycle (issue slots, the shared memory port),
    so that only their sum counts.
    """

    name: str
    description: str
    interleaved: bool = False


class Rate(Document):
    """An operation class occupies `unit` for elements / per_cycle cycles."""

    unit: str
    per_cycle: Figure


class OperationCost(Document):
    """An elementwise or reduction operation class such as "exp2.f32".

    `rates`: every unit it occupies (e.g. the MUFU pipe and the issue slots).
    """

    name: str
    rates: tuple[Rate, ...]
    latency: Figure  # pipeline depth in cycles, added once to a chain


class MmaRate(Document):
    """Dense multiply-adds per cycle per SM for one operand data type."""

    dtype: str
    per_cycle: Figure


class MmaInstruction(SparseDocument):
    """The tensor core instruction.

    shared_read: the unit that operands in shared memory pass through, in bytes per cycle (None: not described).
    scale_copy: the unit that scales of blocks pass through on their way to tensor memory, in bytes per cycle. pair:
    cycles by which an arrival at the other CTA of a pair is later; where it is described, two CTAs can make one product
    of twice the rows, each with half of B (None, and no part of the text: not described).
    source: of the instruction's form (row block, operand and accumulator placement, issuer).
    """

    instruction: str
    unit: str
    rates: tuple[MmaRate, ...]
    latency: Figure  # cycles after the unit is done until the result can be read
    issue: Figure  # cycles its warp group is held to issue one tile's worth
    contexts: tuple[str, ...]
    row_block: int  # rows of one instruction tile: row blocks are multiples of it
    accumulator: Placement
    a_spaces: tuple[Placement, ...]  # where operand A may live, preferred first
    b_spaces: tuple[Placement, ...]
    single_issuer: bool  # all of them must come from one warp group
    shared_read: Rate | None = None
    scale_copy: Rate | None = None
    pair: Figure | None = None
    source: str = ""

    sparse = ("scale_copy", "pair")


class Transfer(Document):
    """A data movement instruction: "tma_load", "tma_store", "tma_reduce", "copy_load",
    "plain_load", "plain_store", "register_to_shared", "shared_to_register", "tmem_load", "tmem_store"."""

    name: str
    unit: str
    bytes_per_cycle: Figure
    latency: Figure  # cycles from the end of the unit's work until the data can be read
    issue: Figure  # cycles its warp group is held (asynchronous); synchronous ones hold throughout
    contexts: tuple[str, ...]
    asynchronous: bool
    variable_latency: bool
    also: tuple[Rate, ...] = ()  # further units that it occupies, in bytes per cycle


class Memory(Document):
    """A capacity shared by all warp groups of one CTA: "shared", "tmem"."""

    name: Placement
    bytes: Figure


class Context(Document):
    """A kind of warp group. `overhead`: registers per thread not available to tile values.

    source: of its threads, number of groups and register limits.
    """

    name: str
    threads: int
    max_groups: int
    min_registers: int
    max_registers: int
    overhead: Figure
    source: str = ""


class RegisterFile(Document):
    """registers: of one SM. granule: budgets are multiples of it."""

    registers: Figure
    granule: int
    source: str = ""  # of the granule


class Crossing(Document):
    """What it costs that producer and consumer are in different warp groups, in cycles.

    barrier: mbarrier arrive to wait return. named_barrier: bar.arrive to bar.sync return.
    spill_base, spill_per_kb: register -> shared -> register for a value of that many KiB.
    """

    barrier: Figure
    named_barrier: Figure
    spill_base: Figure
    spill_per_kb: Figure


class EmissionFigures(Document):
    """What emitted code depends on beside the schedule; no schedule depends on any of it.

    reserved_shared: bytes of shared memory that the system keeps of each CTA. most_registers: of a thread, as register
    budgets count them. named_barriers: that a program can use. box: elements of one copy along an axis of a tensor map.
    under_load: latencies of a quiet memory that a ring covers. ring_slots: of a ring at most. spare_shared: bytes that
    rings leave. register_threads: of a CTA, that get registers at a time. threads, ctas: of one SM at most.
    spare_registers: of a thread beside its tiles, where CTAs share an SM. ordered: parts of I that warp groups must
    have to spare so that their matrix multiplies are ordered. cached: parts of the L2 cache that instances walked
    together may read. readers: SMs to a row of such instances, at least. streamed: bytes on their way to an SM that
    keep memory busy, of tiles that no other SM reads. rereads: parts of the L2 cache that hold what program instances
    read, until they read it again. passing: sizes of the L2 cache that a tensor has at most whose tiles leave it first
    where a launch reads them once (None: none do). multiplying: as under_load, of a loop that loads and multiplies and
    does nothing else (None: the same). memory_rate: bytes of such streamed tiles that reach each SM in a cycle of its
    highest clock when all SMs read some (None: not described).
    """

    reserved_shared: Figure
    most_registers: Figure
    named_barriers: Figure
    box: Figure
    under_load: Figure
    ring_slots: Figure
    spare_shared: Figure
    register_threads: Figure
    threads: Figure
    ctas: Figure
    spare_registers: Figure
    ordered: Figure
    cached: Figure
    readers: Figure
    streamed: Figure
    rereads: Figure
    passing: Figure | None = None
    multiplying: Figure | None = None
    memory_rate: Figure | None = None


NUMBERS = {"under_load", "multiplying", "ordered", "cached", "rereads", "passing", "memory_rate"}  # need not be whole


class LaunchFigures(Document):
    """What a launch takes beside its schedule, for the ranking of variants of one kernel (docs/tuning.md,
    "Families"); no schedule and no emitted code depends on any of it. Cycles of an SM at work.

    line_bytes: of the L2 cache's lines. line: cycles of an SM for each line of a tile that the TMA brings. port: bytes
    that reach an SM in a cycle. memory: bytes that memory gives all of them in a cycle. shown: part of the code around
    loops that is not hidden behind other instances. blend: exponent with which times of units that work side by side
    are added (1: one after the other; many: the longest). meeting: cycles for partial sums to meet, part: for those of
    each 4096 elements. cluster: cycles that CTAs of a cluster need to begin and to end together.
    """

    line_bytes: Figure
    line: Figure
    port: Figure
    memory: Figure
    shown: Figure
    blend: Figure
    meeting: Figure
    part: Figure
    cluster: Figure


class SimulationFigures(Document):
    """What an SM takes for what as its machine code is simulated, beyond what schedules know; no schedule and no
    emitted code depends on any of it. Cycles of an SM at work, bytes and multiply-adds a cycle.

    interval: a pipe of a scheduler takes an instruction every so many cycles. latency: until a scoreboard or a barrier
    says that it is over. queue: instructions that may wait for a pipe, or cycles of work for `port`, which is that of
    shared memory and shuffles. register: S2R and its like, constant: LDC, read: operands that are released later,
    branch: until the target issues. tensor: products in flight at most, cycles before and behind them, and what the
    dispatch of a scheduler and the MUFU take for an instruction while one is under way; multiply: of elements of 16
    bits, and the least time of one instruction. bulk: copies of the TMA, loads, stores and reductions,
    and until their registers have been read. arrive, wake, try: an arrival at an mbarrier, what it wakes, a wait for
    what is over. barrier: a named one, more where its number is in a register. fence: between proxies, one behind the
    other, and until the warp goes on.
    """

    alu_interval: Figure
    fma_interval: Figure
    special_interval: Figure
    special_latency: Figure
    special_queue: Figure
    double_interval: Figure
    double_latency: Figure
    uniform_interval: Figure
    register_latency: Figure
    constant_latency: Figure
    read_latency: Figure
    branch: Figure
    port_bytes: Figure
    port_interval: Figure
    port_queue: Figure
    shared_latency: Figure
    shuffle_latency: Figure
    global_latency: Figure
    global_bytes: Figure
    global_store_bytes: Figure
    tensor_queue: Figure
    tensor_start: Figure
    tensor_end: Figure
    tensor_dispatch: Figure
    tensor_special: Figure
    multiply_rate: Figure
    multiply_least: Figure
    bulk_load_bytes: Figure
    bulk_load_latency: Figure
    bulk_read: Figure
    bulk_store_bytes: Figure
    bulk_reduce_bytes: Figure
    bulk_store_latency: Figure
    arrive_latency: Figure
    wake_latency: Figure
    try_latency: Figure
    barrier_latency: Figure
    barrier_register: Figure
    fence_interval: Figure
    fence_latency: Figure


OPTIONAL_SECTIONS: dict[str, type[Document]] = {
    "emission": EmissionFigures, "launches": LaunchFigures, "simulation": SimulationFigures,
}  # fmt: skip
OPTIONAL = ("l2", *OPTIONAL_SECTIONS)
"""What a machine file need not have; no schedule depends on it."""


class Machine(SparseDocument):
    """One GPU as the solver sees it. `lookup` methods raise KeyError with the missing name."""

    schema_version: Literal["twill.machine/1"] = Field(default="twill.machine/1", alias="schema")
    name: str
    title: str
    architecture: str  # as the compiler calls it
    sms: Figure
    clock_mhz: Figure
    units: tuple[Unit, ...]
    operations: tuple[OperationCost, ...]
    mma: MmaInstruction | None
    transfers: tuple[Transfer, ...]
    memories: tuple[Memory, ...]
    contexts: tuple[Context, ...]
    register_file: RegisterFile
    crossing: Crossing
    l2: Figure | None = None  # bytes of the cache that all SMs share (None: not described, and no part of the text)
    emission: EmissionFigures | None = None  # the same: None if not described
    launches: LaunchFigures | None = None  # the same
    simulation: SimulationFigures | None = None  # the same

    sparse = OPTIONAL

    def digest(self) -> str:
        """SHA-256 of what schedules depend on: all but `OPTIONAL`."""
        return Document.digest(self.model_copy(update=dict.fromkeys(OPTIONAL)))

    @property
    def emitting(self) -> EmissionFigures:
        """What emitted code depends on. Raises NotForEmission."""
        if self.emission is None:
            raise exc.NotForEmission(self.name)
        return self.emission

    @property
    def simulating(self) -> SimulationFigures:
        """What the simulation of machine code depends on. Raises NotForSimulation."""
        if self.simulation is None:
            raise exc.NotForSimulation(self.name)
        return self.simulation

    def operation(self, name: str) -> OperationCost:
        """The operation class `name`."""
        return next_named(self.operations, name)

    def transfer(self, name: str) -> Transfer:
        """The data movement `name`."""
        return next_named(self.transfers, name)

    def context(self, name: str) -> Context:
        """The kind of warp group `name`."""
        return next_named(self.contexts, name)

    def capacity(self, space: str) -> int:
        """Bytes of memory `space`; 0 if the machine has none."""
        return next((int(m.bytes.value) for m in self.memories if m.name == space), 0)

    def spill_cycles(self, nbytes: int) -> int:
        """Cycles to move a register value of `nbytes` to another warp group."""
        kib = nbytes / 1024
        return math.ceil(self.crossing.spill_base.value + self.crossing.spill_per_kb.value * kib)


T = TypeVar("T", OperationCost, Transfer, Context)


def next_named(items: tuple[T, ...], name: str) -> T:
    """The item called `name`; KeyError if there is none."""
    for item in items:
        if item.name == name:
            return item
    raise KeyError(name)
