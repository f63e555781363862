"""Which columns of tensor memory each tile has, and which tiles lie over others.

    allocate(tiles, most) -> TensorColumns, which is frozen

A tile lives as long as its ring, the whole kernel, but for one that lies over another: an operand A that threads
compute from an accumulator takes its place, slot by slot, once they have it in registers. The schedule's memory
constraint counts such a tile as nothing (`twill.graph.cost`); here it is given the columns of its host. That nobody
still needs what is there is for the order of MMAs and arrivals to say, which the abstract machine checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class TensorTile:
    """A ring of tiles in tensor memory. width: columns of 32 bits that a tile takes. slots: tiles of the ring. over:
    the name of the ring whose slots it lies in ("": of none). extra: whether it gets another slot if there is room."""

    name: str
    width: int
    slots: int = 1
    over: str = ""
    extra: bool = False


@dataclass(frozen=True)
class TensorColumns:
    """tiles: with their slots. first, stride: by name, the first column of a ring and the columns from one of its slots
    to the next. used: columns from the first to the last that is taken."""

    tiles: tuple[TensorTile, ...]
    first: dict[str, int]
    stride: dict[str, int]
    used: int

    def slots(self, name: str) -> int:
        """Of a ring."""
        return next(tile.slots for tile in self.tiles if tile.name == name)


def allocate(tiles: Sequence[TensorTile], most: int) -> TensorColumns | str:
    """The columns of tiles, in their order, of `most`; in words what does not fit. Rings that may have another slot get
    it if there is room for all of those."""
    more = [replace(tile, slots=tile.slots + 1) if tile.extra else tile for tile in tiles]
    for tried in (more, list(tiles)):
        found = _placed(tried)
        if found.used <= most:
            return found
    taken = ", ".join(f"{tile.name} {tile.slots} x {tile.width}" for tile in tiles if not tile.over)
    return f"accumulators of {_placed(tiles).used} columns are more than tensor memory has, {most}: {taken}"


def _placed(tiles: Sequence[TensorTile]) -> TensorColumns:
    """One ring behind the other, and what lies over one in its slots."""
    first: dict[str, int] = {}
    stride: dict[str, int] = {}
    used = 0
    for tile in tiles:
        if not tile.over:
            first[tile.name], stride[tile.name] = used, tile.width
            used += tile.slots * tile.width
    slots = {tile.name: tile.slots for tile in tiles}
    made = []
    for tile in tiles:
        if tile.over:
            assert tile.width <= stride[tile.over], f"{tile.name} is wider than {tile.over}"
            first[tile.name], stride[tile.name] = first[tile.over], stride[tile.over]
            tile = replace(tile, slots=slots[tile.over])
        made.append(tile)
    return TensorColumns(tuple(made), first, stride, used)
