"""What reductions and scans become: those whose function is one operation, or one for each of several tiles, and the
largest or least element with its index."""

from __future__ import annotations

from dataclasses import dataclass

from twill.tile.mlir import RawBlock, RawOp
from twill.tile.program import Attribute, TileType
from twill.tile.translate.builder import Literal, Made, ProgramBuilder
from twill.tile.translate.elementwise import emit

Combine = tuple[str, dict[str, Attribute]]

# The operation of a combiner region -> (combine, attributes).
COMBINERS: dict[str, Combine] = {
    "arith.addf": ("add", {}), "arith.addi": ("add", {}), "arith.mulf": ("mul", {}), "arith.muli": ("mul", {}),
    "arith.maxnumf": ("max", {}), "arith.maximumf": ("max", {"propagate_nan": 1}),
    "arith.minnumf": ("min", {}), "arith.minimumf": ("min", {"propagate_nan": 1}),
    "arith.maxsi": ("max", {"signed": 1}), "arith.maxui": ("max", {"signed": 0}),
    "arith.minsi": ("min", {"signed": 1}), "arith.minui": ("min", {"signed": 0}),
    "arith.andi": ("and", {}), "arith.ori": ("or", {}), "arith.xori": ("xor", {}),
}  # fmt: skip

# Predicates of `arith.cmpi` and `arith.cmpf` (by their numbers in MLIR) -> the reduction that keeps the first operand
# where they hold.
INTEGERS: dict[int, Combine] = {
    2: ("min", {"signed": 1}), 4: ("max", {"signed": 1}), 6: ("min", {"signed": 0}), 8: ("max", {"signed": 0}),
}  # fmt: skip
FLOATS: dict[int, Combine] = {2: ("max", {}), 4: ("min", {})}
ORDERS = {"arith.cmpi": INTEGERS, "arith.cmpf": FLOATS}
EQUAL = {"arith.cmpi": 0, "arith.cmpf": 1}
LESS_SIGNED = 2
INDICES = ("i8", "i16", "i32", "i64")  # of which the largest number says that there is none


def combiners(op: RawOp) -> tuple[Combine, ...] | None:
    """What the region does to each pair of elements, if it is one operation for each of the tiles."""
    block, count = op.regions[0][0], len(op.operands)
    leave = block.operations[-1]
    if len(block.operations) != count + 1:
        return None
    arguments, made = [argument.id for argument in block.arguments], _made(block)
    found: list[Combine] = []
    for at, result in enumerate(leave.operands):
        one = made.get(result)
        if one is None or set(one.operands) != {arguments[at], arguments[count + at]} or one.name not in COMBINERS:
            return None
        found.append(COMBINERS[one.name])
    return tuple(found)


def _made(block: RawBlock) -> dict[int, RawOp]:
    return {result.id: one for one in block.operations for result in one.results}


def reduce(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...] | None:
    """`tt.reduce`: axis, combine; one reduction for each tile, or those of `indexed`."""
    found = combiners(op)
    if found is None:
        return indexed(op, emitter)
    made: list[Made] = []
    for operand, result, (combine, attributes) in zip(op.operands, op.results, found, strict=True):
        given = {"axis": op.attributes["axis"], "combine": combine, **attributes}
        made += emitter.emit(op, "reduce", (emitter.value(operand),), (result.type,), tuple(given.items()))
    return tuple(made)


def scan(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...] | None:
    """`tt.scan` of one tile: axis, combine, reverse."""
    found = combiners(op)
    if found is None or len(found) != 1:
        return None
    ((combine, attributes),) = found
    reverse = int(op.attributes["reverse"])
    return emit(op, emitter, "scan", {"axis": op.attributes["axis"], "combine": combine, "reverse": reverse,
                                       **attributes})  # fmt: skip


