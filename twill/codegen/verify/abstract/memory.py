"""Shared memory with the accesses of every slot, and global memory as tensor maps and windows see it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from twill.codegen.verify.abstract.free_indices import ALIGNMENT, free_indices
from twill.codegen.verify.abstract.order import Clock, Region, SlotAccess, SlotAccesses, overlap
from twill.codegen.verify.abstract.overlays import Slot, slots_beside
from twill.codegen.verify.abstract.scalars import EvaluationScope, integer
from twill.codegen.verify.abstract.tensor_memory import TensorTiles
from twill.codegen.verify.abstract.violation import Findings
from twill.codegen.warp.program import Buffer, SlotRef, TensorMapSpec, Window
from twill.graph.work import BITS as WIDTHS
from twill.tile.interpret.arithmetic import HELD, Array
from twill.tile.interpret.arrays import np
from twill.tile.interpret.elements import Elements, check_inside, gather, scatter, seen_as, window
from twill.tile.interpret.happens_before import HappensBefore
from twill.tile.interpret.partial_sums import Foreseen, PartialSums
from twill.tile.interpret.together import MemoryChanges
from twill.tile.order_dependence import depends_on_order
from twill.tile.program import TileProgram

Knows = tuple[Clock, Clock]
BITS = {**WIDTHS, "i1": 8}  # of an element in memory


def undefined(shape: tuple[int, ...], element: str) -> Array:
    """A tile of what nobody wrote: NaN, or a large odd number."""
    dtype = np.dtype(HELD[element])
    return np.full(shape, np.nan if dtype.kind == "f" else (True if dtype.kind == "b" else 85), dtype)


@dataclass
class SharedTiles:
    """The tiles of all slots, by (buffer, slot), and who accessed them. tensor: those in tensor memory, whose accesses
    are noted together, for they may lie over one another. beside: slots of other buffers that have bytes in common with
    a slot; lost: slots over which something was written since they were filled, and by what."""

    buffers: tuple[Buffer, ...]
    tiles: dict[tuple[int, int], Array]
    places: dict[tuple[int, int], SlotAccesses]
    findings: Findings
    tensor: TensorTiles
    beside: Mapping[Slot, tuple[Slot, ...]]
    lost: dict[Slot, str] = field(default_factory=dict)

    @classmethod
    def of(cls, buffers: tuple[Buffer, ...], findings: Findings) -> SharedTiles:
        """Fresh memory."""
        keys = [(buffer.id, slot) for buffer in buffers for slot in range(buffer.slots)]
        own = [key for key in keys if not buffers[key[0]].tensor]
        tiles = {key: undefined(buffers[key[0]].shape, buffers[key[0]].element) for key in own}
        tensor = TensorTiles.of(buffers)
        places = {key: SlotAccesses() if key in tiles else tensor.accesses for key in keys}
        return cls(buffers, tiles, places, findings, tensor, slots_beside(buffers))

    def region(self, ref: SlotRef) -> Region:
        """The rows and columns that are meant; a vector's elements are columns."""
        shape = self.buffers[ref.buffer].shape
        rows, columns = (1, shape[-1]) if len(shape) < 2 else (math.prod(shape[:-1]), shape[-1])
        return (*(ref.rows or (0, rows)), *(ref.columns or (0, columns)))

    def view(self, ref: SlotRef, slot: int) -> Array:
        """The part of a slot's tile that is meant: a view that can be written."""
        buffer = self.buffers[ref.buffer]
        tile = self.tiles[ref.buffer, slot]
        top, bottom, left, right = self.region(ref)
        if len(buffer.shape) < 2:
            return tile[left:right]
        if ref.rows is None and ref.columns is None:
            return tile
        return tile.reshape(-1, buffer.shape[-1])[top:bottom, left:right]

    def pending(self, ref: SlotRef, slot: int, group: int, clock: Clock) -> Iterator[SlotAccess]:
        """Accesses of a slot by a group that one who knows `clock` does not know to be over."""
        buffer, region = self.buffers[ref.buffer], self.region(ref)
        if buffer.tensor:
            region = self.tensor.region(buffer, slot, region)
        found = self.places[ref.buffer, slot].pending(group, clock)
        return (access for access in found if overlap(access.region, region))

    def access(
        self, ref: SlotRef, slot: int, access: SlotAccess, knows: Knows, role: str, roles: Mapping[int, str]
    ) -> None:
        """Note an access, and report what it collides with. knows: what who makes it knows, now and at its last fence
        of tensor memory."""
        buffer = self.buffers[ref.buffer]
        if access.region[1] > math.prod(buffer.shape[:-1]) or access.region[3] > buffer.shape[-1]:
            self.findings.add("bounds", f"{access.what} is outside of the tile of `{buffer.name}`", access.line, role)
        if buffer.tensor:
            access = replace(access, region=self.tensor.region(buffer, slot, access.region))
        clock, after = knows
        for rule, earlier in self.places[ref.buffer, slot].enter(access, clock, after if buffer.tensor else None):
            rule, text = explain(rule, earlier, access, f"slot {slot} of `{buffer.name}`", role, roles[earlier.group])
            self.findings.add(rule, text, access.line, role, roles[earlier.group])
        if (ref.buffer, slot) in self.beside:
            self._beside((ref.buffer, slot), access, clock, role, roles)

    def _beside(self, slot: Slot, access: SlotAccess, clock: Clock, role: str, roles: Mapping[int, str]) -> None:
        """What an access means for slots of other buffers in the same bytes: they collide as a whole."""
        place = f"slot {slot[1]} of `{self.buffers[slot[0]].name}`"
        for other in self.beside[slot]:
            where = f"{place}, which lies over slot {other[1]} of `{self.buffers[other[0]].name}`"
            for rule, earlier in self.places[other].collisions(access, clock):
                rule, text = explain(rule, earlier, access, where, role, roles[earlier.group])
                self.findings.add(rule, text, access.line, role, roles[earlier.group])
            if access.write:
                self.lost[other] = f"{access.what} has written over it, line {access.line}"
                self.tiles[other][...] = undefined(self.tiles[other].shape, self.buffers[other[0]].element)
        if access.write:
            self.lost.pop(slot, None)
        elif slot in self.lost:
            self.findings.add("shared", f"{access.what} by {role} reads {place}: {self.lost[slot]}", access.line, role)


