"""Small random problems: costed graphs with the machines they are to be scheduled on.

Numbers are small and capacities tight, so that every rule of docs/model.md binds now and then.
Graphs are well formed: instructions are numbered from 0, every read has a value edge, and no
cycle of edges has distance 0.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

from hypothesis import strategies as st

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
from twill.machine.description import Context, Crossing, Figure, Machine, Memory, RegisterFile, Unit

UNITS = ("tensor", "alu", "tma")
SPACES: tuple[Literal["register", "shared", "tmem"], ...] = ("register", "shared", "tmem")


one_of = cache(st.sampled_from)
"""Strategies that are made once: hypothesis looks each new one through before it draws from it."""


def figure(value: float) -> Figure:
    """A number that no document vouches for."""
    return Figure(value=value, source="made up for a test")


def make_machine(
    *,
    shared: int = 256,
    tmem: int = 128,
    compute_groups: int = 2,
    max_registers: int = 64,
    overhead: int = 4,
    register_file: int = 65536,
    interleaved: tuple[str, ...] = (),
) -> Machine:
    """A machine with the units of `UNITS`, contexts "compute" and "load", and these limits."""
    contexts = (
        Context(
            name="compute",
            threads=128,
            max_groups=compute_groups,
            min_registers=8,
            max_registers=max_registers,
            overhead=figure(overhead),
        ),
        Context(name="load", threads=32, max_groups=1, min_registers=8, max_registers=16, overhead=figure(4)),
    )
    return Machine(
        name="tiny",
        title="A machine for tests",
        architecture="sm_00",
        sms=figure(1),
        clock_mhz=figure(1),
        units=tuple(Unit(name=name, description="", interleaved=name in interleaved) for name in UNITS),
        operations=(),
        mma=None,
        transfers=(),
        memories=(Memory(name="shared", bytes=figure(shared)), Memory(name="tmem", bytes=figure(tmem))),
        contexts=contexts,
        register_file=RegisterFile(registers=figure(register_file), granule=8),
        crossing=Crossing(barrier=figure(1), named_barrier=figure(1), spill_base=figure(1), spill_per_kb=figure(1)),
    )


def make_graph(
    machine: Machine,
    instructions: tuple[Instruction, ...],
    edges: tuple[CostedEdge, ...] = (),
    values: tuple[CostedValue, ...] = (),
    storages: tuple[Storage, ...] = (),
    invariants: tuple[Invariant, ...] = (),
    region: int = 1,
) -> CostedGraph:
    """A loop's costed graph for `machine`, neither split nor fused."""
    return CostedGraph(
        name="kernel",
        line=10 * region,
        region=region,
        machine=machine.name,
        machine_digest=machine.digest(),
        cooperation=Cooperation(dim="", split=1, fuse=1),
        instructions=instructions,
        edges=edges,
        values=values,
        storages=storages,
        invariants=invariants,
        interleaved=tuple(unit.name for unit in machine.units if unit.interleaved),
    )


@cache
def readers_of(count: int) -> st.SearchStrategy[list[int]]:
    """Up to two of so many instructions."""
    return st.lists(one_of(range(count)), max_size=2, unique=True)


@cache
def machines() -> st.SearchStrategy[Machine]:
    """Machines whose capacities often bind and sometimes do not."""
    return st.builds(
        make_machine,
        shared=one_of((64, 96, 160, 1024)),
        tmem=one_of((0, 64, 1024)),
        compute_groups=st.integers(1, 2),
        max_registers=one_of((16, 24, 64)),
        overhead=one_of((0, 3, 8)),
        register_file=one_of((128 * 16 + 32 * 8, 128 * 40, 65536)),
        interleaved=one_of(((), (), ("alu",))),
    )


