"""Which arguments must not share memory: what a launch checks, because emitted code takes different ones for apart.

Emitted code loads a tile as early as the schedule has it, ahead of stores to other arguments that the kernel has before
it. That changes nothing where the load comes before every store in the kernel (`y[i] = f(x[i])` with y = x), for
program instances are independent, and within a loop where each iteration stores just the tile that it has loaded.
"""

from __future__ import annotations

from twill.tile.program import Access, Loop, TileProgram, walk

WRITES = ("tile_store", "tile_reduce")


def must_be_apart(program: TileProgram) -> tuple[tuple[str, str], ...]:
    """(written argument, loaded argument), for each pair that a launch must find in different memory."""
    ops = list(program.ops())
    loops = {op.id: item.id for item in program.body if isinstance(item, Loop) for op in walk(item.body)}
    order = {op.id: number for number, op in enumerate(ops)}
    found = {
        (store.access.base, load.access.base): None
        for store in ops
        if store.kind in WRITES and store.access is not None
        for load in ops
        if load.kind == "tile_load" and load.access is not None and load.access.base != store.access.base
        and (
            order[load.id] > order[store.id]
            or (loops.get(store.id, -1) == loops.get(load.id, -2) and not _same_tile(store.access, load.access))
        )
    }  # fmt: skip
    return tuple(found)


def _same_tile(store: Access, load: Access) -> bool:
    """Whether both are the same elements, if both arguments are the same memory."""
    if store.indices or load.indices:
        return False
    return (store.element, store.axes, store.constant) == (load.element, load.axes, load.constant)