def explain(rule: str, earlier: SlotAccess, access: SlotAccess, place: str, role: str, other: str) -> tuple[str, str]:
    """The rule that a collision breaks, and the sentence about it."""
    line = f", line {earlier.line}" if earlier.line else ""
    head = f"{access.what} by {role} {'writes' if access.write else 'reads'} {place}"
    then = f"{earlier.what} by {other}{line}"
    if rule == "proxy-fence":
        return rule, (
            f"{head} through the {access.proxy} proxy after {then}: no ProxyFence of {other} stands between its writes "
            "and the barrier that orders the two"
        )
    if rule == "tensor-fence":
        return rule, (
            f"{head} after {then}: barriers order the two, but not the fences of tensor memory that belong to an "
            "arrival and a wait for one of its rings"
        )
    match earlier.proxy, earlier.write:
        case "mma", False:
            return "mma-wait", f"{head} while {then} may still read it: no WaitGroups of {other} and barrier after it"
        case "tma", True:
            wait = "Acquire" if access.proxy == "tma" and access.write else "Get"
            return rule, f"{head} while {then} may still be on its way: no {wait} before it"
        case "tma", False:
            return "bulk", f"{head} while {then} may still read it: no BulkWait and barrier before it"
    verb = "writes" if earlier.write else "reads"
    return rule, f"{head}, which {then} {verb}: no barrier orders the two"


Axis = tuple[int, int, int, int, int | None]
"""Of a box: extent, stride, first element, lower and upper bound."""


def joined(axes: list[Axis], offset: int) -> list[int]:
    """What must be a multiple of the elements that a map has as one: offset, strides, the box's last axis."""
    extent, _, start, _, size = axes[-1]
    return [offset, *(stride for _, stride, *_ in axes[:-1]), extent, start, *([] if size is None else [size])]


def touched(elements: Elements) -> Array:
    """The addresses that are touched."""
    address, inside = np.broadcast_arrays(*elements)
    return address[inside].reshape(-1)


@dataclass
class LastAccesses:
    """Of each element of a tensor: the CTA that wrote it last (-1: none), whether that only combined, the one that read
    it last (-2: several), and the epochs in which they did (`twill.tile.interpret.happens_before`)."""

    writer: Array
    combined: Array
    reader: Array
    written: Array
    read: Array

    @classmethod
    def of(cls, size: int) -> LastAccesses:
        """Of a tensor that nobody has touched."""
        nobody = np.full(size, -1, np.int32)
        return cls(nobody, np.full(size, False), nobody.copy(), np.zeros(size, np.int32), np.zeros(size, np.int32))

    def load(self, order: HappensBefore, cta: int, at: Array) -> str:
        """Notes a load; what is wrong with it."""
        late = order.unordered(cta, self.writer[at], self.written[at])
        others = order.unordered(cta, self.reader[at], self.read[at])
        self.reader[at], self.read[at] = np.where(others, -2, cta), order.epochs[cta]
        return f"reads element {at[late][0]} that another CTA writes" if late.any() else ""

    def store(self, order: HappensBefore, cta: int, at: Array, combines: bool) -> str:
        """Notes a store that changes something; what is wrong with it."""
        late = order.unordered(cta, self.writer[at], self.written[at]) & ~(self.combined[at] & combines)
        behind = order.unordered(cta, self.reader[at], self.read[at])
        self.writer[at], self.written[at], self.combined[at] = cta, order.epochs[cta], combines
        if late.any():
            return f"writes element {at[late][0]} that another CTA writes"
        return f"writes element {at[behind][0]} that another CTA reads" if behind.any() else ""