def instruction(draw: st.DrawFn, number: int, most_cycles: int) -> Instruction:
    """A matrix product, a chain of elementwise operations, or a load."""
    kind = draw(one_of(("product", "chain", "chain", "load")))
    latency = draw(st.integers(1, most_cycles))
    asynchronous = kind != "chain"
    hold = draw(st.integers(0, 1)) if asynchronous else draw(st.integers(1, latency))
    unit = {"product": "tensor", "chain": "alu", "load": "tma"}[kind]
    uses = [Use(unit=unit, start=0, cycles=draw(st.integers(1, latency)))]
    if kind == "chain" and draw(st.integers(0, 3)) == 0:
        uses.append(Use(unit="tensor", start=draw(st.integers(0, latency - 1)), cycles=1))
    contexts = {
        "product": ("compute",),
        "chain": draw(one_of((("compute",), ("compute", "load")))),
        "load": draw(one_of((("load",), ("compute", "load")))),
    }[kind]
    return Instruction(
        id=number,
        name=f"{kind}{number}",
        op=kind,
        unit=unit,
        line=11 + number,
        block=-1,
        uses=tuple(uses),
        latency=latency,
        hold=hold,
        asynchronous=asynchronous,
        variable_latency=kind == "load" and draw(st.integers(0, 2)) > 0,
        contexts=contexts,
        single_issuer="product" if kind == "product" and draw(st.booleans()) else "",
        source=number,
    )


def value_of(draw: st.DrawFn, producer: Instruction, reads: tuple[Read, ...]) -> CostedValue:
    """What an instruction makes, somewhere in the machine, not in place."""
    space: Literal["register", "shared", "tmem"] = "shared"
    if producer.op != "load":
        space = draw(one_of(("register", "register", "shared", "tmem")))
    return CostedValue(
        id=producer.id,
        name=f"value{producer.id}",
        line=producer.line,
        block=-1,
        producer=producer.id,
        space=space,
        bytes=0 if space == "register" else draw(one_of((16, 32, 64))),
        registers=draw(one_of((0, 2, 5, 8))) if space == "register" else 0,
        reads=reads,
        spill=draw(one_of((0, 0, 1, 2))) if space == "register" else 0,
    )


def costed_graph(draw: st.DrawFn, machine: Machine, most_instructions: int, most_cycles: int) -> CostedGraph:
    """A loop of 1 to `most_instructions` instructions of up to `most_cycles` cycles each."""
    count = draw(st.integers(1, most_instructions))
    ops = tuple(instruction(draw, number, most_cycles) for number in range(count))
    edges: list[CostedEdge] = []
    values: list[CostedValue] = []
    for producer in ops:
        reads: list[Read] = []
        for reader in draw(readers_of(count)):
            least = 0 if reader > producer.id else 1
            distance = draw(one_of((least, least, least, least + 1)))
            reads.append(Read(reader=reader, distance=distance))
            edges.append(
                CostedEdge(
                    src=producer.id,
                    dst=reader,
                    delay=draw(one_of((producer.latency, producer.latency, producer.hold))),
                    distance=distance,
                    crossing=draw(one_of((0, 1, 3))),
                    kind="value",
                )
            )
        retained = draw(st.booleans())
        if reads or retained:
            values.append(value_of(draw, producer, tuple(reads)))
    for _ in range(draw(st.integers(0, 2)) if count > 1 else 0):
        src, dst = draw(st.permutations(range(count)))[:2]
        least = 0 if dst > src else 1
        edges.append(
            CostedEdge(
                src=src,
                dst=dst,
                delay=draw(st.integers(0, 2)),
                distance=draw(st.integers(least, 2)),
                crossing=draw(one_of((0, 1))),
                kind=draw(one_of(("anti", "memory"))),
            )
        )
    storages: list[Storage] = []
    if values and draw(st.integers(0, 2)) == 0:
        index = draw(st.integers(0, len(values) - 1))
        updated = values[index]
        storages.append(
            Storage(
                id=0,
                name=f"storage of {updated.name}",
                line=updated.line,
                block=-1,
                space=updated.space,
                bytes=updated.bytes,
                registers=updated.registers,
            )
        )
        values[index] = updated.model_copy(update={"storage": 0})
    invariants: list[Invariant] = []
    if draw(st.integers(0, 3)) == 0:
        space = draw(one_of(("register", "shared")))
        readers = draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=2, unique=True))
        invariants.append(
            Invariant(
                id=0,
                name="scale",
                line=5,
                block=-1,
                space=space,
                bytes=16 if space == "shared" else 0,
                registers=3 if space == "register" else 0,
                readers=tuple(readers),
            )
        )
    return make_graph(machine, ops, tuple(edges), tuple(values), tuple(storages), tuple(invariants))


@st.composite
def problems(draw: st.DrawFn, most_instructions: int = 6, most_cycles: int = 6) -> tuple[CostedGraph, Machine]:
    """A machine and a graph costed for it."""
    machine = draw(machines())
    return costed_graph(draw, machine, most_instructions, most_cycles), machine
