"""Runs a tile program on NumPy arrays, one program instance after the other: what the kernel means.

Both kinds of accesses are understood: tile accesses ("tile_load", ...), and the raw ones that Triton spells. Tensors
are flat arrays that hold their elements as `twill.tile.interpret.arithmetic` says. Scalars are the scalar arguments
by name;
those that describe a descriptor (`x.shape.0`, `x.stride.1`) are among them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from twill.tile.affine import Polynomial
from twill.tile.digits import gathered, histogram, rearranged
from twill.tile.interpret import block_scales
from twill.tile.interpret.arithmetic import HELD, Array, apply, reduce, rounded, scan
from twill.tile.interpret.arrays import np
from twill.tile.interpret.atomics import atomically, old_values
from twill.tile.interpret.elements import (
    Elements,
    empty,
    gather,
    loaded,
    scatter,
    seen_as,
    spread,
    window,
)
from twill.tile.interpret.partial_sums import PartialSums
from twill.tile.interpret.tiles import Descriptor, Pointer, constant, cut_off, dot, view
from twill.tile.interpret.together import ALONE, Alone, run_together
from twill.tile.operand_order import QUADS, columns_in_order
from twill.tile.order_dependence import depends_on_order, old_values_read
from twill.tile.program import Access, Loop, Op, TileProgram, TileType
from twill.tile.vocabulary import ATOMIC, ELECTED, VISIT, combining


def run(
    program: TileProgram,
    grid: Sequence[int],
    tensors: Mapping[str, Array],
    scalars: Mapping[str, int | float],
    cut: frozenset[int] = frozenset(),
    order: Order | None = None,
) -> None:
    """Every program instance of the grid in order; what it stores goes to `tensors`. cut: as for `Instance`. order: of
    a program with operations `elected`, in which CTAs run (None: each instance has its own)."""
    with np.errstate(all="ignore"):  # infinities are values like others
        sums = PartialSums()
        if depends_on_order(program):
            every = order or one_each(grid)

            def among(index: Index, turns: Alone) -> None:
                for at in walked(program, index, grid, tensors, scalars):
                    one = Instance(program, index, grid, tensors, scalars, cut, sums, at)
                    one.turns = turns
                    one.run()

            run_together([[partial(among, index) for index in cta] for cta in every.ctas], every.preempt)
            return
        for index, at in visits(program, grid, tensors, scalars):
            Instance(program, index, grid, tensors, scalars, cut, sums, at).run()


@dataclass(frozen=True)
class Order:
    """Which program instances each CTA has, in their order (`twill.tile.interpret.together`)."""

    ctas: Sequence[Sequence[tuple[int, int, int]]]
    preempt: bool = False


def one_each(grid: Sequence[int], preempt: bool = False) -> Order:
    """As many CTAs as there are instances."""
    return Order([[index] for index in instances(grid)], preempt)


def instances(grid: Sequence[int]) -> Iterable[tuple[int, int, int]]:
    """The grid indices in launch order: axis 0 is the fastest."""
    x, y, z = (*grid, 1, 1, 1)[:3]
    return ((i, j, k) for k, j, i in itertools.product(range(z), range(y), range(x)))


Index = tuple[int, int, int]


def visits(
    program: TileProgram, grid: Sequence[int], tensors: Mapping[str, Array], scalars: Mapping[str, int | float]
) -> Iterator[tuple[Index, tuple[Any, ...]]]:
    """Every program instance of a grid in order: its grid index, and where in its walk it is (`()`: it has none)."""
    for index in instances(grid):
        yield from ((index, at) for at in walked(program, index, grid, tensors, scalars))


def walked(
    program: TileProgram, index: Sequence[int], grid: Sequence[int], tensors: Mapping[str, Array],
    scalars: Mapping[str, int | float],
) -> Iterator[tuple[Any, ...]]:  # fmt: skip
    """Where a program of the grid does its work, one after the other."""
    if program.walk is None:
        yield ()
        return
    yield from _Way(program.walk, index, grid, tensors, scalars).visits()


def descriptor_scalars(program: TileProgram, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Shape and stride arguments of the descriptors, for row-major tensors of these shapes."""
    scalars: dict[str, int] = {}
    for argument in program.arguments:
        if argument.type.element.startswith("desc:"):
            stride = 1
            for axis in reversed(range(len(shapes[argument.name]))):
                extent = int(shapes[argument.name][axis])
                scalars |= {f"{argument.name}.shape.{axis}": extent, f"{argument.name}.stride.{axis}": stride}
                stride *= extent
    return scalars


