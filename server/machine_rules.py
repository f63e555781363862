"""What a machine document from outside must hold to: what `twill machines check` asks of a machine file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from twill.exc import BadSubmission
from twill.machine.description import Figure, Machine, Rate

MOST = 1e15  # of any figure; cycles, bytes, registers and rates stay far below


def check_machine_document(machine: Machine) -> None:
    """Raise BadSubmission at the first thing that is wrong with a machine document."""
    for what, names in name_lists(machine):
        repeated(what, names)
    units = frozenset(unit.name for unit in machine.units)
    for where, unit in unit_names(machine):
        if unit not in units:
            raise wrong(f"{where} is of unit {unit!r}, which the machine does not have")
    contexts = frozenset(context.name for context in machine.contexts)
    for where, context in context_names(machine):
        if context not in contexts:
            raise wrong(f"{where} is of context {context!r}, which the machine does not have")
    for where, figure, zero in figures(machine):
        if not math.isfinite(figure.value) or not (0 if zero else 1e-9) <= figure.value <= MOST:
            raise wrong(f"{where} is {figure.value:g}, and not a {'number >= 0' if zero else 'positive number'}")
    for where, number in whole_numbers(machine):
        if not 1 <= number <= MOST:
            raise wrong(f"{where} is {number}, and not a positive number")
    for where, most in (("one context", machine.contexts), ("one unit", machine.units)):
        if not most:
            raise wrong(f"it has not even {where}")


def name_lists(machine: Machine) -> Iterator[tuple[str, list[str]]]:
    """Names that may appear once."""
    yield "units", [unit.name for unit in machine.units]
    yield "operations", [operation.name for operation in machine.operations]
    yield "transfers", [transfer.name for transfer in machine.transfers]
    yield "memories", [memory.name for memory in machine.memories]
    yield "contexts", [context.name for context in machine.contexts]


def rates(machine: Machine) -> Iterator[tuple[str, Rate]]:
    """Every rate with its place."""
    for operation in machine.operations:
        yield from ((f"a rate of {operation.name}", rate) for rate in operation.rates)
    for transfer in machine.transfers:
        yield from ((f"a rate of {transfer.name}", rate) for rate in transfer.also)
    if machine.mma is not None and machine.mma.shared_read is not None:
        yield "mma.shared_read", machine.mma.shared_read


def unit_names(machine: Machine) -> Iterator[tuple[str, str]]:
    """Every use of a unit's name."""
    yield from ((where, rate.unit) for where, rate in rates(machine))
    yield from ((transfer.name, transfer.unit) for transfer in machine.transfers)
    if machine.mma is not None:
        yield "mma", machine.mma.unit


def context_names(machine: Machine) -> Iterator[tuple[str, str]]:
    """Every use of a context's name."""
    for transfer in machine.transfers:
        yield from ((transfer.name, context) for context in transfer.contexts)
    if machine.mma is not None:
        yield from (("mma", context) for context in machine.mma.contexts)


def figures(machine: Machine) -> Iterator[tuple[str, Figure, bool]]:
    """Every figure with its place, and whether it may be zero."""
    yield "sms", machine.sms, False
    yield "clock_mhz", machine.clock_mhz, False
    if machine.l2 is not None:
        yield "l2", machine.l2, False
    yield from ((where, rate.per_cycle, False) for where, rate in rates(machine))
    yield from ((f"the latency of {operation.name}", operation.latency, True) for operation in machine.operations)
    for transfer in machine.transfers:
        yield f"bytes_per_cycle of {transfer.name}", transfer.bytes_per_cycle, False
        yield f"the latency of {transfer.name}", transfer.latency, True
        yield f"the issue of {transfer.name}", transfer.issue, True
    yield from ((f"the capacity of {memory.name}", memory.bytes, True) for memory in machine.memories)
    yield from ((f"the overhead of {context.name}", context.overhead, True) for context in machine.contexts)
    yield "the register file", machine.register_file.registers, False
    for name in ("barrier", "named_barrier", "spill_base", "spill_per_kb"):
        yield f"crossing.{name}", getattr(machine.crossing, name), True
    if machine.mma is not None:
        yield "mma.latency", machine.mma.latency, True
        yield "mma.issue", machine.mma.issue, True
        yield from ((f"mma.rates.{rate.dtype}", rate.per_cycle, False) for rate in machine.mma.rates)


def whole_numbers(machine: Machine) -> Iterator[tuple[str, int]]:
    """Every plain number with its place."""
    yield "register_file.granule", machine.register_file.granule
    for context in machine.contexts:
        yield f"{context.name}.threads", context.threads
        yield f"{context.name}.max_groups", context.max_groups
        yield f"{context.name}.min_registers", context.min_registers
        yield f"{context.name}.max_registers", context.max_registers
    if machine.mma is not None:
        yield "mma.row_block", machine.mma.row_block
        yield "the number of mma.a_spaces", len(machine.mma.a_spaces)


def repeated(what: str, names: Iterable[str]) -> None:
    """Refuse a name that appears twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise wrong(f"{name!r} appears twice among its {what}")
        seen.add(name)


def wrong(what: str) -> BadSubmission:
    """The error of a machine that contradicts itself."""
    return BadSubmission(
        f"the machine contradicts itself: {what}", hint="a document of `twill machines check`ed figures"
    )
