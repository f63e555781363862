"""A pointer that a condition chooses among several is each of them, and every access by it one by each.

::

    p = select(c, A + i, B + j)            a = load(A + i + k), guarded by c
    v = load(p + k)               becomes  b = load(B + j + k), guarded by not c
                                           v = select(c, a, b)

So each access has a tensor that is known. A loop that moves a chosen pointer carries each of them on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from twill.exc import DataDependentControlFlow
from twill.tile.program import Carry, Items, Loop, Op, TileProgram, TileType
from twill.tile.rewrite.op_rewriter import OpRewriter

TRUTH = TileType((), "i1")
MOVES = frozenset({"add_pointer", "splat", "broadcast", "expand_dims", "reshape", "transpose", "bitcast"})
ACCESSES = frozenset({"load", "store", "atomic_add"})
GUARDED = "guarded"

Choice = tuple[tuple[int, int], ...]
"""(scalar condition, pointer) of each; one of the conditions holds."""


def distribute_choices(program: TileProgram) -> TileProgram:
    """The program in which no operation chooses a pointer; the same one if none does. Raises
    `DataDependentControlFlow` for a chosen pointer that is used in another way."""
    return _Distributor(program).rewritten()


@dataclass
class _Distributor(OpRewriter):
    """choices: of the values that are none of the new program's."""

    choices: dict[int, Choice] = field(default_factory=dict)

    def instead(self, op: Op) -> list[Op]:
        """The operation, by each pointer if by a chosen one."""
        if op.kind == "select" and self.program.type_of(op.results[0]).element.startswith("ptr:"):
            self.choice(op)
        elif self.choices.keys().isdisjoint(op.operands):
            self.write.made.append(op)
        elif op.kind in MOVES:
            self.moved(op)
        elif op.kind in ACCESSES and op.operands[0] in self.choices:
            self.accessed(op)
        else:
            self.refuse(op)
        return self.write.made

    def choice(self, op: Op) -> None:
        """What a select chooses among."""
        condition = op.operands[0]
        while (maker := self.write.makers.get(condition)) is not None and maker.kind in MOVES:
            condition = maker.operands[0]
        if self.write.values[condition].type != TRUTH:
            self.write.made.append(op)  # element by element: refused where it is accessed
            return
        sides = []
        for truth, side in zip((True, False), op.operands[1:], strict=True):
            holds = condition if truth else self.negated(condition, op)
            if side in self.choices:
                sides += [(self.both(holds, inner, op), pointer) for inner, pointer in self.choices[side]]
            else:
                sides.append((holds, side))
        self.choices[op.results[0]] = tuple(sides)

    def moved(self, op: Op) -> None:
        """Each pointer moved, or shown otherwise."""
        sides = []
        kind = self.write.values[op.results[0]].type
        for condition, pointer in self.choices[op.operands[0]]:
            made = self.write.op(op.kind, (pointer, *op.operands[1:]), kind, op.line, op.name, **dict(op.attributes))
            sides.append((condition, made))
        self.choices[op.results[0]] = tuple(sides)

    def accessed(self, op: Op) -> None:
        """An access by each pointer, where its condition holds."""
        attributes = dict(op.attributes)
        guards = op.operands[-1:] if attributes.get(GUARDED) else ()
        operands = op.operands[1 : len(op.operands) - len(guards)]
        given: list[tuple[int, int]] = []
        for condition, pointer in self.choices[op.operands[0]]:
            guard = self.both(guards[0], condition, op) if guards else condition
            said = tuple({**attributes, GUARDED: 1}.items())
            results = tuple(map(self.write.value_like, op.results))
            one = Op(self.write.fresh(), op.kind, (pointer, *operands, guard), results, said, op.line, op.name)
            self.write.made.append(one)
            given += [(condition, result) for result in results]
        if given:
            self.chosen(op, given)

    def chosen(self, op: Op, given: Sequence[tuple[int, int]]) -> None:
        """The result of an access: that of the one whose condition holds."""
        kind = self.write.values[op.results[0]].type
        (_, value), *others = given
        for number, (condition, other) in enumerate(others):
            if kind.shape:
                condition = self.write.op("splat", (condition,), TileType(kind.shape, "i1"), op.line, op.name)
            operands = (condition, other, value)
            if number < len(others) - 1:
                value = self.write.op("select", operands, kind, op.line, op.name)
            else:
                self.write.made.append(Op(op.id, "select", operands, op.results, (), op.line, op.name))

    def loop(self, loop: Loop) -> Items:
        """The loop, which carries each pointer of a choice."""
        carried: list[Carry] = []
        moved: list[tuple[Carry, list[Carry]]] = []
        for carry in loop.carried:
            if carry.init not in self.choices:
                carried.append(carry)
                continue
            each = []
            for _, pointer in self.choices[carry.init]:
                argument, result = (self.write.value_like(value) for value in (carry.argument, carry.result))
                each.append(Carry(carry.name, pointer, argument, argument, result))
            conditions = [condition for condition, _ in self.choices[carry.init]]
            self.choices[carry.argument] = tuple(zip(conditions, (one.argument for one in each), strict=True))
            self.choices[carry.result] = tuple(zip(conditions, (one.result for one in each), strict=True))
            moved.append((carry, each))
        body = self.block(loop.body)
        for carry, each in moved:
            yielded = self.choices.get(carry.yielded, ())
            if [condition for condition, _ in yielded] != [condition for condition, _ in self.choices[carry.init]]:
                self.refuse(loop)
            carried += [replace(one, yielded=pointer) for one, (_, pointer) in zip(each, yielded, strict=True)]
        if any(carry.yielded in self.choices for carry in carried):
            self.refuse(loop)
        return (replace(loop, carried=tuple(carried), body=body),)

    def negated(self, condition: int, op: Op) -> int:
        """That a condition does not hold."""
        one = self.write.op("constant", (), TRUTH, op.line, value=1)
        return self.write.op("xor", (condition, one), TRUTH, op.line)

    def both(self, one: int, other: int, op: Op) -> int:
        """That two conditions hold."""
        return self.write.op("and", (one, other), TRUTH, op.line)

    def refuse(self, item: Op | Loop) -> None:
        """For what can't be done by each pointer."""
        raise DataDependentControlFlow(
            "data-dependent control flow: an `if` chooses a pointer, and it is used for more than loads and stores",
            file=self.program.file,
            line=item.line,
            hint="the loads and stores themselves under the `if`, or an offset that it chooses",
        )
