"""The tile program while it is being made: numbering, constants, and the loop that is open."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

from twill.kernel.specialization import Specialization
from twill.tile.dead_code import compact
from twill.tile.invariant_carries import without_invariant_carries
from twill.tile.mlir import RawBlock, RawOp, RawValue
from twill.tile.program import POINTEE, Argument, Attribute, Loop, Op, TileProgram, TileType, Value
from twill.tile.scalar_region import ScalarRegion
from twill.tile.vocabulary import SCALAR_LOOP


@dataclass(frozen=True)
class Literal:
    """A tile every element of which is known now; it becomes a "constant" if something reads it."""

    number: int | float
    type: TileType


Made = int | Literal

Condition = tuple[tuple[int, bool], ...]
"""What must hold for code to run: scalars of type i1, each with whether it is true. () always does."""

TRUTH = TileType((), "i1")


class ProgramBuilder:
    """Collects the operations of one kernel. Values of Triton's IR are "raw", ours are value ids.

    file: the kernel's file, for errors. around: loops that may be loops over tiles. read: raw values that anything
    reads. observes: whether the kernel reads what atomic operations give. unsigned: raw values that are descriptors of
    unsigned integers; other types of Triton's IR do not say it, their operations do. functions: those that are called,
    by name; calls: how many are open.
    """

    def __init__(
        self, file: str, around: Sequence[RawOp] = (), read: Collection[int] = (), observes: bool = False,
        functions: Mapping[str, tuple[RawBlock, ...]] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        self.file, self._around, self.read = file, {id(op) for op in around}, frozenset(read)
        self.observes = observes
        self.functions, self.calls = functions, 0
        self.line = 0
        self.copies = 1  # of what is translated now: iterations of the loops around it that are written out
        self._over_tiles = 0
        self._in_scalar_loop = 0
        self._in_elected = 0
        self.unsigned: set[int] = set()
        self._values: list[Value] = []
        self._made: dict[int, Made] = {}
        self._constants: dict[tuple[str, TileType], int] = {}
        self._constant_ops: list[Op] = []
        self._body: list[Op | Loop] = []
        self._outer: list[tuple[list[Op | Loop], Condition, dict[Condition, int], int]] = []
        self._ids = 0
        self.parameters: dict[int, str] = {}  # arguments of the kernel by their value
        self._pointees: dict[str, Argument] = {}
        self._addresses: dict[int, frozenset[str]] = {}  # the arguments that a scalar integer is loaded from, or is
        self._seen_as: dict[int, int] = {}  # scalar pointer -> the one to elements of another type that it is
        self._moved: dict[int, tuple[int, int]] = {}  # scalar pointer -> the one it was made from, and by how much
        self._condition: Condition = ()
        self._conditions: dict[Condition, int] = {}  # those that were made in the open block

    def literal(self, raw: int) -> Literal | None:
        """The literal that a raw value is known to be."""
        made = self._made[raw]
        return made if isinstance(made, Literal) else None

    def is_made(self, raw: int) -> bool:
        """Whether a raw value stands for something yet."""
        return raw in self._made

    def made(self, raw: int) -> Made:
        """What a raw value is."""
        return self._made[raw]

    def value(self, raw: int) -> int:
        """The value id of a raw value; a literal becomes a constant of the program."""
        made = self._made[raw]
        return self.constant(made) if isinstance(made, Literal) else made

    def type_of(self, raw: int) -> TileType:
        """The type of a raw value."""
        made = self._made[raw]
        return made.type if isinstance(made, Literal) else self._values[made].type

    def kind(self, value: int) -> TileType:
        """The type of a value of the program."""
        return self._values[value].type

    def constant(self, literal: Literal) -> int:
        """The constant of the program that has this value; its line is that of its first reader."""
        key = (repr(literal.number), literal.type)
        if key not in self._constants:
            self._constants[key] = self.new_value(literal.type, self.line, "")
            self._constant_ops.append(
                Op(self.next_id(), "constant", (), (self._constants[key],), (("value", literal.number),), self.line, "")
            )
        return self._constants[key]

    def bind(self, raw: RawValue, made: Made) -> None:
        """Says what a raw value is from now on."""
        if raw.unsigned:
            self.unsigned.add(raw.id)
        self._made[raw.id] = made

    def define(self, raw: RawValue, name: str) -> int:
        """A new value for an argument or result of the kernel or a loop."""
        value = self.new_value(raw.type, raw.line, name)
        self.bind(raw, value)
        return value

    def new_value(self, kind: TileType, line: int, name: str) -> int:
        """A new value that no raw value stands for."""
        self._values.append(Value(len(self._values), kind, name, line))
        return len(self._values) - 1

    def next_id(self) -> int:
        """A new operation id."""
        self._ids += 1
        return self._ids - 1

    def emit(
        self,
        op: RawOp,
        kind: str,
        operands: Sequence[int],
        results: Sequence[TileType],
        attributes: Sequence[tuple[str, Attribute]] = (),
    ) -> tuple[int, ...]:
        """Appends an operation with the line and name of `op`; `operands` are value ids."""
        made = tuple(self.new_value(result, op.line, op.variable) for result in results)
        if kind == "add_pointer" and not results[0].shape:
            self._moved[made[0]] = (operands[0], operands[1])
        if kind == "bitcast" and results[0].element.startswith("ptr:") and not results[0].shape:
            self._seen_as[made[0]] = operands[0]
        self._trace(kind, operands, made, results)
        self.append(Op(self.next_id(), kind, tuple(operands), made, tuple(attributes), op.line, op.variable))
        return made

    def _trace(self, kind: str, operands: Sequence[int], made: Sequence[int], results: Sequence[TileType]) -> None:
        """Notes where a scalar integer comes from that may become a pointer."""
        if len(made) != 1 or results[0].shape or not results[0].element.startswith("i"):
            return
        if kind == "load":
            base = self.parameters.get(self.way(operands[0])[0])
            self._addresses[made[0]] = frozenset({base} if base is not None else ())
        elif kind in ("add", "sub", "cast"):
            sources = (self._addresses.get(operand, frozenset()) for operand in operands)
            self._addresses[made[0]] = frozenset[str]().union(*sources)

    def base(self, pointer: int) -> tuple[str, tuple[int, ...]] | None:
        """The argument that a scalar pointer points into, and what is added to it; None if it is none."""
        value, offsets = self.way(pointer, seen_as=True)
        own = {made.value: made.name for made in self._pointees.values()}
        name = self.parameters.get(value) or own.get(value)
        return None if name is None else (name, offsets)

    def pointee(self, number: int, kind: TileType) -> int | None:
        """The pointer to what the numbers of a tensor of addresses point to, of this type; None if `number` is not
        looked up in one tensor, or its addresses are those of other elements elsewhere. An address that is itself an
        argument is such a number, too."""
        sources = self._addresses.get(number, frozenset())
        name = self.parameters.get(number) or (next(iter(sources)) if len(sources) == 1 else None)
        if name is None:
            return None
        if name not in self._pointees:
            value = self.new_value(kind, self.line, name + POINTEE)
            self._pointees[name] = Argument(name + POINTEE, value, kind, 16)
        made = self._pointees[name]
        return made.value if made.type == kind else None

    def emit_region(
        self, op: RawOp, operands: tuple[int, ...], results: Sequence[TileType], region: ScalarRegion,
        kind: str = SCALAR_LOOP,
    ) -> tuple[int, ...]:  # fmt: skip
        """Appends a loop over scalars as one operation."""
        made = tuple(self.new_value(result, op.line, op.variable) for result in results)
        self.append(Op(self.next_id(), kind, operands, made, (), op.line, op.variable, region=region))
        return made

    @contextmanager
    def scalars(self, elected: bool = False, under: Condition = ()) -> Iterator[list[Op | Loop]]:
        """What is translated inside goes to a list of its own: a part of a loop over scalars. elected: one thread runs
        it, which may do something to memory where the condition `under` holds."""
        made: list[Op | Loop] = []
        self.open_loop(over_tiles=True)
        self._in_scalar_loop += 1
        self._in_elected += elected
        with self.under(under):
            yield made
        self._in_elected -= elected
        self._in_scalar_loop -= 1
        made += self.close_loop()

    @property
    def in_scalar_loop(self) -> bool:
        """Whether a loop over scalars is open."""
        return self._in_scalar_loop > 0

    @property
    def in_elected(self) -> bool:
        """Whether what is open is run by one thread."""
        return self._in_elected > 0

    @property
    def open_condition(self) -> Condition:
        """What must hold for what is translated now to run."""
        return self._condition

    @contextmanager
    def under(self, condition: Condition) -> Iterator[None]:
        """What is translated inside runs only where the condition holds, too."""
        outer = self._condition
        self._condition = tuple(dict.fromkeys((*outer, *condition)))
        yield
        self._condition = outer

    def guard(self, op: RawOp) -> int | None:
        """The scalar that says whether `op` runs; None if it does anyhow."""
        return self.condition(self._condition, op) if self._condition else None

    def condition(self, condition: Condition, op: RawOp) -> int:
        """A condition as a scalar of type i1, made where it is first asked for."""
        if condition not in self._conditions:
            self._conditions[condition] = self._make(condition, op)
        return self._conditions[condition]

    def _make(self, condition: Condition, op: RawOp) -> int:
        if not condition:
            return self.constant(Literal(1, TRUTH))
        *before, (value, truth) = condition
        if not truth:
            one = self.constant(Literal(1, TRUTH))
            value = self.emit(op, "xor", (value, one), (TRUTH,))[0]
        return self.emit(op, "and", (self.condition(tuple(before), op), value), (TRUTH,))[0] if before else value

    def way(self, pointer: int, seen_as: bool = False) -> tuple[int, tuple[int, ...]]:
        """The pointer that a scalar pointer was made from, and what was added to it, the last offset first. seen_as:
        through a change of its elements' type, too."""
        offsets: list[int] = []
        while pointer in self._moved or (seen_as and pointer in self._seen_as):
            if pointer in self._seen_as:
                pointer = self._seen_as[pointer]
                continue
            pointer, offset = self._moved[pointer]
            offsets.append(offset)
        return pointer, tuple(offsets)

    def widened(self, op: RawOp, number: int) -> int:
        """A signed scalar in 64 bits."""
        wide = TileType((), "i64")
        return (
            number
            if self._values[number].type == wide
            else self.emit(op, "cast", (number,), (wide,), (("signed", 1),))[0]
        )

    def append(self, item: Op | Loop) -> None:
        """Appends to the open loop, or to the kernel."""
        self._body.append(item)

    @property
    def in_loop(self) -> bool:
        """Whether a loop is open, but for those over tiles."""
        return len(self._outer) > self._over_tiles

    @property
    def nested(self) -> bool:
        """Whether a loop in a loop is open, in which no other may be."""
        return len(self._outer) > max(1, self._over_tiles)

    @property
    def in_nest(self) -> bool:
        """Whether a loop in a loop is open, those over tiles left out."""
        return len(self._outer) - self._over_tiles > 1

    def is_over_tiles(self, op: RawOp) -> bool:
        """Whether a loop may be one over tiles."""
        return id(op) in self._around

    def open_loop(self, over_tiles: bool = False) -> None:
        """Operations go to a loop's body from now on. over_tiles: it may be one over tiles."""
        self._outer.append((self._body, self._condition, dict(self._conditions), self._over_tiles))
        self._over_tiles += over_tiles
        self._body, self._condition = [], ()

    def close_loop(self) -> tuple[Op | Loop, ...]:
        """The body of the loop that was open."""
        body = tuple(self._body)
        self._body, self._condition, self._conditions, self._over_tiles = self._outer.pop()
        return body

    def program(self, spec: Specialization, arguments: tuple[Argument, ...]) -> TileProgram:
        """The finished program: constants first, dead code dropped, densely numbered."""
        body = (*self._constant_ops, *self._body)
        values = tuple(self._values)
        program = TileProgram(
            spec.kernel,
            spec.spec,
            spec.file,
            (*arguments, *self._pointees.values()),
            values,
            body,
            fp_fusion=spec.fp_fusion,
            strict=spec.strict,
        )
        return compact(without_invariant_carries(program))
