"""Numbers that addresses or trip counts are made of, and that are summed from memory, are looked up by a scalar loop.

::

    n = tl.sum(tl.load(lengths + i, mask=i < row))     # i = tl.arange(0, 64); a reduction of a tile
    for j in range(row):                               # a loop over scalars alone
        n += tl.load(lengths + j)
    ... tl.load(x + n + offsets)

A tile is reduced by the threads of a warp group, which alone have the result; addresses are made where loads and stores
are, by any group. As one operation `scalar_loop` (`twill.tile.scalar_region`) such a number is computed by whoever
needs it. That is done for sums, maxima and minima of integers in tensors that the kernel does not write, and for no
other number: threads look up one element after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from twill.reach import reach
from twill.tile.program import Attribute, Items, Loop, Op, TileProgram, TileType, loops_of
from twill.tile.rewrite.op_rewriter import OpRewriter
from twill.tile.scalar_region import ScalarRegion
from twill.tile.vocabulary import COUNTED, ELEMENTWISE, MMA, REARRANGE, REDUCE, SCALAR_LOOP, SCAN, VIEWS

LONGEST = 1024  # elements of a tile
MOST = 200  # operations for each of them: a search in a table that is written out has thousands
COMBINES = ("add", "max", "min")
STORES = frozenset({"store", "atomic_add", "descriptor_store", "descriptor_reduce", "elected"})
INDEX, TRUTH = TileType((), "i64"), TileType((), "i1")


def look_up_sums(program: TileProgram) -> TileProgram:
    """The program with such operations; the same one if there are none."""
    return _Writer(program).rewritten()


class _NoSum(Exception):  # noqa: N818, the number is left as it is
    """A number is no sum of numbers in memory that are only read."""


@dataclass
class _Region:
    """What a scalar loop is made of. ops: those of an iteration; made: numbers of it by the program's values."""

    ops: list[Op] = field(default_factory=list)
    made: dict[int, int] = field(default_factory=dict)


