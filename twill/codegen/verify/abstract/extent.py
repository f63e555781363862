"""What a launch will do, from its scalars alone: how often loops run, and which elements accesses reach."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from twill.codegen.verify.abstract.scalars import integer_operation, wrapped
from twill.codegen.warp.by_identity import by_identity
from twill.tile.interpret.arrays import np
from twill.tile.interpret.conversions import rounded
from twill.tile.interpret.elements import OutsideOfTensor
from twill.tile.interpret.sequential import Instance, instances, walked
from twill.tile.interpret.tables import tables_of
from twill.tile.nests import BEHIND
from twill.tile.program import Access, Axis, Items, Loop, Op, TileProgram, TileType, walk
from twill.tile.scalar_region import Endless
from twill.tile.vocabulary import ELECTED

FEW = 256  # iterations of a loop that are all visited


class ZeroStep(Exception):  # noqa: N818, it ends no program: such sizes are left out
    """A loop's step is 0 at some sizes, or a number that integers are divided by: nothing says what comes of it."""


def trips_of(program: TileProgram, grid: Sequence[int], scalars: Mapping[str, int | float]) -> list[tuple[int, ...]]:
    """Iterations of each loop in order, for every program instance."""
    return trips_at(program, grid, scalars, instances(grid))


def longest_trip(program: TileProgram, grid: Sequence[int], scalars: Mapping[str, int | float]) -> int:
    """Of a loop of some program instance; 0 at sizes that say nothing (`ZeroStep`)."""
    try:
        return max((trip for trips in trips_of(program, grid, scalars) for trip in trips), default=0)
    except ZeroStep:
        return 0


def trips_at(
    program: TileProgram,
    grid: Sequence[int],
    scalars: Mapping[str, int | float],
    indices: Iterable[tuple[int, int, int]],
) -> list[tuple[int, ...]]:
    """Iterations of each loop in order, for these program instances. They are counted once for all that are at the same
    place along the axes that they depend on."""
    found: list[tuple[int, ...]] = []
    known: dict[Hashable, tuple[int, ...]] = {}
    loops, axes = [item for item in program.body if isinstance(item, Loop)], _axes(program.trips_outline)
    start: Mapping[int, Any] | None = None
    for index, at in walked_at(program, grid, scalars, indices):
        place = (tuple(index[axis] for axis in axes), tuple(np.asarray(number).item() for number in at))
        if place not in known:
            scout = _Counter(program, index, grid, scalars, at=at, start=start)
            scout.run()
            start = scout.start
            known[place] = tuple(scout.trips.get(loop.id, 0) for loop in loops)
        found.append(known[place])
    return found


def _axes(items: Items) -> tuple[int, ...]:
    """The axes of the grid along which something is computed from the index, `while` loops taken for all of them."""
    ops = tuple(walk(items))
    if any(op.region is not None for op in ops):
        return 0, 1, 2
    return tuple(sorted({int(dict(op.attributes)["axis"]) for op in ops if op.kind == "program_id"}))  # type: ignore[arg-type]


def walked_at(
    program: TileProgram,
    grid: Sequence[int],
    scalars: Mapping[str, int | float],
    indices: Iterable[tuple[int, int, int]] | None = None,
) -> Iterator[tuple[tuple[int, int, int], tuple[Any, ...]]]:
    """Program instances, all or these, each with where in its walk it is; `()` where that is not known."""
    tables = tables_of(scalars)
    for index in instances(grid) if indices is None else indices:
        if program.walk is not None and not loaded_by_walk(program) <= tables.keys():
            yield index, ()
            continue
        try:
            yield from ((index, at) for at in walked(program, index, grid, tables, scalars))
        except OutsideOfTensor:
            return


def loaded_by_walk(program: TileProgram) -> set[str]:
    """The tensors that say where a program does its work."""
    ops = program.walk.ops() if program.walk is not None else ()
    return {op.access.base for op in ops if op.access is not None}


def was_nest(program: TileProgram) -> bool:
    """Whether a loop of the program is made of a loop in a loop."""
    written = program.original or program
    return any(isinstance(inner, Loop) for item in written.body if isinstance(item, Loop) for inner in item.body)


