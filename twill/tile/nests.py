"""A loop in a loop becomes one loop over the iterations of both.

::

    for i in range(l, u, s):          for m in range(trips(i) * max(trips(j), 1)):
        before                            i, j = l + m // T * s, l' + m % T * s'      (T = max(trips(j), 1))
        for j in range(l', u', s'):       before                     (its stores in the first iteration of a row)
            body                          what j's loop carries: at a first iteration what it begins with
        behind                            body                       (touches nothing where j's loop has no iteration)
                                          behind                     (its stores in the last iteration of a row)
                                          what i's loop carries: changed in the last iteration of a row

Its pipeline is not drained between the rows. What stands before and behind the inner loop is computed in every
iteration, to the same numbers. Either loop may count in 64 bits; the iterations are counted in 32. It is done where
there is one inner loop, and nothing that stands before it loads what the nest stores. Where the inner loop's end
differs from row to row (`min(BLOCK, n - i)`) every row has as many iterations as any of them can have, and those behind
its end touch and change nothing: an end that nothing bounds is refused, and so is a beginning or a step that differs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from twill.exc import NestedLoop
from twill.tile.affine import Polynomial
from twill.tile.dead_code import compact
from twill.tile.program import Access, Carry, Items, Loop, Op, TileProgram, TileType, constant_of, loops_of, walk
from twill.tile.rewrite.writer import OpWriter
from twill.tile.vocabulary import ELECTED

BEHIND = 1 << 30  # elements: no axis of a tensor is as long, and an index behind it is still an i32
I32, I64, TRUTH = TileType((), "i32"), TileType((), "i64"), TileType((), "i1")
STORES = frozenset({"tile_store", "tile_reduce"})
HINT = "the outer loop in the launch grid, one loop over both ranges, or tl.static_range for a short inner one"


def flatten_nests(program: TileProgram) -> TileProgram:
    """The program, its accesses resolved, without loops in loops; the same one if there are none. Raises
    `NestedLoop`."""
    if not any(_inner(item) for item in program.body if isinstance(item, Loop)):
        return program
    write = OpWriter(program)
    write.number += sum(1 for _ in loops_of(program.body))
    body: list[Op | Loop] = []
    for item in program.body:
        if isinstance(item, Loop) and _inner(item):
            body += _NestFlattener(program, write, item).flat()
        else:
            body.append(item)
    made = compact(replace(program, body=tuple(body), values=tuple(write.values)))
    return replace(made, original=program.original or program)


def _inner(loop: Loop) -> list[Loop]:
    return [item for item in loop.body if isinstance(item, Loop)]


def nowhere_unless(access: Access, taken: Polynomial) -> Access:
    """The access of a load with no element inside its bounds where `taken` is 0 and not 1: a tile of a tensor map lies
    far behind an end of its tensor then; elsewhere the upper bound of the first axis is its lower end."""
    axes = list(access.axes)
    ended = next((n for n, axis in enumerate(axes) if axis.upper is not None and axis.extent > 1), None)
    if access.transport == "tma" and ended is not None:
        axis = axes[ended]
        away = (Polynomial.constant_of(1) - taken) * BEHIND
        axes[ended] = replace(axis, offset=axis.offset + away)
        return replace(access, axes=tuple(axes))
    first = axes[0]
    upper = first.upper if first.upper is not None else first.offset + first.extent
    axes[0] = replace(first, upper=first.offset + taken * (upper - first.offset))
    if access.transport == "tma":
        why = "it is under a condition, and nothing says where its tensor ends"
        access = replace(access, transport="plain", transport_reason=why)
    return replace(access, axes=tuple(axes))


class _NestFlattener:
    """One nest. before, inner, behind: what the outer loop's body is made of."""

    def __init__(self, program: TileProgram, write: OpWriter, outer: Loop) -> None:
        self.program, self.write, self.outer = program, write, outer
        inner = _inner(outer)
        if len(inner) > 1:
            self.refuse(inner[1], "a second loop inside a loop")
        if _inner(inner[0]):
            self.refuse(_inner(inner[0])[0], "a loop inside a loop inside a loop")
        self.inner = inner[0]
        if any(op.kind == ELECTED or (op.kind == "tile_reduce" and op.results) for op in walk(outer.body)):
            self.refuse(self.inner, "a loop inside a loop that has atomic operations whose old value or order counts")
        place = outer.body.index(self.inner)
        self.before = [item for item in outer.body[:place] if isinstance(item, Op)]
        self.behind = [item for item in outer.body[place + 1 :] if isinstance(item, Op)]
        self.inside = {outer.induction, *(carry.argument for carry in outer.carried)}
        self.inside |= {result for op in walk(outer.body) for result in op.results}
        self.inside |= {carry.result for carry in self.inner.carried}
        self.zeros: list[Op] = []
        self.known: dict[TileType, tuple[int, int]] = {}

    def refuse(self, loop: Loop, what: str) -> NoReturn:
        """The error for a nest that is none of those."""
        raise NestedLoop(what, file=self.program.file, line=loop.line, hint=HINT)

    def flat(self) -> Items:
        """What its bounds are made of, and the one loop."""
        outer, inner, write = self.outer, self.inner, self.write
        bounds = (outer.lower, outer.upper, outer.step, inner.lower, inner.upper, inner.step)
        varies = inner.upper in self.inside
        if self.inside.intersection((inner.lower, inner.step)) or (varies and not self.is_bounded(inner.upper)):
            self.refuse(inner, "a loop inside a loop whose bounds change from one to the next")
        if any(self.program.type_of(value) not in (I32, I64) for value in bounds):
            self.refuse(inner, "a loop inside a loop that counts in neither 32 nor 64 bits")
        self.refuse_reloads()
        write.made = []
        zero, one = self.numbers(I32)
        longest = replace(inner, upper=self.most(inner.upper)) if varies else inner
        rows, trips = self.trips(outer), self.trips(longest)
        row = self.scalar("max", trips, one, signed=1)
        total, last_of_row = self.scalar("mul", rows, row), self.scalar("sub", row, one)
        runs = self.compare("gt", trips, zero)
        outside, write.made = write.made, []

        counter = write.value_like(outer.induction)
        write.values[counter] = replace(write.values[counter], type=I32)
        number = self.scalar("div", counter, row, signed=1)
        place = self.scalar("sub", counter, self.scalar("mul", number, row))
        self.count(outer, number)
        self.count(inner, place)
        first = self.compare("eq", place, zero)
        last = self.compare("eq", place, last_of_row)
        for op in self.before:
            self.copy(op, stores=first)
        carried = [self.begin(carry, first) for carry in inner.carried]
        if varies:
            runs = self.compare("lt", inner.induction, inner.upper)
            carried = [replace(now, yielded=was.result) for now, was in zip(carried, inner.carried, strict=True)]
        for op in walk(inner.body):
            self.copy(op, stores=runs, loads=runs)
        for carry in inner.carried:
            self.choose(carry.result, runs, carry.yielded, carry.argument)
        for op in self.behind:
            self.copy(op, stores=last)
        for carry in outer.carried:
            chosen = write.value_like(carry.result)
            self.choose(chosen, last, carry.yielded, carry.argument)
            carried.append(replace(carry, yielded=chosen))
        body = tuple(write.made)
        loop = Loop(outer.id, counter, zero, total, one, tuple(carried), body, outer.line)
        return (*outside, *self.zeros, loop)

    def is_bounded(self, value: int) -> bool:
        """Whether there is a number, the same for every row, that `value` never exceeds: see `most`."""
        if value not in self.inside or value == self.outer.induction:
            return True
        op = next((op for op in self.before if value in op.results), None)
        if op is None or self.program.type_of(value) != I32:
            return False
        bounded = [self.is_bounded(operand) for operand in op.operands]
        match op.kind:
            case "min":
                return bool(dict(op.attributes).get("signed", 1)) and any(bounded)
            case "max" | "add":
                return bool(dict(op.attributes).get("signed", 1)) and all(bounded)
            case "sub" | "div" | "mul":
                fixed = op.operands[1] not in self.inside
                return fixed and bounded[0] and (op.kind == "sub" or self.divides(op))
        return False

    def divides(self, op: Op) -> bool:
        """Whether a number is multiplied with, or divided by, a positive constant."""
        known = constant_of(self.program.makers.get(op.operands[1]))
        return isinstance(known, int) and known > 0 and bool(dict(op.attributes).get("signed", 1))

    def most(self, value: int) -> int:
        """A number, the same for every row, that `value` never exceeds; made before the loop."""
        if value not in self.inside:
            return value
        if value == self.outer.induction:
            return self.outer.upper
        op = next(op for op in self.before if value in op.results)
        taken = [operand for operand in op.operands if self.is_bounded(operand)]
        operands = [self.most(operand) for operand in taken]
        if len(operands) < len(op.operands):
            return operands[0]
        return self.write.op(op.kind, tuple(operands), I32, op.line, "", **dict(op.attributes))

    def refuse_reloads(self) -> None:
        """What stands before the inner loop is done again in each of its iterations: it must give the same."""
        stored = {op.access.base for op in walk(self.outer.body) if op.kind in STORES and op.access is not None}
        for op in self.before:
            if op.kind == "tile_load" and op.access is not None and op.access.base in stored:
                self.refuse(self.inner, f"a loop inside a loop behind a load from `{op.access.base}`, which is stored")

    def scalar(self, kind: str, *operands: int, **attributes: int) -> int:
        """A new number."""
        return self.write.op(kind, operands, I32, self.outer.line, "", **attributes)

    def compare(self, predicate: str, left: int, right: int) -> int:
        """Whether it holds."""
        return self.write.op("compare", (left, right), TRUTH, self.outer.line, predicate=predicate, signed=1)

    def define(self, value: int, kind: str, *operands: int) -> None:
        """A value of the program, made by a new operation."""
        line, name = self.write.values[value].line, self.write.values[value].name
        self.write.made.append(Op(self.write.fresh(), kind, operands, (value,), (), line, name))

    def trips(self, loop: Loop) -> int:
        """How many iterations a loop has."""
        kind, line = self.program.type_of(loop.step), self.outer.line
        zero, one = self.numbers(kind)
        reach = self.write.op("add", (loop.upper, self.write.op("sub", (loop.step, one), kind, line)), kind, line)
        span = self.write.op("sub", (reach, loop.lower), kind, line)
        rounded = self.write.op("div", (span, loop.step), kind, line, signed=1)
        return self.converted(self.write.op("max", (rounded, zero), kind, line, signed=1), I32)

    def numbers(self, kind: TileType) -> tuple[int, int]:
        """0 and 1."""
        if kind not in self.known:
            line = self.outer.line
            zero, one = (self.write.op("constant", (), kind, line, value=number) for number in (0, 1))
            self.known[kind] = zero, one
        return self.known[kind]

    def count(self, loop: Loop, number: int) -> None:
        """What a loop counts in its iteration of that number."""
        kind = self.program.type_of(loop.step)
        grown = self.write.op("mul", (self.converted(number, kind), loop.step), kind, self.outer.line)
        self.define(loop.induction, "add", loop.lower, grown)

    def converted(self, value: int, kind: TileType) -> int:
        """An integer in so many bits."""
        if self.write.values[value].type == kind:
            return value
        return self.write.op("cast", (value,), kind, self.outer.line, signed=1)

    def begin(self, carry: Carry, first: int) -> Carry:
        """What the inner loop carries: in the first iteration of a row what it begins with."""
        kind = self.program.type_of(carry.argument)
        left, result = self.write.value_like(carry.argument), self.write.value_like(carry.result)
        self.choose(carry.argument, first, carry.init, left)
        init = carry.init if carry.init not in self.inside else self.nothing(kind)
        return Carry(carry.name, init, left, carry.yielded, result)

    def nothing(self, kind: TileType) -> int:
        """Zeros, which nobody sees."""
        made, self.write.made = self.write.made, self.zeros
        value = self.write.op("constant", (), kind, self.inner.line, value=0 if kind.element.startswith("i") else 0.0)
        self.write.made = made
        return value

    def choose(self, value: int, condition: int, yes: int, no: int) -> None:
        """A value of the program, which is one of two by a scalar condition."""
        kind = self.write.values[value].type
        if kind.shape:
            condition = self.write.op("splat", (condition,), TileType(kind.shape, "i1"), self.inner.line)
        self.define(value, "select", condition, yes, no)

    def copy(self, op: Op, stores: int, loads: int | None = None) -> None:
        """An operation, its accesses under a guard."""
        if op.kind in STORES:
            op = self.masked(op, stores)
        elif op.kind == "tile_load" and loads is not None:
            op = self.guarded(op, loads)
        self.write.made.append(op)

    def masked(self, op: Op, guard: int) -> Op:
        """An access where the guard holds, too."""
        if op.mask_operand is None:
            return replace(op, operands=(*op.operands, guard))
        *others, mask = op.operands
        kind = self.write.values[mask].type
        if kind.shape:
            guard = self.write.op("splat", (guard,), kind, op.line)
        return replace(op, operands=(*others, self.write.op("and", (mask, guard), kind, op.line)))

    def guarded(self, op: Op, guard: int) -> Op:
        """A load where the guard holds; what it gives elsewhere is anything. A tensor of the host's is there."""
        access = op.access
        assert access is not None
        described = any(a.name == access.base and a.type.element.startswith("desc:") for a in self.program.arguments)
        if described and access.transport == "tma":
            return op
        if not access.axes:
            return self.masked(op, guard)
        one, zero = (self.scalar("constant", value=number) for number in (1, 0))
        taken = self.scalar("select", guard, one, zero)
        return replace(op, access=nowhere_unless(access, Polynomial.symbol(taken)))