@dataclass
class GlobalTensors:
    """Tensors by name, flat. sums: of a launch, that several program instances have parts of. stored: names of those
    that the program stores to. free: of descriptors whose indices are the caller's to choose (`free_indices`).
    changes: of what is in them. order, touched: of a program with Elect, which accesses of CTAs atomic operations bring
    into an order, and who accessed each element last."""

    tensors: Mapping[str, Array]
    sums: PartialSums = field(default_factory=PartialSums)
    stored: frozenset[str] = frozenset()
    free: frozenset[str] = frozenset()
    changes: MemoryChanges = field(default_factory=MemoryChanges)
    order: HappensBefore = field(default_factory=HappensBefore)
    touched: Mapping[str, LastAccesses] = field(default_factory=dict)

    @classmethod
    def of(cls, tensors: Mapping[str, Array], program: TileProgram, foreseen: Foreseen | None = None) -> GlobalTensors:
        """Those of a launch of a program. foreseen: see `PartialSums`."""
        stored = {op.access.base for op in program.ops() if op.access and op.kind in ("tile_store", "tile_reduce")}
        sums = PartialSums(foreseen=foreseen)
        made = cls(tensors, sums, frozenset(stored), free_indices(program))
        if depends_on_order(program):
            made.touched = {name: LastAccesses.of(tensors[name].size) for name in stored}
        return made

    def loaded_late(self, cta: int, argument: str, elements: Elements) -> str:
        """What is wrong with a load by a CTA: another one has the same element and writes it, and nothing says which
        comes first."""
        last = self.touched.get(argument)
        return last.load(self.order, cta, touched(elements)) if last is not None else ""

    def stored_late(self, cta: int, argument: str, elements: Elements, combine: str, before: Array | None) -> str:
        """The same of a store. before: what `elements` were in front of it."""
        last = self.touched.get(argument)
        if last is None or before is None:
            return ""
        at = touched(elements)
        after = self.tensors[argument][at]
        changed = (before != after) | ((after != after) if after.dtype.kind == "f" else False)
        return last.store(self.order, cta, at[changed], bool(combine))

    def held(self, argument: str, elements: Elements) -> Array | None:
        """What the elements are now, where it counts."""
        if argument not in self.touched:
            return None
        at = touched(elements)
        check_inside(self.tensors[argument], at)
        return self.tensors[argument][at]

    def misplaced(self, tensor_map: TensorMapSpec, coordinates: Sequence[int]) -> str:
        """What is wrong with the place of a box; "" if nothing is. A tensor map that is read or written from an
        innermost index of other bytes ends the launch with an illegal instruction."""
        name, first = tensor_map.argument, coordinates[-1]
        if name in self.free or first * BITS[tensor_map.element] % (8 * ALIGNMENT) == 0:
            return ""
        return f"the innermost index {first} of a box of `{name}` is no multiple of {ALIGNMENT} bytes"

    def loading(self, tensor_map: TensorMapSpec, elements: Elements) -> Callable[[], tuple[Array, bool]]:
        """A copy of the TMA that begins now: gives, whenever it is over, what it brings then, and whether it might have
        brought something else, as a store has come in between."""
        name, element = tensor_map.argument, tensor_map.element
        first = self.load(name, elements, 0.0, element) if name in self.stored else None

        def over() -> tuple[Array, bool]:
            value = self.load(name, elements, 0.0, element)
            return value, first is not None and first.tobytes() != value.tobytes()

        return over

    def box(self, tensor_map: TensorMapSpec, coordinates: list[int], scope: EvaluationScope) -> Elements:
        """Addresses of a box and which of them are inside of the map."""
        axes = [
            (extent, integer(stride, scope), start, 0, None if size is None else integer(size, scope))
            for extent, stride, start, size in zip(
                tensor_map.box, tensor_map.strides, coordinates, tensor_map.sizes, strict=True
            )
        ]
        together = tensor_map.together
        if any(number % together for number in joined(axes, integer(tensor_map.offset, scope))):
            raise IndexError(f"a copy of {together} elements as one that do not lie together")
        address, inside = window(integer(tensor_map.offset, scope), axes)
        # An axis that the kernel leaves unbounded ends where the tensor does.
        if any(size is None for size in tensor_map.sizes):
            inside = inside & (address < self.tensors[tensor_map.argument].size)
        return address, inside

    def window(self, meant: Window, scope: EvaluationScope, mask: Array | None) -> Elements:
        """Addresses of a window's elements and which of them may be touched."""
        axes = [
            (axis.extent, integer(axis.stride, scope), integer(axis.offset, scope),
             None if axis.lower is None else integer(axis.lower, scope),
             None if axis.upper is None else integer(axis.upper, scope))
            for axis in meant.axes
        ]  # fmt: skip
        address, inside = window(integer(meant.constant, scope), axes)
        return address, inside if mask is None else inside & mask

    def load(self, argument: str, elements: Elements, pad: float, element: str) -> Array:
        """The elements, of that type; IndexError outside of the tensor."""
        return gather(seen_as(self.tensors[argument], element), elements, pad)

    def store(self, argument: str, elements: Elements, value: Array, combine: str, element: str) -> None:
        """Write or combine; IndexError outside of the tensor."""
        self.changes.count += 1
        scatter(seen_as(self.tensors[argument], element), elements, value, combine, element)
