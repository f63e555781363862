"""How a tile lies in memory, and the views between that and the tile as the kernel has it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from twill.tile.access.address import Address
from twill.tile.access.value import ONE

View = tuple[str, dict[str, tuple[int, ...]], tuple[int, ...]]  # kind, attributes, shape of the result


@dataclass(frozen=True)
class MemoryLayout:
    """shape: the kernel's. retained: its axes that memory has, in the kernel's order. order: the same
    in memory's order, as positions within kept.
    """

    shape: tuple[int, ...]
    stored: tuple[int, ...]
    order: tuple[int, ...]

    def in_memory(self, address: Address) -> Address:
        """The address with the axes that memory has, in its order."""
        places = [self.stored[position] for position in self.order]
        terms = tuple(
            replace(term, axes=tuple(-1 if axis < 0 else places.index(axis) for axis in term.axes))
            for term in address.terms
        )
        return replace(address, axes=tuple(address.axes[place] for place in places), terms=terms)

    @property
    def squeezed(self) -> tuple[int, ...]:
        """Extents of the kept axes, in the kernel's order."""
        return tuple(self.shape[axis] for axis in self.stored)

    @property
    def memory(self) -> tuple[int, ...]:
        """Extents of the kept axes, in memory's order."""
        return tuple(self.squeezed[position] for position in self.order)

    def views_after_load(self) -> list[View]:
        """From the tile in memory's shape to the kernel's."""
        views: list[View] = []
        if self._permuted:
            inverse = tuple(self.order.index(position) for position in range(len(self.order)))
            views.append(("transpose", {"order": inverse}, self.squeezed))
        if self.squeezed == () != self.shape:
            return [("splat", {}, self.shape)]
        ones = tuple(extent if axis in self.stored else 1 for axis, extent in enumerate(self.shape))
        if ones != self.squeezed:
            views.append(("reshape", {}, ones))
        if ones != self.shape:
            views.append(("broadcast", {}, self.shape))
        return views

    def views_before_store(self) -> list[View]:
        """From the tile in the kernel's shape to memory's."""
        views: list[View] = []
        if self.squeezed != self.shape:
            views.append(("reshape", {}, self.squeezed))
        if self._permuted:
            views.append(("transpose", {"order": self.order}, self.memory))
        return views

    @property
    def _permuted(self) -> bool:
        return self.order != tuple(sorted(self.order))


def layout_of(address: Address, *, load: bool) -> MemoryLayout:
    """Memory has no axes of extent 1 nor, for a load, axes along which one element repeats; its axis
    of stride 1 is the last. An access that keeps a mask operand keeps the shape of that, too.
    """
    shape = tuple(axis.extent for axis in address.axes)
    if not address.complete:
        every = tuple(range(len(shape)))
        return MemoryLayout(shape, every, every)
    retained = []
    picked = {axis for term in address.terms for axis in term.axes}
    for number, axis in enumerate(address.axes):
        bounded = axis.lower is not None or axis.upper is not None
        if axis.extent > 1 and (axis.stride or bounded or number in picked or not load):
            retained.append(number)
    inner = [position for position, number in enumerate(retained) if address.axes[number].stride == ONE]
    last = inner if len(inner) == 1 else []
    order = [position for position in range(len(retained)) if position not in last] + last
    return MemoryLayout(shape, tuple(retained), tuple(order))
