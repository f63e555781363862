"""A loop over tiles around a kernel's work: its tiles become the program instances.

::

    tile_id_c = tl.program_id(0) - NUM_SMS
    for tile_id in tl.range(tl.program_id(0), num_tiles, NUM_SMS):   # NUM_SMS, or tl.num_programs(0)
        ...                                                          # a whole GEMM
        tile_id_c += NUM_SMS                                         # equal to tile_id

is the program whose grid has `num_tiles` instances and whose grid index is `tile_id`. That is so where no iteration
needs what another one leaves:

- what is carried is a function of the tile, as `tile_id_c` is: it begins as m·program_id + rest and grows by m·stride;
- nothing is loaded from a tensor that the kernel writes, and what an atomic operation gives is not read;
- nothing else depends on the program's own number, or on how many there are;
- every store's address depends on the tile, and by no remainder of the stride: two tiles that would write the same
  element are ones of different programs for some grid, which have no order in Triton either.

The launch looks after the grid (`twill.manifest.tile_loop`): its programs have to reach every tile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from twill.manifest.evaluate import Scalar, ScalarOperation, evaluable
from twill.manifest.tile_loop import TileLoop
from twill.tile.affine import Polynomial
from twill.tile.dead_code import EFFECTS, compact
from twill.tile.order_dependence import depends_on_order
from twill.tile.program import Carry, Items, Loop, Op, TileProgram, every, loops_of, walk

ADDS = frozenset({"atomic_add", "descriptor_reduce"})
LOADS = frozenset({"load", "descriptor_load"})
VIEWS_OF_POINTERS = frozenset({"add_pointer", "splat", "broadcast", "expand_dims", "reshape", "transpose",
                               "make_descriptor", "bitcast"})  # fmt: skip


def of_tiles(program: TileProgram) -> TileProgram | None:
    """The program of one tile, for a raw program that ends with a loop over tiles. None if its tiles are not
    independent of one another, or it has no such loop."""
    *before, last = program.body
    if depends_on_order(program):
        return None
    if not isinstance(last, Loop) or any(isinstance(item, Loop) for item in before):
        return None
    return _TileAnalysis(program, tuple(op for op in before if isinstance(op, Op)), last).instances()


@dataclass(frozen=True)
class _TileAnalysis:
    """One program: operations, then a loop."""

    program: TileProgram
    before: tuple[Op, ...]
    loop: Loop

    def instances(self) -> TileProgram | None:
        """See `of_tiles`."""
        loop, makers = self.loop, self.program.makers
        index = makers.get(loop.lower)
        if index is None or index.kind != "program_id":
            return None
        axis = int(str(index.attribute("axis")))
        numbers = {
            op.results[0] for op in self.program.ops() if op.kind == "program_id" and op.attribute("axis") == axis
        }
        own = reached(self.before, numbers)  # what depends on the program's own number
        steps, count = self._stride(makers, axis), _scalar(self.program, makers, loop.upper)
        if steps is None or count is None or not self._begins_alike(own, numbers):
            return None
        if not all(self._follows(carry, makers, own, numbers) for carry in loop.carried):
            return None
        tile = {loop.induction, *(carry.argument for carry in loop.carried)}
        if not self._independent(reached(loop.body, tile)):
            return None
        stride = None if isinstance(steps, Op) else steps
        once = any(op.kind in ADDS for op in self.program.ops())
        stands_for = {loop.induction: loop.lower, **dict.fromkeys(numbers, loop.lower)}
        stands_for |= {carry.argument: carry.init for carry in loop.carried}
        step, number = self._polynomial(loop.step, makers, numbers), Polynomial.symbol(loop.lower)
        for carry in loop.carried:
            begin = self._polynomial(carry.init, makers, numbers)
            if begin + begin.coefficient_of(loop.lower) * step == number:
                stands_for[carry.yielded] = loop.lower
        body = (*renamed(self.before, {}), *renamed(loop.body, stands_for))
        made = compact(replace(self.program, body=body, tiles=TileLoop(axis, count, stride, once)))
        programs = any(op.kind == "num_programs" and op.attribute("axis") == axis for op in made.ops())
        return None if programs else made

    def _stride(self, makers: Mapping[int, Op], axis: int) -> Scalar | Op | None:
        """What the loop steps by: the operation `num_programs`, or a scalar of the launch; None if neither."""
        step = makers.get(self.loop.step)
        if step is not None and step.kind == "num_programs":
            return step if step.attribute("axis") == axis else None
        scalar = _scalar(self.program, makers, self.loop.step)
        return None if isinstance(scalar, int | float) and scalar < 2 else scalar

    def _begins_alike(self, own: set[int], numbers: set[int]) -> bool:
        """Whether only what is carried begins with the program's own number, and nothing is written before the loop."""
        if any(op.kind in EFFECTS for op in self.before):
            return False
        loop = self.loop
        if any(result in numbers for op in walk(loop.body) for result in op.results):
            return False
        inside = {value for item in every(loop.body) for value in _reads(item)}
        return not own & (inside | {loop.upper, loop.step, *(carry.yielded for carry in loop.carried)})

    def _follows(self, carry: Carry, makers: Mapping[int, Op], own: set[int], numbers: set[int]) -> bool:
        """Whether a carried value is m·tile + rest: it begins as m·number + rest and grows by m·stride."""
        kind = self.program.type_of(carry.argument)
        if kind.shape or not kind.element.startswith("i"):
            return False
        number = self.loop.lower
        begin = self._polynomial(carry.init, makers, numbers)
        grows = self._polynomial(carry.yielded, makers, numbers) - Polynomial.symbol(carry.argument)
        try:
            slope = begin.coefficient_of(number)
        except ValueError:
            return False
        rest = begin - slope * Polynomial.symbol(number)
        if (slope.symbols() | rest.symbols()) & (own | numbers):
            return False
        return grows == slope * self._polynomial(self.loop.step, makers, numbers)

    def _polynomial(self, value: int, makers: Mapping[int, Op], numbers: set[int]) -> Polynomial:
        """A scalar as sums and products, modulo what its type holds."""
        op = makers.get(value)
        if value in numbers:
            return Polynomial.symbol(self.loop.lower)
        if op is not None and op.kind == "constant":
            known = op.attribute("value")
            return Polynomial.constant_of(known) if isinstance(known, int) else Polynomial.symbol(value)
        if op is None or op.kind not in ("add", "sub", "mul"):
            return Polynomial.symbol(value)
        left, right = (self._polynomial(operand, makers, numbers) for operand in op.operands)
        return {"add": left + right, "sub": left - right, "mul": left * right}[op.kind]

    def _independent(self, tiles: set[int]) -> bool:
        """Whether no tile needs what another one leaves. tiles: values that depend on the tile."""
        found_pointers = pointers(self.program)
        written, loaded = set[int](), set[int]()
        combined: dict[int, tuple[object, object]] = {}
        for op in self.program.ops():
            if op.kind in ("rem", "div") and op.operands[1] == self.loop.step and op.operands[0] in tiles:
                return False
            if op.kind not in EFFECTS | LOADS:
                continue
            if op.operands[0] not in found_pointers:
                return False
            (loaded if op.kind in LOADS else written).add(found_pointers[op.operands[0]])
            if op.kind in ADDS and self._read(op.results):
                return False
            said = dict(op.attributes)
            how = (said.get("combine", "add"), said.get("signed", 1))
            if op.kind in ADDS and combined.setdefault(found_pointers[op.operands[0]], how) != how:
                return False  # a maximum and then a minimum are something else than a minimum and then a maximum
            address = (op.operands[0], *op.operands[2:]) if op.kind == "descriptor_store" else op.operands[:1]
            if op.kind in EFFECTS - ADDS and not tiles.intersection(address):
                return False
        return not written & loaded

    def _read(self, values: tuple[int, ...]) -> bool:
        """Whether anything reads one of these."""
        carried = {carry.yielded for loop in loops_of(self.program.body) for carry in loop.carried}
        return bool(carried.union(*(_reads(item) for item in every(self.program.body))).intersection(values))


