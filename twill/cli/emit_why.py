"""What `twill emit --why` says: promises that nobody made, cooperations and lowerings that were looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from twill.codegen.emission import Extracted
    from twill.codegen.lower.candidates import Attempt
    from twill.machine.description import Machine
    from twill.schedule.document import Schedule


def promised(kernel: Extracted, machine: Machine) -> Iterator[str]:
    """What promises of divisibility that nobody made would buy: a line for each tile that threads move without one. The
    code is right at any size without them."""
    from twill.graph.price import price_transfer
    from twill.graph.work import tile_bytes
    from twill.tile.access.promises import unpromised

    missing = [*unpromised(kernel.program)]
    if not missing:
        yield 'promises (":16" in a type): none is missing, every tile that the TMA can move goes by it'
        return
    yield 'promises (":16" in a type) that would bring a tile through the TMA, cycles of one tile:'
    for op, why in missing:
        access, way = op.access, "load" if op.kind == "tile_load" else "store"
        assert access is not None
        size = tile_bytes(tuple(axis.extent for axis in access.axes), access.element)
        now, then = (price_transfer(machine.transfer(f"{transport}_{way}"), size).uses[0].cycles
                     for transport in (access.transport if way == "load" else "plain", "tma"))  # fmt: skip
        yield f"  line {op.line}: {access.base}, {now} by threads, {then} by the TMA: {why}"


def competed(schedule: Schedule) -> Iterator[str]:
    """A line for each cooperation that the solve looked at: how it cuts the kernel, its I and what became of it."""
    from twill.show.words import cooperation_words

    yield "cooperations (solve), cycles from one iteration of the main loop to the next:"
    for one in schedule.candidates:
        interval = "" if one.ii is None else f" (I = {one.ii})"
        yield f"  {cooperation_words(one.cooperation)}{interval}: {one.verdict}"


def tried(attempts: Sequence[Attempt]) -> Iterator[str]:
    """A line for each candidate of lowering: its choices, predicted cost and what became of it."""
    yield "lowerings (emit), predicted on one SM:"
    yield from (f"  {attempt}" for attempt in attempts)