class ScalarInstance(Instance):
    """An instance that computes scalars only and enters no loop.

    within: visits the first and the last iteration of loops too, and all of a loop that was a nest, whose rows may end
    before its last iteration. start: the arguments' values, where another instance of the launch has them. ranges:
    (access, axis) -> the indices that tiles reach, [first, end); constants: access -> its least and largest constant.
    """

    def __init__(
        self,
        program: TileProgram,
        index: Sequence[int],
        grid: Sequence[int],
        scalars: Mapping[str, int | float],
        within: bool = False,
        at: tuple[Any, ...] = (),
        start: Mapping[int, Any] | None = None,
    ) -> None:
        super().__init__(program, index, grid, tables_of(scalars), scalars, at=at)
        self.body, self.start, self.codes = self.part(program), start, whole_numbers(program)
        self.within, self.looping = within, False
        self.ranges: dict[tuple[int, int], tuple[int, int]] = {}
        self.constants: dict[int, tuple[int, int]] = {}

    @staticmethod
    def part(program: TileProgram) -> Items:
        """What of the program is run."""
        return program.outline

    def loop(self, loop: Loop) -> None:
        """Counts iterations."""
        bounds = [self.values.get(value) for value in (loop.lower, loop.upper, loop.step)]
        if any(bound is None for bound in bounds):
            return
        if not bounds[-1]:
            raise ZeroStep
        counts = range(*(int(bound) for bound in bounds))  # type: ignore[arg-type]
        self.trips[loop.id] = len(counts)
        if not self.within:
            return
        every = was_nest(self.program) and len(counts) <= FEW
        self.looping = True
        for index in counts if every else {*counts[:1], *counts[-1:]}:
            self.values[loop.induction] = index
            self.block(loop.body)
        self.looping = False

    def op(self, op: Op) -> None:
        """Scalars whose operands are known; the rest is left out."""
        if op.access is not None:
            self.note(op)
            self.look_up(op, op.access)
            return
        code = self.codes.get(op.id)
        if code is not None:
            try:
                known = code(self)
            except KeyError:  # an operand that is not known
                return
            if known is not None:
                self.values[op.results[0]] = known
                return
        if op.kind == "visited" and not self.at:
            return
        if op.kind == ELECTED:  # what one thread finds out is not known
            return
        if op.region is not None:
            if op.region.bases() <= self.tensors.keys() and all(operand in self.values for operand in op.operands):
                with suppress(OutsideOfTensor, Endless):
                    super().op(op)
            return
        if op.id in self.program.scalar_ops and all(operand in self.values for operand in op.operands):
            whole = op.kind in ("div", "rem") and self.program.type_of(op.results[0]).element.startswith("i")
            if whole and not self.within and not self.values[op.operands[1]]:
                raise ZeroStep
            super().op(op)

    def evaluate(self, op: Op, operands: list[Any], kind: TileType, attributes: dict[str, Any]) -> Any:
        """As in any instance; integers are Python's."""
        sources = (self.program.type_of(operand).element for operand in op.operands)
        typed = [
            rounded(one, source) if type(one) is int else one for one, source in zip(operands, sources, strict=True)
        ]
        found = super().evaluate(op, typed, kind, attributes)
        return int(found) if kind.element in ("i32", "i64") and not kind.shape else found

    def begin(self) -> None:
        """Gives the arguments their values, integers as Python has them."""
        if self.start is None:
            super().begin()
            for argument in self.program.arguments:
                if argument.type.element in ("i32", "i64"):
                    self.values[argument.value] = int(self.values[argument.value])
            self.start = dict(self.values)
        self.values.update(self.start)

    def note(self, op: Op) -> None:
        """Which indices an access reaches; none under a condition that does not hold, outside of loops."""
        assert op.access is not None
        mask = None if op.mask_operand is None or self.looping else op.operands[op.mask_operand]
        if mask is not None and not self.program.type_of(mask).shape and not self.values.get(mask, True):
            return
        try:
            for number, axis in enumerate(op.access.axes):
                self._note_reach(op.id, number, self.reach(axis))
            constant = self.number(op.access.constant)
            self._widen(self.constants, op.id, (constant, constant))
        except KeyError:  # an address that depends on what is loaded
            return

    def look_up(self, op: Op, access: Access) -> None:
        """A number from a table that is known."""
        if op.kind == "tile_load" and not access.axes and access.base in self.tensors:
            with suppress(KeyError, OutsideOfTensor):  # an address or a mask that is not known, or nowhere
                Instance.op(self, op)

    def reach(self, axis: Axis) -> tuple[int, int]:
        """The indices of an axis that are touched."""
        first = self.number(axis.offset)
        end = first + axis.extent
        if axis.lower is not None:
            first = max(first, self.number(axis.lower))
        if axis.upper is not None:
            end = min(end, self.number(axis.upper))
        return first, max(first, end)

    def _note_reach(self, access: int, axis: int, new: tuple[int, int]) -> None:
        """An iteration whose condition does not hold, so that what it loads is said to lie behind all tensors, reaches
        nothing. (Where the last one begins at a tensor's end, those between may reach that.)"""
        known = self.ranges.setdefault((access, axis), new)
        if _is_behind(known):
            self.ranges[access, axis] = new
        elif not _is_behind(new):
            self._widen(self.ranges, (access, axis), new)

    @staticmethod
    def _widen(ranges: dict[Any, tuple[int, int]], key: object, new: tuple[int, int]) -> None:
        low, high = ranges.get(key, new)
        ranges[key] = min(low, new[0]), max(high, new[1])


