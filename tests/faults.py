"""One good schedule, small enough to follow by hand, and ways to spoil its document."""

from __future__ import annotations

from collections.abc import Callable

from tests.documents import assemble
from tests.rules import Plan
from tests.strategies import make_graph, make_machine
from twill.graph.costed import CostedEdge, CostedGraph, CostedValue, Instruction, Invariant, Read, Storage, Use
from twill.machine.description import Machine
from twill.schedule.checker.check import check
from twill.schedule.document import Schedule

MACHINE = make_machine()
LOAD, SCORES, SOFTMAX, OUTPUT, SCALE = range(5)


def instruction(
    number: int,
    name: str,
    unit: str,
    cycles: int,
    latency: int,
    hold: int,
    context: str = "compute",
    issuer: str = "",
) -> Instruction:
    return Instruction(
        id=number,
        name=name,
        op=name,
        unit=unit,
        line=11 + number,
        block=-1,
        uses=(Use(unit=unit, start=0, cycles=cycles),),
        latency=latency,
        hold=hold,
        asynchronous=unit != "alu",
        variable_latency=unit == "tma",
        contexts=(context,),
        single_issuer=issuer,
    )


def edge(src: int, dst: int, delay: int, crossing: int, distance: int = 0) -> CostedEdge:
    return CostedEdge(src=src, dst=dst, delay=delay, distance=distance, crossing=crossing, kind="value")


def value(
    number: int, name: str, space: str, size: int, reads: tuple[int, ...], producer: int, spill: int = 0
) -> CostedValue:
    return CostedValue(
        id=number,
        name=name,
        line=11 + producer,
        block=-1,
        producer=producer,
        space=space,  # type: ignore[arg-type]
        bytes=0 if space == "register" else size,
        registers=size if space == "register" else 0,
        reads=tuple(Read(reader=reader, distance=0) for reader in reads),
        spill=spill,
    )


def attention() -> CostedGraph:
    """A load, two products and a softmax whose row maximum another warp group needs; one invariant."""
    return make_graph(
        MACHINE,
        (
            instruction(LOAD, "k", "tma", 2, 5, 1, "load"),
            instruction(SCORES, "qk", "tensor", 2, 3, 1, issuer="mma"),
            instruction(SOFTMAX, "p", "alu", 3, 3, 3),
            instruction(OUTPUT, "acc", "tensor", 2, 3, 1, issuer="mma"),
            instruction(SCALE, "alpha", "alu", 1, 1, 1),
        ),
        (
            edge(LOAD, SCORES, 5, 1),
            edge(SCORES, SOFTMAX, 3, 2),
            edge(SOFTMAX, OUTPUT, 3, 2),
            edge(SOFTMAX, SCALE, 3, 3),
            edge(OUTPUT, OUTPUT, 3, 0, distance=1),
        ),
        (
            value(0, "k", "shared", 64, (SCORES,), LOAD),
            value(1, "qk", "register", 8, (SOFTMAX,), SCORES),
            value(2, "p", "register", 4, (OUTPUT,), SOFTMAX),
            value(3, "m", "register", 1, (SCALE,), SOFTMAX, spill=2),
            value(4, "acc", "register", 16, (), OUTPUT).model_copy(
                update={"storage": 0, "reads": (Read(reader=OUTPUT, distance=1),)}
            ),
        ),
        (Storage(id=0, name="acc", line=14, block=-1, space="register", bytes=0, registers=16),),
        (Invariant(id=0, name="q", line=5, block=-1, space="shared", bytes=64, registers=0, readers=(SCORES,)),),
    )


# Warp groups: 0 loads, 1 multiplies and exponentiates, 2 rescales.
PLAN = Plan(8, (0, 6, 9, 16, 15), (0, 1, 1, 1, 2), ("load", "compute", "compute"))
BUDGETS = (8, 40, 8)


def good() -> Schedule:
    return assemble(attention(), MACHINE, PLAN, BUDGETS)


def rules(schedule: Schedule, machine: Machine = MACHINE) -> set[str]:
    """The rules that the checker finds broken."""
    return {item.rule for item in check(schedule, machine)}


Fault = Callable[[Schedule], Schedule]


def top(**fields: object) -> Fault:
    return lambda schedule: schedule.model_copy(update=fields)


def op(number: int, **fields: object) -> Fault:
    def fault(schedule: Schedule) -> Schedule:
        ops = tuple(o.model_copy(update=fields) if o.id == number else o for o in schedule.ops)
        return schedule.model_copy(update={"ops": ops})

    return fault


def buffer(number: int, **fields: object) -> Fault:
    def fault(schedule: Schedule) -> Schedule:
        every = list(schedule.buffers)
        every[number] = every[number].model_copy(update=fields)
        return schedule.model_copy(update={"buffers": tuple(every)})

    return fault


def group(number: int, **fields: object) -> Fault:
    def fault(schedule: Schedule) -> Schedule:
        every = list(schedule.warp_groups)
        every[number] = every[number].model_copy(update=fields)
        return schedule.model_copy(update={"warp_groups": tuple(every)})

    return fault


def loop(**fields: object) -> Fault:
    """The only loop's figures, and those of the top with them."""

    def fault(schedule: Schedule) -> Schedule:
        shared = {name: new for name, new in fields.items() if name in Schedule.model_fields}
        changed = schedule.loops[0].model_copy(update=fields)
        return schedule.model_copy(update={**shared, "loops": (changed,)})

    return fault


def goal(**fields: object) -> Fault:
    return lambda s: loop(objective=s.objective.model_copy(update=fields))(s)


def proof(**fields: object) -> Fault:
    return lambda s: loop(certificate=s.certificate.model_copy(update=fields))(s)


def bound(**fields: int) -> Fault:
    return lambda s: proof(bounds=s.certificate.bounds.model_copy(update=fields))(s)


def in_graph(**fields: object) -> Fault:
    return lambda s: loop(graph=s.loops[0].graph.model_copy(update=fields))(s)
