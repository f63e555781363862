"""Whether the results of a launch are defined: whether any order of what nothing orders leaves the same.

Nothing orders program instances, nor the threads that store the elements of one tile, nor those of two stores of other
shapes. Sizes and strides that are made up may let elements of a tensor lie on top of each other, and grids that are
made up may have instances that share a result; then every implementation is right, and two of them differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from twill.tile.interpret.arithmetic import Array
from twill.tile.interpret.arrays import np
from twill.tile.interpret.atomics import values_of
from twill.tile.interpret.elements import Elements, check_inside, seen_as
from twill.tile.interpret.happens_before import HappensBefore
from twill.tile.interpret.sequential import Instance, instances, visits, walked
from twill.tile.interpret.together import Alone, run_together
from twill.tile.order_dependence import depends_on_order
from twill.tile.program import Op, TileProgram
from twill.tile.vocabulary import ELECTED

NOBODY, SEVERAL = -1, -2
ELECTIONS = 1 << 10  # that are told apart


@dataclass(frozen=True)
class Conflicts:
    """The first ones of a launch, in words, "" where there are none. between: of program instances. within: of the
    threads of one."""

    between: str = ""
    within: str = ""

    @property
    def text(self) -> str:
        """Why results are not defined; "" if they are."""
        return self.between or self.within


@dataclass
class _Tags:
    """Of each element of a tensor: which instance and which place of a tile wrote it last, and which instance read it.

    A place is a number of the element in its tile and of the tile's shape: what stores tiles of one shape does so by
    the same threads. combined: it was only added to, or the like, in any order."""

    writer: Array
    place: Array
    combined: Array
    reader: Array
    written: Array  # the epochs of the writer and of the reader (`twill.tile.interpret.happens_before`)
    read: Array

    @classmethod
    def of(cls, size: int) -> _Tags:
        return cls(
            np.full(size, NOBODY, np.int32), np.full(size, NOBODY, np.int64), np.full(size, False),
            np.full(size, NOBODY, np.int32), np.zeros(size, np.int32), np.zeros(size, np.int32),
        )  # fmt: skip


@dataclass
class _Meetings:
    """Of one launch. places: what tells the shapes of tiles apart."""

    tags: dict[str, _Tags]
    shapes: dict[tuple[int, ...], int] = field(default_factory=dict)
    order: HappensBefore = field(default_factory=HappensBefore)
    between: str = ""
    within: str = ""


def conflicts(
    program: TileProgram, grid: Sequence[int], tensors: Mapping[str, Array], scalars: Mapping[str, int | float]
) -> Conflicts:
    """What of a launch is not defined; `tensors` are left as they are. Errors: OutsideOfTensor."""
    copies = {name: array.copy() for name, array in tensors.items()}
    written = {op.access.base for op in program.ops() if op.access and op.kind in ("tile_store", "tile_reduce")}
    written |= {base for op in program.ops() if op.region is not None for base in op.region.written()}
    raw = any(op.access is None and op.kind in RAW for op in program.ops())
    met = _Meetings({name: _Tags.of(array.size) for name, array in copies.items() if raw or name in written})
    with np.errstate(all="ignore"):
        if depends_on_order(program):

            def watched(number: int, index: tuple[int, int, int], turns: Alone) -> None:
                for at in walked(program, index, grid, copies, scalars):
                    one = _Witness(program, index, grid, copies, scalars, met, number, at)
                    one.turns = turns
                    one.run()

            run_together([[partial(watched, number, index)] for number, index in enumerate(instances(grid))])
            return Conflicts(met.between, met.within)
        for number, (index, at) in enumerate(visits(program, grid, copies, scalars)):
            _Witness(program, index, grid, copies, scalars, met, number, at).run()
    return Conflicts(met.between, met.within)


RAW = ("store", "atomic_add", "descriptor_store", "descriptor_reduce")


class _Witness(Instance):
    """An instance that notes what it reads and writes. number: of the instance in its launch."""

    def __init__(
        self,
        program: TileProgram,
        index: Sequence[int],
        grid: Sequence[int],
        tensors: Mapping[str, Array],
        scalars: Mapping[str, int | float],
        met: _Meetings,
        number: int,
        at: tuple[Any, ...] = (),
    ) -> None:
        super().__init__(program, index, grid, tensors, scalars, at=at)
        self.met, self.number_of = met, number
        self.elections = 0

    def atomic(self, op: Op, operands: list[Any]) -> Any:
        """Nothing has to order it; others may be ordered by it."""
        old = super().atomic(op, operands)
        count = 1 + values_of(str(op.attribute("combine")))
        if len(operands) == count or operands[count]:
            base, order = str(op.attribute("base")), str(op.attribute("order"))
            self.met.order.atomic(self.number_of, base, int(operands[0]), order)
        return old

    def op(self, op: Op) -> None:
        """A whole number, or a tile of them, may not be divided by zero: nothing says what comes of it."""
        kind = self.program.type_of(op.results[0]) if op.results else None
        if op.kind in ("div", "rem") and kind and kind.element.startswith("i"):
            divisor = np.asarray(self.values[op.operands[1]])
            if not divisor.any() and not self.met.within:
                self.met.within = f"program instance {self.number_of} divides by zero at line {op.line}"
        super().op(op)
        self.elections += op.kind == ELECTED  # all threads have waited for one another

    def read(self, op: Op, tensor: str, element: str, elements: Elements, pad: float) -> Array:
        """Another instance may not have written it, nor other threads of this one."""
        value = super().read(op, tensor, element, elements, pad)
        tags = self.met.tags.get(tensor)
        if tags is None:
            return value
        address, places = self._touched(elements)
        writer, reader = tags.writer[address], tags.reader[address]
        foreign = self.met.order.unordered(self.number_of, writer, tags.written[address])
        self._between(op, tensor, address, foreign, writer, "reads", "writes")
        mine = (writer == self.number_of) & ~tags.combined[address] & self._apart(tags.place[address], places)
        self._within(op, tensor, address, mine, "reads what another of its threads writes")
        others = self.met.order.unordered(self.number_of, reader, tags.read[address])
        tags.reader[address] = np.where(others, SEVERAL, self.number_of)
        tags.read[address] = self.met.order.epochs[self.number_of]
        return value

    def write(self, op: Op, tensor: str, element: str, elements: Elements, value: Array, combine: str) -> None:
        """Another instance may not have read it, nor written something else to it, nor other threads of this one."""
        tags = self.met.tags[tensor]
        address, places = self._touched(elements)
        seen = seen_as(self.tensors[tensor], element)
        check_inside(seen, address)
        before = seen[address]
        super().write(op, tensor, element, elements, value, combine)
        after = seen[address]
        changed = ~_same(before, after)
        writer, reader, combined = tags.writer[address], tags.reader[address], tags.combined[address]
        ordered = combined & bool(combine)  # sums of sums
        unlike = changed | _no_numbers(after)  # of two that are no numbers, nothing is known
        foreign = unlike & ~ordered & self.met.order.unordered(self.number_of, writer, tags.written[address])
        self._between(op, tensor, address, foreign, writer, "writes", "writes something else to")
        foreign = changed & self.met.order.unordered(self.number_of, reader, tags.read[address])
        self._between(op, tensor, address, foreign, reader, "writes", "reads")
        if not combine:
            given = np.broadcast_to(value, np.shape(elements[1]))[elements[1]].astype(after.dtype).reshape(-1)
            self._within(op, tensor, address, ~_same(given, after), "writes several numbers at once")
            mine = changed & (writer == self.number_of) & self._apart(tags.place[address], places)
            self._within(op, tensor, address, mine, "writes what another of its threads has written")
        tags.combined[address] = bool(combine) & (combined | (writer == NOBODY))
        tags.writer[address], tags.place[address] = self.number_of, places
        tags.written[address] = self.met.order.epochs[self.number_of]

    def _touched(self, elements: Elements) -> tuple[Array, Array]:
        """The addresses of a tile that are touched, and their places."""
        address, inside = np.broadcast_arrays(*elements)
        kind = self.met.shapes.setdefault(tuple(address.shape), len(self.met.shapes))
        places = np.arange(address.size, dtype=np.int64).reshape(address.shape)[inside]
        return address[inside].reshape(-1), places.reshape(-1) + (kind << 40) + (self.elections % ELECTIONS << 52)

    def _apart(self, before: Array, places: Array) -> Array:
        """Whether two threads have two elements, and have not waited for one another in between."""
        apart: Array = (before != places) & (before >> 52 == self.elections % ELECTIONS)
        return apart

    def _between(self, op: Op, tensor: str, address: Array, which: Array, other: Array, verb: str, theirs: str) -> None:
        if self.met.between or not which.any():
            return
        first = int(np.argmax(which))
        whose = "other program instances" if other[first] == SEVERAL else f"program instance {int(other[first])}"
        also = theirs if other[first] != SEVERAL else theirs.replace("reads", "read").replace("writes", "write")
        text = f"program instance {self.number_of} {verb} element {int(address[first])} of `{tensor}`"
        self.met.between = f"{text} at line {op.line}, and {whose} {also} it in the same launch"

    def _within(self, op: Op, tensor: str, address: Array, which: Array, what: str) -> None:
        if self.met.within or not which.any():
            return
        first = int(np.argmax(which))
        self.met.within = (
            f"program instance {self.number_of} {what}, at line {op.line}: element {int(address[first])} of `{tensor}`"
        )


def _no_numbers(values: Array) -> Array:
    found: Array = np.isnan(values) if values.dtype.kind == "f" else np.full(values.shape, False)
    return found


def _same(one: Array, other: Array) -> Array:
    """Element by element; no number is as every other."""
    if one.dtype.kind == "f":
        return (one == other) | (np.isnan(one) & np.isnan(other))
    same: Array = one == other
    return same
