"""A machine as tables: every figure with its source."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from twill.machine.description import Figure, Machine
from twill.show.table import new_table


def machine_tables(machine: Machine) -> Iterator[Table]:
    """One table a part of the machine file."""
    yield general(machine)
    yield units(machine)
    yield operations(machine)
    if machine.mma:
        yield products(machine)
    yield transfers(machine)
    yield contexts(machine)
    if machine.emission:
        yield emission(machine)


def figures_table(title: str, *columns: str) -> Table:
    """A table that ends with a figure and its source; sources may take several lines."""
    table = new_table(title, (*columns, "value", "source"), ("value",))
    table.columns[-1].no_wrap = False
    table.columns[-1].overflow = "fold"
    return table


def source(figure: Figure) -> str:
    """The source, with the spread of what was measured."""
    return figure.source + (f" ({figure.spread[0]:g} to {figure.spread[1]:g})" if figure.spread else "")


def number(figure: Figure) -> str:
    """The value, without a needless `.0`."""
    return f"{figure.value:g}" if figure.value < 1e6 else f"{figure.value:.0f}"


def general(machine: Machine) -> Table:
    """Size, memories, register file, crossings."""
    table = figures_table(f"{machine.name}: {machine.title} ({machine.architecture})", "what")
    rows: list[tuple[str, Figure]] = [("SMs", machine.sms), ("clock, MHz", machine.clock_mhz)]
    rows += [("L2 cache, bytes", machine.l2)] if machine.l2 else []
    rows += [(f"{memory.name} memory, bytes", memory.bytes) for memory in machine.memories]
    rows += [("registers of an SM", machine.register_file.registers)]
    crossing = machine.crossing
    rows += [
        ("crossing by mbarrier, cycles", crossing.barrier),
        ("crossing by named barrier, cycles", crossing.named_barrier),
        ("register value to another group, cycles", crossing.spill_base),
        ("... and for each KiB", crossing.spill_per_kb),
    ]
    for what, figure in rows:
        table.add_row(what, number(figure), source(figure))
    return table


def emission(machine: Machine) -> Table:
    """What only emitted code depends on; the names are those of the machine file."""
    table = figures_table("emitted code", "what")
    for name in type(machine.emitting).model_fields:
        figure = getattr(machine.emitting, name)
        if figure is not None:
            table.add_row(name, number(figure), source(figure))
    return table


def units(machine: Machine) -> Table:
    """Functional units."""
    table = new_table("units", ("unit", "what it is"), ())
    table.columns[1].no_wrap = False
    for unit in machine.units:
        table.add_row(unit.name, unit.description)
    return table


def operations(machine: Machine) -> Table:
    """Elements a cycle of every operation class on every unit that it occupies."""
    table = figures_table("operations: elements a cycle on each unit, and latency in cycles", "operation", "on")
    for operation in machine.operations:
        name = operation.name
        for rate in operation.rates:
            table.add_row(name, rate.unit, number(rate.per_cycle), source(rate.per_cycle))
            name = ""
        table.add_row(name, "latency", number(operation.latency), source(operation.latency))
    return table


def products(machine: Machine) -> Table:
    """The tensor core instruction."""
    mma = machine.mma
    assert mma is not None
    table = figures_table(f"matrix products: {mma.instruction} on {mma.unit}", "what")
    for rate in mma.rates:
        table.add_row(f"{rate.dtype}, multiply-adds a cycle", number(rate.per_cycle), source(rate.per_cycle))
    table.add_row("latency, cycles", number(mma.latency), source(mma.latency))
    table.add_row("issue, cycles", number(mma.issue), source(mma.issue))
    return table


def transfers(machine: Machine) -> Table:
    """Data movements."""
    table = figures_table("transfers", "transfer", "what")
    for transfer in machine.transfers:
        rows = (
            (transfer.name, f"bytes a cycle on {transfer.unit}", transfer.bytes_per_cycle),
            ("", "latency, cycles", transfer.latency),
            ("", "issue, cycles", transfer.issue),
        )
        for name, what, figure in rows:
            table.add_row(name, what, number(figure), source(figure))
    return table


def contexts(machine: Machine) -> Table:
    """Kinds of warp group."""
    columns = ("context", "threads", "groups", "registers", "overhead", "source of the overhead")
    table = new_table("kinds of warp group (registers a thread)", columns, columns[1:5])
    table.columns[-1].no_wrap = False
    for c in machine.contexts:
        registers = f"{c.min_registers}..{c.max_registers}"
        groups = f"0..{c.max_groups}"
        table.add_row(c.name, str(c.threads), groups, registers, number(c.overhead), source(c.overhead))
    return table