class _Writer(OpRewriter):
    def __init__(self, program: TileProgram) -> None:
        super().__init__(program)
        self.parameters = {argument.value: argument.name for argument in program.arguments}
        self.written = {self.base(op.operands[0]) for op in program.ops() if op.kind in STORES and op.operands}
        self.unsure = any(op.kind == "elected" for op in program.ops()) or None in self.written
        self.addresses = self.reaching()
        self.data = dict[int, bool]()  # answers of `is_data`
        self.around: list[Loop] = []
        self.multiplies = any(op.kind in MMA for op in program.ops())

    # -- which numbers -----------------------------------------------------------------------------

    def reaching(self) -> frozenset[int]:
        """Integer values that addresses or trip counts are made of."""
        loops = list(loops_of(self.program.body))
        found = {value for loop in loops for value in (loop.lower, loop.upper, loop.step)}
        found |= {op.operands[1] for op in self.program.ops() if op.kind == "add_pointer"}
        while True:
            more = set[int]()
            for op in self.program.ops():
                if (op.kind in ELEMENTWISE or op.kind in (*VIEWS, "splat")) and not found.isdisjoint(op.results):
                    more.update(op.operands)
            for carry in (carry for loop in loops for carry in loop.carried):
                if found & {carry.argument, carry.result}:
                    more |= {carry.init, carry.yielded}
            if more <= found:
                return frozenset(found)
            found |= more

    def is_integer(self, value: int) -> bool:
        """Whether a value is an integer scalar of 32 or 64 bits."""
        return self.write.values[value].type in (TileType((), "i32"), INDEX)

    def is_data(self, value: int) -> bool:
        """Whether a number is made of one that stays the result of a warp group's threads."""
        if value not in self.data:
            op = self.write.makers.get(value)
            kinds = (*REDUCE, *SCAN, *REARRANGE, *MMA)
            self.data[value] = op is not None and (op.kind in kinds or any(map(self.is_data, op.operands)))
        return self.data[value]

    def changes(self, value: int) -> bool:
        """Whether a number is another one in each iteration of a loop without products, in which no other loop is: the
        warp group that does everything sums tiles up, and nobody looks numbers up again and again."""
        loop = self.around[-1] if self.around else None
        if loop is None or self.multiplies or any(isinstance(item, Loop) for item in loop.body):
            return False
        varying = {loop.induction, *(carry.argument for carry in loop.carried)}
        makers = self.write.makers
        return not varying.isdisjoint(reach([value], lambda one: makers[one].operands if one in makers else ()))

    # -- what they become --------------------------------------------------------------------------

    def loop(self, loop: Loop) -> Items:
        """The loop, or the scalar loop that it is."""
        if not self.unsure and any(carry.result in self.addresses for carry in loop.carried):
            with suppress(_NoSum):
                made = self.of_loop(loop)
                self.changed = True
                return (made,)
        self.around.append(loop)
        made_anew = super().loop(loop)
        self.around.pop()
        return made_anew

    def instead(self, op: Op) -> list[Op]:
        """The operation, or the scalar loop that it is, behind what that begins with."""
        wanted = op.kind == "reduce" and len(op.results) == 1 and op.results[0] in self.addresses
        wanted = wanted and not self.changes(op.operands[0])
        if wanted and not self.unsure and self.is_integer(op.results[0]):
            with suppress(_NoSum):
                return self.of_reduction(op)
        return [op]

    def of_reduction(self, op: Op) -> list[Op]:
        """The loop over the elements of a tile."""
        kind, shape = self.write.values[op.results[0]].type, self.program.type_of(op.operands[0]).shape
        combine = str(op.attribute("combine"))
        signed = combine == "add" or dict(op.attributes).get("signed", 1)
        if len(shape) != 1 or shape[0] > LONGEST or combine not in COMBINES or not signed:
            raise _NoSum
        largest = (1 << 63 if kind.element == "i64" else 1 << 31) - 1
        begin = {"add": 0, "max": -largest - 1, "min": largest}[combine]
        inits = tuple(self.number(value, of, op) for value, of in ((0, INDEX), (begin, kind)))
        end, one = (self.number(value, INDEX, op) for value in (shape[0], 1))
        outside = list(self.write.made)
        region = _Region()
        index, before = self.fresh(INDEX), self.fresh(kind)
        element = self.element(op.operands[0], index, region, op)
        signs = {name: value for name, value in op.attributes if name == "signed"}
        total = self.inner(combine, (before, element), kind, region, op, **signs)
        following = self.inner("add", (index, one), INDEX, region, op)
        return [*outside, self.scalar_loop(op, inits, (index, before), end, region, (following, total), op.results)]

    def of_loop(self, loop: Loop) -> Op:
        """The loop over scalars as one operation."""
        kinds = [self.write.values[carry.argument].type for carry in loop.carried]
        step = self.write.makers.get(loop.step)
        steps = step is not None and step.kind == "constant" and int(str(step.attribute("value"))) > 0
        if any(kind.shape or ":" in kind.element for kind in kinds) or not steps:
            raise _NoSum
        arguments = (loop.induction, *(carry.argument for carry in loop.carried))
        inside = tuple(map(self.write.value_like, arguments))
        region = _Region(made=dict(zip(arguments, inside, strict=True)))
        for item in loop.body:
            if isinstance(item, Loop):
                raise _NoSum
            self.scalar(item, region)
        at = Op(0, "", (), (), (), loop.line, "")
        kind = self.write.values[loop.induction].type
        following = self.inner("add", (inside[0], loop.step), kind, region, at)
        inits = (loop.lower, *(carry.init for carry in loop.carried))
        yielded = (following, *(region.made.get(c.yielded, c.yielded) for c in loop.carried))
        results = tuple(carry.result for carry in loop.carried)
        return self.scalar_loop(at, inits, inside, loop.upper, region, yielded, results)

    def scalar_loop(
        self, op: Op, inits: tuple[int, ...], inside: tuple[int, ...], end: int, region: _Region,
        yielded: tuple[int, ...], results: tuple[int, ...],
    ) -> Op:  # fmt: skip
        """A scalar loop whose first number counts to `end`. inside: its numbers in an iteration; results: of all but
        the first."""
        holds, arguments = self.fresh(TRUTH), tuple(map(self.write.value_like, inside))
        before = (Op(0, "compare", (arguments[0], end), (holds,), (("predicate", "lt"), ("signed", 1)), op.line, ""),)
        body = tuple(region.ops)
        defined = {*arguments, *inside, *(result for one in (*before, *body) for result in one.results)}
        read = [*inits, *yielded, *(operand for one in (*before, *body) for operand in one.operands)]
        parameters = tuple(dict.fromkeys(value for value in read if value not in defined))
        looks = any(one.kind == "look_up" for one in body)
        if not looks or any(self.write.values[value].type.shape for value in (*parameters, *defined)):
            raise _NoSum
        if any(map(self.is_data, parameters)):  # it would be no more known than these
            raise _NoSum
        types = tuple((value, self.write.values[value].type.element) for value in sorted({*parameters, *defined}))
        made = ScalarRegion(parameters, inits, arguments, before, holds, arguments, inside, body, yielded, types)
        every = (self.write.value_like(arguments[0]), *results)
        self.data |= dict.fromkeys(every, False)
        number, attributes = self.write.fresh(), ((COUNTED, 1),)
        return Op(number, SCALAR_LOOP, parameters, every, attributes, op.line, op.name, region=made)

    # -- one element -------------------------------------------------------------------------------

    def element(self, value: int, index: int, region: _Region, at: Op) -> int:
        """The element of a tile that an index says, as a number of the region."""
        if value in region.made:
            return region.made[value]
        kind, op = self.write.values[value].type, self.write.makers.get(value)
        if not kind.shape:
            return value
        if op is None or len(op.results) != 1:
            raise _NoSum
        one = TileType((), kind.element)
        part = partial(self.element, index=index, region=region, at=at)
        if op.kind == "range":
            start = self.inner("constant", (), INDEX, region, op, value=int(str(op.attribute("start"))))
            there = self.inner("add", (index, start), INDEX, region, op)
            made = self.inner("cast", (there,), one, region, op, signed=1)
        elif op.kind == "splat":
            made = op.operands[0]
        elif op.kind in VIEWS and self.write.values[op.operands[0]].type.shape == kind.shape:
            made = part(op.operands[0])
        elif op.kind == "constant":
            made = self.inner("constant", (), one, region, op, **dict(op.attributes))
        elif op.kind == "load":
            made = self.looked_up(op, one, part, region)
        elif op.kind in ELEMENTWISE and op.kind not in ("update", "inline_asm"):
            made = self.inner(op.kind, tuple(map(part, op.operands)), one, region, op, **dict(op.attributes))
        else:
            raise _NoSum
        region.made[value] = made
        return made

    def scalar(self, op: Op, region: _Region) -> None:
        """An operation of a loop over scalars, as one of the region."""
        if op.kind == "add_pointer":
            return  # part of what loads by it
        if len(op.results) != 1 or self.write.values[op.results[0]].type.shape:
            raise _NoSum
        kind = self.write.values[op.results[0]].type

        def part(value: int) -> int:
            return region.made.get(value, value)

        if op.kind == "load":
            region.made[op.results[0]] = self.looked_up(op, kind, part, region)
        elif op.kind in ELEMENTWISE and op.kind not in ("update", "inline_asm") and ":" not in kind.element:
            made = self.inner(op.kind, tuple(map(part, op.operands)), kind, region, op, **dict(op.attributes))
            region.made[op.results[0]] = made
        else:
            raise _NoSum

    def looked_up(self, op: Op, kind: TileType, part: Callable[[int], int], region: _Region) -> int:
        """A number that is loaded, where its mask and the branch that it is in say so. part: a number of the region."""
        base, index = self.way(op.operands[0], part, region, op)
        if base is None or base in self.written:
            raise _NoSum
        attributes = dict(op.attributes)
        masks, guards = list(op.operands[1:]), []
        if attributes.get("guarded"):
            guards.append(masks.pop())
        given = [part(mask) for mask in (*masks[:1], *guards)]
        mask = tuple(given[:1])
        if len(given) > 1:
            mask = (self.inner("and", tuple(given), TRUTH, region, op),)
        found = self.inner("look_up", (index, *mask), kind, region, op, base=base, element=kind.element, pad=0)
        return found if len(masks) < 2 else self.inner("select", (mask[0], found, part(masks[1])), kind, region, op)

    def way(self, pointer: int, part: Callable[[int], int], region: _Region, at: Op) -> tuple[str | None, int]:
        """The argument that a pointer points into, and by how many elements."""
        index = self.inner("constant", (), INDEX, region, at, value=0)
        while (op := self.write.makers.get(pointer)) is not None:
            if op.kind == "add_pointer":
                offset = part(op.operands[1])
                wide = self.inner("cast", (offset,), INDEX, region, at, signed=1)
                index = self.inner("add", (index, wide), INDEX, region, at)
            elif op.kind != "splat":
                return None, index
            pointer = op.operands[0]
        return self.parameters.get(pointer), index

    def base(self, pointer: int) -> str | None:
        """The argument that a pointer points into."""
        while (op := self.write.makers.get(pointer)) is not None and op.kind in ("add_pointer", *VIEWS, "splat"):
            pointer = op.operands[0]
        return self.parameters.get(pointer)

    def inner(
        self, kind: str, operands: tuple[int, ...], result: TileType, region: _Region, at: Op,
        **attributes: Attribute,
    ) -> int:  # fmt: skip
        """An operation of the region; its result. A conversion to the type that it has is none."""
        if kind == "cast" and self.write.values[operands[0]].type == result:
            return operands[0]
        if len(region.ops) >= MOST:
            raise _NoSum
        made = self.fresh(result)
        region.ops.append(Op(0, kind, operands, (made,), tuple(attributes.items()), at.line, at.name))
        return made

    def number(self, value: int, kind: TileType, at: Op) -> int:
        """A constant in front of the loop."""
        return self.write.op("constant", (), kind, at.line, value=value)

    def fresh(self, kind: TileType) -> int:
        """A new number."""
        self.write.values.append(replace(self.write.values[0], id=len(self.write.values), type=kind, name=""))
        return len(self.write.values) - 1
