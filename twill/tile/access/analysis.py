"""The symbolic form of every value of a tile program."""

from __future__ import annotations

from twill.tile.access.loop import analyse_loop
from twill.tile.access.rules import SymbolicStep, not_affine, symbolic, term
from twill.tile.access.scalar import Fact, SymbolicScalars
from twill.tile.access.value import ZERO, AffineTile, DescriptorWindow, NotAffine, Symbolic, scalar
from twill.tile.affine import Polynomial
from twill.tile.program import Argument, Loop, Op, TileProgram, TileType, Value, every
from twill.tile.vocabulary import ELEMENTWISE, SOURCES

PURE = frozenset({*SOURCES, *ELEMENTWISE})
PADS = {"zero": 0.0, "nan": float("nan")}


class Numbering:
    """Makes values and operations for a program that is being rewritten; `values` has all of them."""

    def __init__(self, program: TileProgram) -> None:
        self.values = list(program.values)
        self._next = max((item.id for item in every(program.body)), default=-1) + 1

    def value(self, kind: TileType, like: Op | Loop, name: str = "") -> int:
        """A new value with the line and (if it is an operation) name of `like`."""
        name = like.name if isinstance(like, Op) else name
        self.values.append(Value(len(self.values), kind, name, like.line))
        return len(self.values) - 1

    def op(self, kind: str, operands: tuple[int, ...], result: int, like: Op | Loop, **attributes: object) -> Op:
        """A new operation that makes `result`, with the line and name of `like`."""
        self._next += 1
        given: tuple[tuple[str, object], ...] = tuple(attributes.items())
        return Op(self._next - 1, kind, operands, (result,), given, like.line, self.values[result].name)  # type: ignore[arg-type]


class Analysis:
    """forms: the symbolic form by value id (tiles of floats have none). scalars: what is known of
    symbols. computed: tiles of integers that are no affine ones within bounds, though they could be taken so. before,
    start: by loop id, scalar operations that `analyse_loop` adds to the program
    before the loop and at the start of its body.
    """

    def __init__(self, program: TileProgram, computed: frozenset[int] = frozenset()) -> None:
        self.program = program
        self.computed = computed
        self.once = frozenset(item.id for item in program.body if isinstance(item, Op))  # in no loop
        self.numbering = Numbering(program)
        self.scalars = SymbolicScalars()
        self.forms: dict[int, Symbolic] = {}
        self.before: dict[int, list[Op]] = {}
        self.start: dict[int, list[Op]] = {}

    def trial(self) -> Analysis:
        """A copy in which to analyse a loop's body under an assumption."""
        other = Analysis.__new__(Analysis)
        other.__dict__.update(self.__dict__)
        other.scalars, other.forms = self.scalars.copy(), dict(self.forms)
        return other

    def run(self) -> Analysis:
        """Analyses the whole program; gives itself."""
        for argument in self.program.arguments:
            self.forms[argument.value] = self._argument(argument)
        self.block(self.program.body)
        return self

    def type_of(self, value: int) -> TileType:
        """The type of a value, also of one that was added."""
        return self.numbering.values[value].type

    def integer(self, value: int) -> Polynomial:
        """The polynomial of a scalar."""
        form = self.forms[value]
        if not isinstance(form, AffineTile) or form.shape or form.base:
            raise TypeError(f"value {value} is not a scalar number")
        return form.origin

    def block(self, items: tuple[Op | Loop, ...]) -> None:
        """Analyses operations and loops in order."""
        for item in items:
            if isinstance(item, Loop):
                analyse_loop(self, item)
            elif item.results:
                self.op(item)

    def op(self, op: Op) -> None:
        """Analyses one operation."""
        result = self.type_of(op.results[0])
        if op.region is not None:
            for value in op.results:
                self.forms[value] = scalar(self.scalars.declare(value, Fact(settled=op.id in self.once)))
        elif not result.shape and not result.element.startswith(("ptr:", "desc:")):
            self.forms[op.results[0]] = scalar(self._scalar(op, result))
        elif op.results[0] in self.computed:
            self.forms[op.results[0]] = term(op, result.shape)
        elif op.kind == "make_descriptor":
            self.forms[op.results[0]] = self._descriptor(op)
        elif result.element.startswith(("i", "ptr:")):
            shapes = tuple(self.type_of(operand).shape for operand in op.operands)
            self.forms[op.results[0]] = symbolic(
                SymbolicStep(op, tuple(map(self._form, op.operands)), shapes, result, self.scalars.nonnegative)
            )

    def _form(self, value: int) -> Symbolic:
        known = self.forms.get(value)
        return known or NotAffine(value, "is computed from floats", "integer arithmetic")

    def _argument(self, argument: Argument) -> Symbolic:
        if argument.type.element.startswith("ptr:"):
            return AffineTile((), ZERO, (), argument.name)
        if not argument.type.element.startswith("desc:"):
            return scalar(self.scalars.declare(argument.value, Fact(argument.divisibility, fixed=True)))
        fields = {other.name: Polynomial.symbol(other.value) for other in self.program.arguments}
        axes = range(len(argument.type.shape))
        shape = tuple(fields[f"{argument.name}.shape.{axis}"] for axis in axes)
        strides = [fields[f"{argument.name}.stride.{axis}"] for axis in axes]
        strides[-1] = Polynomial.constant_of(1)  # tensor maps have no other
        return DescriptorWindow(argument.name, ZERO, shape, tuple(strides), 0.0)

    def _scalar(self, op: Op, result: TileType) -> Polynomial:
        forms = [self.forms.get(operand) for operand in op.operands]
        if op.kind not in PURE or not all(isinstance(f, AffineTile) and not f.shape and not f.base for f in forms):
            return self.scalars.declare(op.results[0], Fact(settled=op.id in self.once))
        types = [self.type_of(operand) for operand in op.operands]
        return self.scalars.compute(op, [self.integer(operand) for operand in op.operands], types, result)

    def _descriptor(self, op: Op) -> Symbolic:
        form = self._form(op.operands[0])
        if not isinstance(form, AffineTile) or not form.base:
            return form if isinstance(form, NotAffine) else not_affine(op)
        numbers = tuple(self.integer(value) for value in op.operands[1:])
        rank = len(numbers) // 2
        pad = PADS[str(dict(op.attributes).get("padding", "zero"))]
        return DescriptorWindow(form.base, form.origin, numbers[:rank], numbers[rank:], pad)