@dataclass(frozen=True)
class _Region:
    """A region over two pairs (value, index): what each of its values is made of."""

    arguments: tuple[int, ...]
    made: dict[int, RawOp]

    def compared(self, value: int, at: int) -> tuple[str, int] | None:
        """The comparison that `value` is, if it is one of the first and second pair's `at`, in this order."""
        op = self.made.get(value)
        sides = (self.arguments[at], self.arguments[2 + at])
        return (op.name, op.attributes["predicate"]) if op and op.name in ORDERS and op.operands == sides else None

    def parts(self, value: int, name: str) -> tuple[int, ...]:
        """The two operands of an operation of that name, in both orders."""
        op = self.made.get(value)
        return op.operands if op and op.name == name else ()

    def tie(self, value: int) -> bool:
        """Whether `value` is: the values are equal, and the first index is the smaller one."""
        found = [[self.compared(part, at) for at in (0, 1)] for part in self.parts(value, "arith.andi")]
        for first, second in (found, found[::-1]) if found else ():
            equal = first[0] is not None and EQUAL[first[0][0]] == first[0][1]
            if equal and second[1] == ("arith.cmpi", LESS_SIGNED):
                return True
        return False


def selection(op: RawOp) -> Combine | None:
    """The reduction of the values, if the region keeps of two pairs (value, index) the one of the larger (or smaller)
    value, and of equal values the one of the smaller index, or any."""
    block = op.regions[0][0]
    if len(op.operands) != 2:
        return None
    region = _Region(tuple(argument.id for argument in block.arguments), _made(block))
    conditions: set[int] = set()
    for at, result in enumerate(block.operations[-1].operands):
        chosen = region.made.get(result)
        sides = (region.arguments[at], region.arguments[2 + at])
        if chosen is None or chosen.name != "arith.select" or chosen.operands[1:] != sides:
            return None
        conditions.add(chosen.operands[0])
    if len(conditions) != 1:
        return None
    (condition,) = conditions
    better = condition
    if either := region.parts(condition, "arith.ori"):
        untied = [part for part in either if not region.tie(part)]
        if len(untied) != 1:
            return None
        (better,) = untied
    order = region.compared(better, 0)
    return ORDERS[order[0]].get(order[1]) if order else None


def indexed(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...] | None:
    """The largest (or least) value m along the axis, and the smallest of the indices where the value is m.

    A NaN is no larger than any number, as for `tl.max`; where all are NaN, each of them counts as m, so that the index
    is always one of those that are there.
    """
    found = selection(op)
    if found is None or emitter.type_of(op.operands[1]).element not in INDICES:
        return None
    values, indices = map(emitter.value, op.operands)
    kind, index_kind = map(emitter.type_of, op.operands)
    truth, axis = TileType(kind.shape, "i1"), op.attributes["axis"]
    along = (("axis", axis),)
    best_kind, chosen_kind = (result.type for result in op.results)
    combine, attributes = found
    (best,) = emitter.emit(op, "reduce", (values,), (best_kind,), (*along, ("combine", combine), *attributes.items()))
    spread = best
    if best_kind.shape:
        column = TileType((*best_kind.shape[:axis], 1, *best_kind.shape[axis:]), kind.element)
        (spread,) = emitter.emit(op, "expand_dims", (best,), (column,), along)
    (spread,) = emitter.emit(op, "broadcast" if best_kind.shape else "splat", (spread,), (kind,))
    equal: tuple[tuple[str, Attribute], ...] = (("predicate", "eq"),)
    signed = () if kind.element.startswith(("f", "bf")) else (("signed", 1),)
    (here,) = emitter.emit(op, "compare", (values, spread), (truth,), (*equal, *signed))
    if not signed:
        (none,) = emitter.emit(op, "compare", (spread, spread), (truth,), (("predicate", "ne"),))
        (here,) = emitter.emit(op, "or", (here, none), (truth,))
    beyond = emitter.constant(Literal(2 ** (int(index_kind.element[1:]) - 1) - 1, index_kind))
    (counted,) = emitter.emit(op, "select", (here, indices, beyond), (index_kind,))
    least = (*along, ("combine", "min"), ("signed", 1))
    return best, *emitter.emit(op, "reduce", (counted,), (chosen_kind,), least)
