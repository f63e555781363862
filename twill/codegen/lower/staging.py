"""How much shared memory the TMA stores of a kernel get, beside its rings.

A tile leaves in panels of 128 bytes a row. With a buffer for each panel a group waits for no store of its own tile;
with fewer it writes into a buffer again as soon as the store before has read it. Rings come first: loads under way
hide the memory's latency, which under load is several times what it is at rest. Where there is no room for a single
panel, a tile that is stored behind the loops leaves through a ring that its group fills in them, which is empty then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil, prod

from twill.codegen.lower.memory import PANEL, element_bytes
from twill.codegen.lower.placement import Ring
from twill.codegen.lower.plan import LoweringPlan
from twill.codegen.lower.task import Place

Tile = tuple[int, tuple[int, ...], str]  # group, shape, element


def staged(plan: LoweringPlan) -> list[Tile]:
    """The tiles that leave through shared memory, each once for every group that stores it."""
    found: dict[Tile, None] = {}
    for task in plan.tasks.values():
        if task.node.kind not in ("store", "reduce_store") or task.node.transport != "tma":
            continue
        cell = plan.last_step(task).operands[0]
        if cell >= 0 and len(plan.tiles.core(cell)) == 2:
            shape, element = plan.tiles.core(cell), plan.flat.cells[cell].type.element
            for group in (copy for g in task.groups for copy in plan.same_stream(g)):
                found[group, shape, element] = None
    return list(found)


def panel_columns(shape: tuple[int, ...], element: str) -> int:
    """Columns of one panel of a matrix; all of them if its rows are not made of panels."""
    row = shape[1] * element_bytes(element)
    return PANEL // element_bytes(element) if row % PANEL == 0 else shape[1]


def panels(shape: tuple[int, ...], element: str) -> int:
    """Panels of a matrix."""
    return shape[1] // panel_columns(shape, element)


def hosts(plan: LoweringPlan, rings: Mapping[Place, Ring]) -> dict[Tile, Ring]:
    """The tiles that a ring of their group could hold: of their shape, filled from registers in loops alone, while the
    tile is stored behind them alone."""
    inside = [t for t in plan.tasks.values() if t.node.kind in ("store", "reduce_store") and t.region in plan.loops]
    busy = {group for task in inside for group in task.groups}
    found: dict[Tile, Ring] = {}
    for ring in rings.values():
        buffer, aref = ring.buffer, ring.aref
        if aref.transport == "registers" and not buffer.tensor and not ring.held and aref.producer not in busy:
            found.setdefault((aref.producer, buffer.shape, buffer.element), ring)
    return {tile: found[tile] for tile in staged(plan) if tile in found}


def staging_bytes(tiles: list[Tile], most: int) -> int:
    """Bytes of at most `most` panels of every tile."""
    each = (prod(shape) * element_bytes(e) // panels(shape, e) * min(most, panels(shape, e)) for _, shape, e in tiles)
    return sum(each)


def choose_panels(tiles: list[Tile], depth: Callable[[int], int]) -> int:
    """Panels of a tile that get a buffer: as many as leave the rings as deep as they want to be, or can be at all; one
    where none leaves that much. depth: of the rings that so many bytes leave room for, 0 if for none."""

    def worth(most: int) -> tuple[int, int]:
        found = depth(staging_bytes(tiles, most))
        return found, most if found else -most

    return max(range(1, 1 + max((panels(shape, element) for _, shape, element in tiles), default=1)), key=worth)


def enough(plan: LoweringPlan, region: int) -> int:
    """Slots of a ring whose loads of one loop cover the memory's latency under load."""
    inside = [task for task in plan.tasks.values() if task.region == region]
    loads = [task.latency for task in inside if task.node.kind == "load"]
    alone = all(task.node.kind in ("load", "mma") for task in inside)
    covered = (plan.machine.emitting.multiplying if alone else None) or plan.machine.emitting.under_load
    return ceil(covered.value * max(loads, default=0) / plan.interval(region))