def pointers(program: TileProgram) -> dict[int, int]:
    """The argument that each pointer or descriptor points into, where it is one."""
    found = {one.value: one.value for one in program.arguments if ":" in one.type.element}
    for item in every(program.body):  # in program order: what a loop carries points where it began
        if isinstance(item, Loop):
            for carry in item.carried:
                if carry.init in found:
                    found[carry.argument] = found[carry.result] = found[carry.init]
        elif item.kind in VIEWS_OF_POINTERS and item.operands[0] in found:
            found[item.results[0]] = found[item.operands[0]]
    return found


def _reads(item: Op | Loop) -> tuple[int, ...]:
    """What an operation reads, or a loop to begin with and to yield."""
    if isinstance(item, Op):
        return item.operands
    carried = [value for carry in item.carried for value in (carry.init, carry.yielded)]
    return (item.lower, item.upper, item.step, *carried)


def reached(items: Items, values: set[int]) -> set[int]:
    """The values, and what is computed from them."""
    found, known = set(values), -1
    while len(found) != known:  # once more for what a loop carries
        known = len(found)
        for item in every(items):
            if isinstance(item, Op):
                if found.intersection(item.operands):
                    found.update(item.results)
                continue
            if found.intersection((item.lower, item.upper, item.step)):
                found.add(item.induction)
                found.update(value for carry in item.carried for value in (carry.argument, carry.result))
            for carry in item.carried:
                if found.intersection((carry.init, carry.yielded)):
                    found.update((carry.argument, carry.result))
    return found


def _scalar(program: TileProgram, makers: Mapping[int, Op], value: int) -> Scalar | None:
    """A scalar over the arguments of a launch; None if it is made of anything else."""
    names = {one.value: one.name for one in program.arguments if ":" not in one.type.element and "." not in one.name}
    if value in names:
        return names[value]
    op = makers.get(value)
    if op is None:
        return None
    if op.kind == "constant":
        known = op.attribute("value")
        return known if isinstance(known, int | float) else None
    if not evaluable(op.kind) or dict(op.attributes).get("signed", 1) != 1:
        return None
    operands = [_scalar(program, makers, operand) for operand in op.operands]
    known_ones = tuple(operand for operand in operands if operand is not None)
    if len(known_ones) != len(operands):
        return None
    attributes = tuple((name, value) for name, value in op.attributes if not isinstance(value, tuple))
    return ScalarOperation(op.kind, program.type_of(value).element, known_ones, attributes)


def renamed(items: Items, stands_for: Mapping[int, int]) -> Items:
    """The items with values replaced."""
    return tuple(renamed_item(item, stands_for) for item in items)


def renamed_item(item: Op | Loop, stands_for: Mapping[int, int]) -> Op | Loop:
    """The same of one item."""

    def now(value: int) -> int:
        return stands_for.get(value, value)

    if isinstance(item, Op):
        return replace(item, operands=tuple(map(now, item.operands)))
    carried = tuple(replace(carry, init=now(carry.init), yielded=now(carry.yielded)) for carry in item.carried)
    return replace(
        item, lower=now(item.lower), upper=now(item.upper), step=now(item.step), carried=carried,
        body=renamed(item.body, stands_for),
    )  # fmt: skip
