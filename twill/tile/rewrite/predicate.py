"""Masks that few iterations need are computed in those alone, as predicated updates under a uniform guard.

`%y = select %mask %x %other`, where the mask compares index arithmetic, is %x in every iteration in which the
comparison holds for all elements; whether it does is a comparison of scalars, the ends of the index ranges::

    %some = compare %end %begin predicate=lt     (some element is masked)
    %masked = select %mask %x %other
    %y = amend %x %masked %some

It is done where that changes from iteration to iteration, in a loop that may have more than a few and is not what the
kernel itself has split off from another one, and where %x can be changed in place: in registers, with no other reader.
A steady state is then scheduled as if it had no mask.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from twill.reach import reach
from twill.tile.affine import Polynomial
from twill.tile.dead_code import compact
from twill.tile.flat import only_for_updates
from twill.tile.program import Loop, Op, TileProgram, TileType, reads, walk
from twill.tile.rewrite.match import may_be_updated
from twill.tile.rewrite.writer import OpWriter
from twill.tile.scalars import Scalars
from twill.tile.uniformity import Uniformity, classify, folded_operands
from twill.tile.vocabulary import ELEMENTWISE, NEGATED, VIEWS

FEW = 4  # iterations, of which the ends are most
TRUTH = TileType((), "i1")
SHOWN = ("splat", "expand_dims", "broadcast", "reshape", "transpose")  # the same numbers in another shape

Ends = tuple[Polynomial, Polynomial]
"""The least and the greatest element of a tile."""


@dataclass(frozen=True)
class Holds:
    """`left predicate right` of scalars, which says that a comparison of tiles holds for all elements."""

    left: Polynomial
    predicate: str
    right: Polynomial


def predicate_masks(program: TileProgram) -> TileProgram:
    """The program with such masks under guards; the same one if there are none. Raises `NestedLoop`."""
    if not any(isinstance(item, Loop) for item in program.body):
        return program
    rewriter = _Rewriter(program, classify(program))
    body = tuple(rewriter.loop(item) if isinstance(item, Loop) else item for item in program.body)
    if body == program.body:
        return program
    return compact(replace(program, body=body, values=tuple(rewriter.write.values)))


class _Rewriter:
    def __init__(self, program: TileProgram, uniformity: Uniformity) -> None:
        self.program, self.uniformity = program, uniformity
        self.scalars, self.write = Scalars(program, uniformity), OpWriter(program)
        self.guarded = only_for_updates(program)
        loops = [item for item in program.body if isinstance(item, Loop)]
        self.left = {carry.result for loop in loops for carry in loop.carried}
        self.whole = self.made_whole({op.id for loop in loops for op in walk(loop.body)})

    def loop(self, loop: Loop) -> Loop:
        """A loop with its masks under guards."""
        trip = self.scalars.trip(loop).constant
        goes_on = any(carry.init in self.left for carry in loop.carried)
        if goes_on or (trip is not None and trip < FEW):
            return loop
        self.write.made = []
        for op in loop.body:
            assert isinstance(op, Op)
            holds = self.condition(loop, op) if op.kind == "select" and op.id not in self.guarded else ()
            if holds:
                self.guard(op, holds)
            else:
                self.write.made.append(op)
        body = tuple(self.write.made)
        return loop if body == loop.body else replace(loop, body=body)

    def guard(self, op: Op, holds: tuple[Holds, ...]) -> None:
        """The select under the guard that one of `holds` does not hold."""
        found: int | None = None
        for one in holds:
            ends = (self.write.polynomial(one.left, op.line), self.write.polynomial(one.right, op.line))
            failed = self.write.op("compare", ends, TRUTH, op.line, predicate=NEGATED[one.predicate], signed=1)
            found = failed if found is None else self.write.op("or", (found, failed), TRUTH, op.line)
        assert found is not None
        kind = self.program.type_of(op.results[0])
        masked = self.write.op("select", op.operands, kind, op.line, op.name)
        predicated_update = Op(op.id, "update", (self.unmasked(op), masked, found), op.results, (), op.line, op.name)
        self.write.made.append(predicated_update)

    def unmasked(self, op: Op) -> int:
        """The operand of a select that is no constant: what the mask lets through."""
        yes, no = op.operands[1:]
        return no if yes in self.uniformity.pure else yes

    def condition(self, loop: Loop, op: Op) -> tuple[Holds, ...]:
        """What must hold for the select to change nothing; () if it cannot be said, or is no matter of iterations."""
        mask, value = op.operands[0], self.unmasked(op)
        other = op.operands[1] if value == op.operands[2] else op.operands[2]
        if not self.is_at_hand(other) or value in self.uniformity.pure or mask not in self.uniformity.index:
            return ()
        readers = [v for item in self.program.ops() for v in reads(item)] + [c.yielded for c in loop.carried]
        if readers.count(value) != 1 or not may_be_updated(self.program, self.uniformity, loop, value):
            return ()
        if self.whole & self.made_of(mask):
            return ()  # a task makes it, whose result a guard does not read
        holds = self.everywhere(mask, value == op.operands[1])
        if holds is None or not any(self.varies(loop, one) for one in holds):
            return ()
        return holds

    def made_whole(self, in_loops: set[int]) -> set[int]:
        """Tiles that something needs as they are: what is stored, masks of stores, what is reduced or multiplied."""
        found: set[int] = set()
        for op in self.program.ops():
            if op.kind in (*ELEMENTWISE, *VIEWS):
                continue
            folded = folded_operands(op, op.id in in_loops)
            for value in (one for position, one in enumerate(op.operands) if position not in folded):
                found.add(value)
                while (maker := self.uniformity.makers.get(value)) is not None and maker.kind in VIEWS:
                    value = maker.operands[0]
                    found.add(value)
        return found

    def made_of(self, value: int) -> set[int]:
        """The tiles that a tile of index arithmetic is made of, and itself."""
        makers, index = self.uniformity.makers, self.uniformity.index
        return reach([value], lambda of: index.intersection(makers[of].operands) if of in makers else ())

    def is_at_hand(self, value: int) -> bool:
        """Whether a guard can have a tile without another one: index arithmetic, or one number everywhere."""
        while (op := self.uniformity.makers.get(value)) is not None and op.kind in SHOWN:
            value = op.operands[0]
        number = value in self.uniformity.uniform or (op is not None and op.kind == "constant")
        return number or value in self.uniformity.index

    def varies(self, loop: Loop, one: Holds) -> bool:
        """Whether the ends move against one another from iteration to iteration."""
        return loop.induction in self.scalars.reach_of(one.left - one.right)

    def everywhere(self, mask: int, truth: bool) -> tuple[Holds, ...] | None:
        """What must hold for all elements of a mask to be `truth`; None if that is not known."""
        op = self.uniformity.makers.get(mask)
        if op is None:
            return None
        if op.kind in SHOWN:
            return self.everywhere(op.operands[0], truth)
        if op.kind == ("and" if truth else "or"):
            both = [self.everywhere(operand, truth) for operand in op.operands]
            return None if None in both else tuple(one for part in both for one in part or ())
        attributes = dict(op.attributes)
        predicate = str(attributes.get("predicate"))
        if op.kind != "compare" or predicate not in NEGATED or not attributes.get("signed", 1):
            return None
        if not all(self.program.type_of(operand).element.startswith("i") for operand in op.operands):
            return None  # the negation of a comparison of floats holds for NaN, and its operands need not be sums
        left, right = (self.ends(operand) for operand in op.operands)
        if left is None or right is None:
            return None
        predicate = predicate if truth else NEGATED[predicate]
        greater = predicate in ("ge", "gt")
        return (Holds(left[0 if greater else 1], predicate, right[1 if greater else 0]),)

    def ends(self, value: int) -> Ends | None:
        """The ends of a tile of index arithmetic; None if they are not known."""
        if value in self.uniformity.uniform:
            number = self.scalars.polynomial(value)
            return number, number
        op = self.uniformity.makers.get(value)
        if op is None:
            return None
        if op.kind in SHOWN:
            return self.ends(op.operands[0])
        if op.kind == "range":
            start, end = (int(str(op.attribute(name))) for name in ("start", "end"))
            return Polynomial.constant_of(start), Polynomial.constant_of(end - 1)
        if op.kind == "constant":
            number = Polynomial.constant_of(int(str(op.attribute("value"))))
            return number, number
        return self.ends_of_sum(op)

    def ends_of_sum(self, op: Op) -> Ends | None:
        """The same for a sum or a difference."""
        if op.kind not in ("add", "sub"):
            return None
        left, right = (self.ends(operand) for operand in op.operands)
        if left is None or right is None:
            return None
        low, high = right if op.kind == "add" else (-right[1], -right[0])
        return left[0] + low, left[1] + high