def _is_behind(span: tuple[int, int]) -> bool:
    """Whether indices are none, and so far away as only a condition makes them."""
    return span[0] == span[1] and span[0] > BEHIND // 2


Code = Callable[[ScalarInstance], int | None]
"""What computes a number in an instance; None: it is none of Python's. KeyError: an operand that is not known."""


@by_identity
def whole_numbers(program: TileProgram) -> Mapping[int, Code]:
    """The operations on integers of 32 and 64 bits, which need no arrays, by their id."""
    found: dict[int, Code] = {}
    for op in program.ops():
        if op.id in program.scalar_ops and op.access is None and op.region is None and len(op.results) == 1:
            code = _whole(op, program.type_of(op.results[0]).element)
            if code is not None:
                found[op.id] = code
    return found


def _whole(op: Op, element: str) -> Code | None:
    attributes: Mapping[str, Any] = dict(op.attributes)
    match op.kind, op.operands:
        case "program_id", ():
            axis = int(attributes["axis"])
            return lambda instance: instance.index[axis]
        case "num_programs", ():
            axis = int(attributes["axis"])
            return lambda instance: instance.grid[axis]
        case "constant", () if element in ("i32", "i64"):
            number = int(attributes["value"])
            return lambda instance: number
        case "cast", (operand,) if element in ("i32", "i64") and attributes.get("signed", 1):
            return lambda instance: _held(instance.values[operand], element)
        case kind, (left, right) if operation := integer_operation(kind, element, attributes):
            return lambda instance: _of_two(operation, instance.values[left], instance.values[right])
    return None


def _held(number: Any, element: str) -> int | None:
    return wrapped(number, element) if type(number) is int else None


def _of_two(operation: Callable[[int, int], int | None], left: Any, right: Any) -> int | None:
    return operation(left, right) if type(left) is int and type(right) is int else None


class _Counter(ScalarInstance):
    """One that only counts iterations."""

    @staticmethod
    def part(program: TileProgram) -> Items:
        """What iterations depend on."""
        return program.trips_outline

    def note(self, op: Op) -> None:
        """Nothing: accesses do not matter."""


def scouts(program: TileProgram, grid: Sequence[int], scalars: Mapping[str, int | float]) -> list[ScalarInstance]:
    """Every program instance of a launch, with what it reaches in the first and the last iteration of its loops."""
    found: list[ScalarInstance] = []
    start: Mapping[int, Any] | None = None
    for index, at in walked_at(program, grid, scalars):
        scout = ScalarInstance(program, index, grid, scalars, within=True, at=at, start=start)
        scout.run()
        start = scout.start
        found.append(scout)
    return found
