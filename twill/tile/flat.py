"""A tile program as a flat list of steps in which every use of a pure tile has its own copy.

Triton shares equal computations: with BLOCK_M == BLOCK_N the row offsets and the column offsets
of an attention kernel come from one `range`. Dataflow through that shared value would force m and
n to be one dimension. Here each path from a use to a pure source is a computation of its own; once
dimension classes are known, `merge` joins the copies that turned out to be the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from twill.exc import UnsupportedOperation
from twill.tile.program import Carry, Loop, Op, TileProgram, TileType
from twill.tile.uniformity import Uniformity, folded_operands, stretches
from twill.tile.vocabulary import ELECTED, ELEMENTWISE

SIGNED = frozenset({"add", "sub", "mul", "fma", "div", "max", "min", "compare", "exp", "exp2", "rsqrt", "sqrt", "sin"})
UNIFORM = -1  # stands for a uniform scalar among a step's operands


MOST_STEPS = 40_000  # of a flat program; those of the longest programs that can be scheduled are fewer


@dataclass(frozen=True)
class Cell:
    """One copy of a value of the program. id: its index in `Flat.cells`."""

    id: int
    value: int
    type: TileType


@dataclass(frozen=True)
class Step:
    """One copy of an operation, in the stretch where it belongs. Operands are cells or `UNIFORM`."""

    op: Op
    operands: tuple[int, ...]
    results: tuple[int, ...]
    stretch: int
    index: bool  # index arithmetic, folded into what uses it
    modifier: bool = False  # a sign that the instructions that read the value apply for nothing
    guarded: bool = False  # only made where an `update` needs it
    updated: int = UNIFORM  # of an `update`: the cell that its value may become; `operands` have the value alone

    def cells(self) -> tuple[int, ...]:
        """The operands that are cells."""
        return tuple(operand for operand in self.operands if operand != UNIFORM)


@dataclass(frozen=True)
class FlatCarry:
    """A loop-carried cell; `pure` ones are index arithmetic."""

    name: str
    stretch: int
    init: int
    argument: int
    yielded: int
    result: int
    pure: bool


@dataclass(frozen=True)
class Flat:
    """Steps in program order (by stretch, then as written); uniform carries are left out."""

    cells: tuple[Cell, ...]
    steps: tuple[Step, ...]
    carries: tuple[FlatCarry, ...]


def flatten(program: TileProgram, uniformity: Uniformity) -> Flat:
    """Every operation on tiles, pure ones copied for every path that uses them. Raises UnsupportedOperation where there
    are too many paths."""
    return _Flattener(program, uniformity).run()


class _Flattener:
    def __init__(self, program: TileProgram, uniformity: Uniformity) -> None:
        self.program = program
        self.uniformity = uniformity
        self.cells: list[Cell] = []
        self.steps: list[Step] = []
        self.carries: list[FlatCarry] = []
        self.shared: dict[int, int] = {}
        self.stretch_of: dict[int, int] = {}
        self.only_update = only_for_updates(program)  # operations
        self.guarding = False  # whether what is flattened now is made for an `update` alone

    def run(self) -> Flat:
        all_stretches = tuple(stretches(self.program))
        for number, loop, _ in all_stretches:
            for carry in loop.carried if loop else ():
                self.stretch_of[carry.argument] = number
        order: dict[int, int] = {}
        for number, loop, ops in all_stretches:
            carried = [carry for carry in loop.carried if self._is_data(carry.argument)] if loop else []
            inits = [self._use(carry.init, {}, True) for carry in carried]
            arguments = [self._share(carry.argument) for carry in carried]
            for op in ops:
                order[op.id] = len(order)
                if not op.results or op.kind == ELECTED or any(self._is_data(result) for result in op.results):
                    self._data(op)
            for carry, init, argument in zip(carried, inits, arguments, strict=True):
                yielded, result = self._use(carry.yielded, {}, True), self._share(carry.result)
                self.carries.append(FlatCarry(carry.name, number, init, argument, yielded, result, False))
        steps = sorted(self.steps, key=lambda step: (step.stretch, order[step.op.id]))
        return Flat(tuple(self.cells), tuple(steps), tuple(self.carries))

    def _is_data(self, value: int) -> bool:
        return value not in self.uniformity.pure and value not in self.uniformity.uniform

    def _data(self, op: Op) -> None:
        memo: dict[int, int] = {}
        foldable = op.kind in ELEMENTWISE
        self.guarding = op.id in self.only_update
        folded = folded_operands(op, self.uniformity.home[op.id] % 2 == 1)
        operands = tuple(
            self._use(o, memo if foldable else {}, not foldable and position not in folded)
            for position, o in enumerate(op.operands)
        )
        results = tuple(self._share(result) for result in op.results if self._is_data(result))
        step = Step(op, operands, results, self.uniformity.home[op.id], False, guarded=self.guarding)
        if op.kind == "update":
            self.guarding = True
            updated = self._use(op.operands[1], {}, False)
            step = replace(step, operands=(operands[0], UNIFORM, UNIFORM), updated=updated)
        self.guarding = False
        self.steps.append(step)

    def _share(self, value: int) -> int:
        self.shared[value] = self._cell(value)
        return self.shared[value]

    def _cell(self, value: int) -> int:
        self.cells.append(Cell(len(self.cells), value, self.program.type_of(value)))
        return len(self.cells) - 1

    def _use(self, value: int, memo: dict[int, int], material: bool) -> int:
        """The cell of a value as one use sees it. material: the use needs the tile itself, so that
        index arithmetic cannot be folded into it.
        """
        if value in self.uniformity.uniform:
            return UNIFORM
        if value not in self.uniformity.pure:
            return self.shared[value]
        if value in memo:
            return memo[value]
        carry = self.uniformity.carries.get(value)
        if carry is not None:
            return self._progression(carry, value, memo)
        op = self.uniformity.makers[value]
        if len(self.steps) > MOST_STEPS:
            raise UnsupportedOperation(
                f"what is made of ranges and look-ups takes more than {MOST_STEPS} operations: each use of a tile has a"
                " copy of its own",
                file=self.program.file, line=op.line,
                hint="a search in a table, or a sum that is written out, as a loop",
            )  # fmt: skip
        elementwise = op.kind in ELEMENTWISE
        # Same-shaped copies are one dimension anyway; a view may tell two uses of a tile apart.
        operands = tuple(self._use(o, memo if elementwise else {}, material and not elementwise) for o in op.operands)
        for result in op.results:
            memo[result] = self._cell(result)
        index = op.results[0] in self.uniformity.index and not (material and elementwise)
        results = tuple(memo[r] for r in op.results)
        self.steps.append(Step(op, operands, results, self.uniformity.home[op.id], index, guarded=self.guarding))
        return memo[value]

    def _progression(self, carry: Carry, value: int, memo: dict[int, int]) -> int:
        memo[carry.argument], memo[carry.result] = self._cell(carry.argument), self._cell(carry.result)
        init, yielded = self._use(carry.init, {}, False), self._use(carry.yielded, memo, False)
        stretch = self.stretch_of[carry.argument]
        argument, result = memo[carry.argument], memo[carry.result]
        self.carries.append(FlatCarry(carry.name, stretch, init, argument, yielded, result, True))
        return memo[value]


def only_for_updates(program: TileProgram) -> set[int]:
    """Operations that are only read to amend a value."""
    readers: dict[int, list[int]] = {}  # value -> operations; -1: anything but
    for op in program.ops():
        for position, operand in enumerate(op.operands):
            updates = op.kind == "update" and position == 1
            readers.setdefault(operand, []).append(-2 if updates else op.id)
    for loop in (item for item in program.body if isinstance(item, Loop)):
        for value in (loop.lower, loop.upper, loop.step, *(v for c in loop.carried for v in (c.init, c.yielded))):
            readers.setdefault(value, []).append(-1)
    found = {-2}
    for op in reversed(list(program.ops())):
        read = [reader for result in op.results for reader in readers.get(result, ())]
        if op.kind in ELEMENTWISE and read and found.issuperset(read):
            found.add(op.id)
    return found - {-2}


def merge(flat: Flat, classes: dict[int, tuple[int, ...]]) -> Flat:
    """The same with copies joined that have equal operands and dimension classes (by cell)."""
    stands_for: dict[int, int] = {UNIFORM: UNIFORM}
    known: dict[tuple[int, tuple[int, ...]], int] = {}
    for carry in (carry for carry in flat.carries if carry.pure):
        for cell in (carry.argument, carry.result):
            stands_for[cell] = known.setdefault((flat.cells[cell].value, classes[cell]), cell)
    steps: dict[tuple[object, ...], Step] = {}
    for step in flat.steps:
        operands = tuple(stands_for.get(operand, operand) for operand in step.operands)
        key = (step.op.id, operands, tuple(classes[result] for result in step.results))
        updated = stands_for.get(step.updated, step.updated)
        first = steps.setdefault(key, replace(step, operands=operands, updated=updated))
        steps[key] = replace(first, index=first.index and step.index, guarded=first.guarded and step.guarded)
        stands_for.update(zip(step.results, first.results, strict=True))
    carries = dict.fromkeys(_renamed(carry, stands_for) for carry in flat.carries)
    return _with_modifiers(Flat(flat.cells, tuple(steps.values()), tuple(carries)))


def _with_modifiers(flat: Flat) -> Flat:
    """Marks negations of floats that only floating-point instructions read: they have a sign bit
    for each operand.
    """
    elsewhere = {cell for carry in flat.carries for cell in (carry.init, carry.yielded)}
    elsewhere.update(cell for step in flat.steps if step.op.kind not in SIGNED for cell in step.cells())
    return replace(flat, steps=tuple(_with_modifier(step, flat, elsewhere) for step in flat.steps))


def _with_modifier(step: Step, flat: Flat, elsewhere: set[int]) -> Step:
    if step.op.kind != "neg" or step.results[0] in elsewhere:
        return step
    return replace(step, modifier=flat.cells[step.results[0]].type.element.startswith(("f", "bf")))


def _renamed(carry: FlatCarry, stands_for: dict[int, int]) -> FlatCarry:
    init, argument, yielded, result = (
        stands_for.get(cell, cell) for cell in (carry.init, carry.argument, carry.yielded, carry.result)
    )
    return replace(carry, init=init, argument=argument, yielded=yielded, result=result)
