"""How much shared memory the TMA stores of a kernel get, beside its rings.

A tile leaves in panels of 128 bytes a row. With a buffer for each panel a group waits for no store of its own tile;
with fewer it writes into a buffer again as soon as the store before has read it. Rings come first: loads under way
hide the memory's latency, which under load is several times what it is at rest.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, prod

from twill.codegen.lower.memory import PANEL, element_bytes
from twill.codegen.lower.plan import LoweringPlan

Tile = tuple[int, tuple[int, ...], str]  # group, shape, element


def staged(plan: LoweringPlan) -> list[Tile]:
    """The tiles that leave through shared memory, each once for every group that stores it."""
    found: dict[Tile, None] = {}
    for task in plan.tasks.values():
        if task.node.kind not in ("store", "reduce_store") or task.node.transport != "tma":
            continue
        cell = plan.flat.steps[task.steps[-1]].operands[0]
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


def staging_bytes(tiles: list[Tile], most: int) -> int:
    """Bytes of at most `most` panels of every tile."""
    each = (prod(shape) * element_bytes(e) // panels(shape, e) * min(most, panels(shape, e)) for _, shape, e in tiles)
    return sum(each)


def choose_panels(tiles: list[Tile], depth: Callable[[int], int]) -> int:
    """Panels of a tile that get a buffer: as many as leave the rings as deep as they want to be, or can be at all.
    depth: of the rings that so many bytes leave room for."""
    choices = range(1, 1 + max((panels(shape, element) for _, shape, element in tiles), default=1))
    return max(choices, key=lambda most: (depth(staging_bytes(tiles, most)), most))


def enough(plan: LoweringPlan, region: int) -> int:
    """Slots of a ring whose loads of one loop cover the memory's latency under load."""
    loads = [t.latency for t in plan.tasks.values() if t.region == region and t.node.kind == "load"]
    covered = plan.machine.emitting.under_load.value * max(loads, default=0)
    return ceil(covered / plan.interval(region))