class Instance:
    """One program instance. `trips`: how often each loop ran, by its id. cut: lines whose products read tf32 as tensor
    cores do, without the last 13 bits of each number. sums: those that instances of the launch have parts of. at: where
    in the program's walk it is."""

    def __init__(
        self,
        program: TileProgram,
        index: Sequence[int],
        grid: Sequence[int],
        tensors: Mapping[str, Array],
        scalars: Mapping[str, int | float],
        cut: frozenset[int] = frozenset(),
        sums: PartialSums | None = None,
        at: tuple[Any, ...] = (),
    ) -> None:
        self.at = at
        self.program, self.index, self.grid, self.cut = program, index, (*grid, 1, 1, 1)[:3], cut
        self.body = program.body
        self.tensors, self.scalars = tensors, scalars
        self.values: dict[int, Any] = {}
        self.trips: dict[int, int] = {}
        self.sums, self.has_sum = sums or PartialSums(), True
        self.turns = ALONE

    def run(self) -> None:
        """Runs it from start to end."""
        self.begin()
        self.block(self.body)

    def begin(self) -> None:
        """Gives the arguments their values."""
        for argument in self.program.arguments:
            name, element = argument.name, argument.type.element
            if element.startswith("ptr:"):
                self.values[argument.value] = Pointer(name, np.zeros((), np.int64))
            elif element.startswith("desc:"):
                rank = len(argument.type.shape)
                shape = tuple(int(self.scalars[f"{name}.shape.{axis}"]) for axis in range(rank))
                strides = tuple(int(self.scalars[f"{name}.stride.{axis}"]) for axis in range(rank))
                self.values[argument.value] = Descriptor(name, 0, shape, strides)
            else:
                self.values[argument.value] = rounded(self.scalars[name], element)

    def block(self, items: Sequence[Op | Loop]) -> None:
        """Runs the operations and loops of a block."""
        for item in items:
            if isinstance(item, Loop):
                self.loop(item)
            else:
                self.op(item)

    def loop(self, loop: Loop) -> None:
        """A counted loop with its carried values."""
        carried = [self.values[carry.init] for carry in loop.carried]
        counter = HELD[self.program.type_of(loop.induction).element]
        counts = range(*(int(self.values[value]) for value in (loop.lower, loop.upper, loop.step)))
        self.trips[loop.id] = len(counts)
        for index in counts:
            self.values[loop.induction] = counter(index)
            self.values.update(zip((carry.argument for carry in loop.carried), carried, strict=True))
            self.block(loop.body)
            carried = [self.values[carry.yielded] for carry in loop.carried]
        self.values.update(zip((carry.result for carry in loop.carried), carried, strict=True))

    def op(self, op: Op) -> None:
        """One operation."""
        operands = [self.values[operand] for operand in op.operands]
        kind = self.program.type_of(op.results[0]) if op.results else TileType((), "i32")
        if op.region is not None:
            self.turns.begins()
            found = op.region.run(operands, self.step, self.turns.again)
            self.values.update(zip(op.results, found, strict=True))
            if op.kind == ELECTED:
                self.turns.elected()
            return
        result = self.evaluate(op, operands, kind, dict(op.attributes))
        for value in op.results:
            self.values[value] = result

    def step(self, op: Op, operands: list[Any], elements: Mapping[int, str]) -> tuple[Any, ...]:
        """An operation of a loop over scalars."""
        attributes, element = dict(op.attributes), elements[op.results[0]]
        if op.kind == ATOMIC:
            return (self.atomic(op, operands),)
        if op.kind == "look_up":
            inside = np.bool_(operands[1]) if len(operands) > 1 else np.True_
            address, tensor = np.asarray(operands[0]), self.tensors[str(attributes["base"])]
            return (rounded(gather(seen_as(tensor, element), (address, inside), 0.0), element)[()],)
        if op.kind in ("constant", "program_id", "num_programs"):
            return (self.evaluate(op, operands, TileType((), element), attributes),)
        return (apply(op.kind, operands, element, attributes, [elements[operand] for operand in op.operands]),)

    def atomic(self, op: Op, operands: list[Any]) -> Any:
        """An atomic operation of one thread: what was there."""
        attributes = dict(op.attributes)
        old, changed = atomically(self.tensors[str(attributes["base"])], attributes, operands)
        self.turns.touched()
        if changed:
            self.turns.changed()
        return old

    def evaluate(self, op: Op, operands: list[Any], kind: TileType, attributes: dict[str, Any]) -> Any:
        """The value of an operation's result; None if it has none."""
        if op.access is not None:
            return self.tile_access(op, op.access, operands)
        match op.kind:
            case "constant":
                return constant(kind, repr(attributes["value"]), attributes["value"])
            case "program_id":
                return np.int32(self.index[attributes["axis"]])
            case "num_programs":
                return np.int32(self.grid[attributes["axis"]])
            case "visited":
                return self.at[attributes["index"]]
            case "sum_parts":
                return self.sum_parts(operands[0], attributes["axis"])
            case "last_part":
                return np.bool_(self.has_sum)
            case "range":
                return np.arange(attributes["start"], attributes["end"], dtype=np.int32)
            case "splat" | "broadcast" | "expand_dims" | "reshape" | "transpose":
                return view(op.kind, operands[0], kind, attributes)
            case "slice":
                return np.take(operands[0], attributes["index"], axis=attributes["axis"])
            case "join":
                return np.stack(operands, axis=-1)
            case "rearrange":
                digits = attributes["first"], attributes["extents"], attributes["steps"]
                return rearranged(operands, digits, kind.shape)
            case "gather":
                return gathered(operands[0], operands[1], attributes["axis"])
            case "histogram":
                return histogram(operands[0], kind.shape[0], *operands[1:])
            case "reduce":
                return reduce(operands[0], attributes["axis"], attributes["combine"], kind.element, attributes)
            case "scan":
                return scan(operands[0], kind.element, attributes)
            case "dot":
                read = [*map(cut_off, operands[:2])] if op.line in self.cut else operands[:2]
                if QUADS in attributes:
                    read = [read[0][:, columns_in_order(np.shape(read[0])[1])], read[1]]
                return dot([*read, *operands[2:]], kind.element)
            case "dot_scaled":
                return block_scales.multiplied(operands, attributes)
            case "add_pointer":
                return Pointer(operands[0].tensor, operands[0].offsets + np.asarray(operands[1]).astype(np.int64))
            case "make_descriptor":
                rank = (len(operands) - 1) // 2
                numbers = tuple(int(number) for number in operands[1:])
                pad = np.nan if attributes.get("padding") == "nan" else 0.0
                return Descriptor(operands[0].tensor, int(operands[0].offsets), numbers[:rank], numbers[rank:], pad)
            case "bitcast" if isinstance(operands[0], Pointer):
                return operands[0]  # to truth values, as to bytes
        if op.kind.startswith("descriptor_"):
            if attributes.get("guarded") and not operands.pop():
                return empty(kind.element, math.prod(kind.shape)).reshape(kind.shape)  # of a load: anything
            return self.descriptor(op, operands, kind, combining(attributes))
        if op.kind in ("load", "store", "atomic_add"):
            guard = operands.pop() if attributes.get("guarded") else np.True_
            return self.pointers(op, operands, guard)
        sources = [self.program.type_of(operand).element for operand in op.operands]
        return apply(op.kind, operands, kind.element, attributes, sources)

    def sum_parts(self, tile: Array, axis: int) -> Array:
        """The sum of the tiles that the instances along an axis have, where this one comes last; else the tile."""
        slot = 0
        for other in reversed([a for a in range(3) if a != axis]):
            slot = slot * self.grid[other] + self.index[other]
        met = self.sums.add(slot, self.index[axis], self.grid[axis], tile)
        assert not isinstance(met, str), met
        self.has_sum = met is not None
        return tile if met is None else met

    def tile_access(self, op: Op, access: Access, operands: list[Any]) -> Any:
        """A tile access: element by element within its bounds and mask."""
        address, inside = self.elements(access)
        for position, index in zip(op.index_operands, access.indices, strict=True):
            address = address + self.number(index.scale) * spread(operands[position], index.axes, address.shape)
        if op.mask_operand is not None:
            inside = inside & operands[op.mask_operand]
        if op.kind == "tile_load":
            tile = self.read(op, access.base, access.element, (address, inside), access.pad)
            return loaded(tile, self.program.type_of(op.results[0]))
        combine = combining(dict(op.attributes)) if op.kind == "tile_reduce" else ""
        return self.exchange(op, access.base, access.element, (address, inside), operands[0], combine)

    def read(self, op: Op, tensor: str, element: str, elements: Elements, pad: float) -> Array:
        """What an operation loads."""
        return gather(seen_as(self.tensors[tensor], element), elements, pad)

    def write(self, op: Op, tensor: str, element: str, elements: Elements, value: Array, combine: str) -> None:
        """What an operation stores, or combines with what is there."""
        self.turns.changed()
        scatter(seen_as(self.tensors[tensor], element), elements, value, combine, element)

    def exchange(self, op: Op, tensor: str, element: str, elements: Elements, value: Array, combine: str) -> Any:
        """What an operation stores or combines, and what was there where something reads it."""
        old = None
        if op.id in old_values_read(self.program):
            old = old_values(seen_as(self.tensors[tensor], element), elements, value, combine, element)
        self.write(op, tensor, element, elements, value, combine)
        return old

    def elements(self, access: Access) -> Elements:
        """The address of each element, and whether it is within the bounds."""
        axes = [
            (axis.extent, self.number(axis.stride), self.number(axis.offset),
             None if axis.lower is None else self.number(axis.lower),
             None if axis.upper is None else self.number(axis.upper))
            for axis in access.axes
        ]  # fmt: skip
        return window(self.number(access.constant), axes)

    def number(self, polynomial: Polynomial) -> int:
        """The value of a polynomial here and now."""
        return polynomial.evaluate(self.values)

    def descriptor(self, op: Op, operands: list[Any], kind: TileType, combine: str) -> Any:
        """A block of a descriptor, whose tile may lack leading axes of extent 1."""
        desc, load = operands[0], op.kind == "descriptor_load"
        block = self.program.type_of(op.operands[0]).shape
        first = operands[1 if load else 2 :]
        axes = [
            (extent, stride, int(start), 0, size)
            for extent, stride, start, size in zip(block, desc.strides, first, desc.shape, strict=True)
        ]
        elements, element = window(desc.origin, axes), self.program.type_of(op.operands[0]).element.partition(":")[2]
        if load:
            return self.read(op, desc.tensor, element, elements, desc.pad).reshape(kind.shape)
        value = np.asarray(operands[1]).reshape(block)
        return self.write(op, desc.tensor, element, elements, value, "" if op.kind == "descriptor_store" else combine)

    def pointers(self, op: Op, operands: list[Any], guard: Array) -> Any:
        """Loads, stores and atomic additions through tiles of pointers, where the guard holds."""
        element = self.program.type_of(op.operands[0]).element.partition(":")[2]
        tensor, address = operands[0].tensor, operands[0].offsets
        load = op.kind == "load"
        masks = operands[1:2] if load else operands[2:3]
        inside = np.broadcast_to(masks[0] & guard if masks else guard, np.shape(address))
        if load:
            tile = loaded(self.read(op, tensor, element, (address, inside), 0.0), self.program.type_of(op.results[0]))
            return np.where(inside, tile, operands[2]) if len(operands) > 2 else tile
        combine = "" if op.kind == "store" else combining(dict(op.attributes))
        return self.exchange(op, tensor, element, (address, inside), operands[1], combine)


class _Way(Instance):
    """A program of the grid on its way: nothing but scalars."""

    def visits(self) -> Iterator[tuple[Any, ...]]:
        """Where the work is done."""
        with np.errstate(all="ignore"):
            self.begin()
            yield from self._visits(self.program.body)

    def _visits(self, items: Sequence[Op | Loop]) -> Iterator[tuple[Any, ...]]:
        for item in items:
            if isinstance(item, Loop):
                yield from self._around(item)
            elif item.kind == VISIT:
                yield tuple(self.values[operand] for operand in item.operands)
            else:
                self.op(item)

    def _around(self, loop: Loop) -> Iterator[tuple[Any, ...]]:
        carried = [self.values[carry.init] for carry in loop.carried]
        counter = HELD[self.program.type_of(loop.induction).element]
        for index in range(*(int(self.values[value]) for value in (loop.lower, loop.upper, loop.step))):
            self.values[loop.induction] = counter(index)
            self.values.update(zip((carry.argument for carry in loop.carried), carried, strict=True))
            yield from self._visits(loop.body)
            carried = [self.values[carry.yielded] for carry in loop.carried]
        self.values.update(zip((carry.result for carry in loop.carried), carried, strict=True))
