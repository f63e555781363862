"""What a statement's printer knows: the program, the warp group, the names in scope, the text so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from twill import exc
from twill.codegen.print.cuda.elements import BYTES, SMALL, from_memory, from_parameter, is_packed, value_type
from twill.codegen.print.cuda.index_fragments import Coefficients, constant, spread_constant
from twill.codegen.print.cuda.multiply_shapes import MultiplyShape
from twill.codegen.print.cuda.names import Names
from twill.codegen.print.cuda.places import register
from twill.codegen.print.cuda.print_expression import Leaf, literal, print_expression
from twill.codegen.print.cuda.print_per_group import per_group
from twill.codegen.print.cuda.shared import SharedAddresses
from twill.codegen.print.cuda.writer import TextWriter
from twill.codegen.warp import program as ir
from twill.codegen.warp.expression import (
    Element,
    Expr,
    Local,
    Lookup,
    Number,
    NumPrograms,
    PerGroup,
    ProgramId,
    Symbol,
)
from twill.codegen.warp.layout import Layout, elements_of


@dataclass
class PrintContext:
    """One scope of one role. `inside` makes the next inner scope; text and shapes are common to all.

    place: the C name of a warp group's place in a role of several ("" of one). loaded: scalars that come out of memory.
    """

    program: ir.WarpProgram
    group: ir.WarpGroup
    out: TextWriter
    shared: SharedAddresses
    arguments: Mapping[str, str]
    pointers: Mapping[str, str]  # what each of them that is a pointer points to
    fragments: Mapping[int, str]
    indices: Mapping[int, Coefficients]
    byte_operands: Mapping[int, bool]  # operands A of 8 bits, four elements a register; whether in quads
    cursors: Mapping[int, str]
    shapes: set[MultiplyShape]
    names: Names
    locals: dict[str, str]
    multiples: dict[str, int]  # what a local is known to be a multiple of
    place: str
    loaded: frozenset[str]
    block: Callable[[tuple[ir.Stmt, ...], PrintContext], None]
    visit: Callable[[PrintContext], None] | None = None  # prints the work of an instance, where a program walks

    def inside(self) -> PrintContext:
        """A scope within this one."""
        return replace(self, names=self.names.inside(), locals=dict(self.locals), multiples=dict(self.multiples))

    # ------------------------------------------------------------ names
    def expression(self, expr: Expr) -> str:
        """C of a scalar expression."""
        return print_expression(expr, self._leaf)

    def index(self, expr: Expr) -> str:
        """C of a scalar expression as an i32."""
        return self.expression(expr) if expr.element == "i32" else f"(i32){self.expression(expr)}"

    def _leaf(self, leaf: Leaf) -> str:
        match leaf:
            case PerGroup(values, element):
                return per_group([literal(value, element) for value in values], self.place, values)
            case NumPrograms(axis):
                return f"(i32)grid{axis}"
            case Symbol():
                return from_parameter(leaf.element, self.arguments[leaf.name])
            case Local():
                return self.locals[leaf.name]
            case Element():
                return f"{self.fragments[leaf.fragment]}[0]"
            case Lookup(argument, index, element, condition, pad):
                found = from_memory(element, f"{self.arguments[argument]}[{self.expression(index)}]")
                if condition is None:
                    return found
                return f"({self.expression(condition)} ? {found} : {literal(pad, element)})"

    def define(self, name: str, multiple: int = 1) -> str:
        """A new C name for a local of this scope, a multiple of `multiple`."""
        self.multiples[name] = multiple
        self.locals[name] = self.names.fresh(name)
        return self.locals[name]

    # ------------------------------------------------------------ fragments
    def fragment(self, number: int) -> ir.Fragment:
        """The fragment of that id. Errors: UnsupportedInKernel in a role of one thread, which has none."""
        if self.group.issuer:
            raise exc.UnsupportedInKernel(f"role '{self.group.role}' is one thread and cannot hold a tile in registers")
        return self.group.fragment(number)

    def element_of(self, operand: ir.Operand) -> str:
        """The element type of an operand."""
        return self.fragment(operand.fragment).element if isinstance(operand, ir.Reg) else operand.element

    def value(self, number: int, index: str) -> str:
        """C of the value in register `index` of a fragment."""
        fragment, name = self.fragment(number), self.fragments[number]
        if number in self.indices:
            return f"({name} + {constant(fragment.layout, self.indices[number], index)})"
        if number in self.byte_operands:
            raise exc.UnsupportedInKernel(f"'{fragment.name}', an operand of 8 bits, is read by more than a product")
        if is_packed(fragment.element, fragment.layout):
            return f"get_{SMALL[fragment.element]}({name}, {index})"
        return f"{name}[{index}]"

    def operand(self, operand: ir.Operand, layout: Layout, i: str = "i") -> str:
        """C of the value of an operand that meets register `i` of a result of that layout."""
        if not isinstance(operand, ir.Reg):
            return self.expression(operand)
        source = self.fragment(operand.fragment)
        if coefficients := self.indices.get(operand.fragment):
            place = spread_constant(layout, source.layout, operand.axes, coefficients, i)
            return f"({self.fragments[operand.fragment]} + {place})"
        return self.value(operand.fragment, register(layout, source.layout, operand.axes, i))

    def hoisted(self, operand: ir.Operand) -> ir.Operand:
        """The operand, or a new local that holds it, if it is worth to be computed before a loop."""
        if isinstance(operand, ir.Reg) or is_simple(operand):
            return operand
        name = self.names.fresh("scalar")
        self.out.line(f"const {value_type(operand.element)} {name} = {self.expression(operand)};")
        self.locals[name] = name
        return Local(name, operand.element)

    def declaration(self, number: int) -> str:
        """C that declares a fragment."""
        fragment, name = self.fragment(number), self.fragments[number]
        count = elements_of(fragment.layout)
        if number in self.indices:
            return f"i32 {name};"
        if is_packed(fragment.element, fragment.layout):
            return f"u32 {name}[{count // 2}];"
        if number in self.byte_operands:
            return f"u32 {name}[{count // 4}];"
        return f"{value_type(fragment.element)} {name}[{count}];"

    # ------------------------------------------------------------ shared memory
    def barrier(self, does: str, number: int) -> str:
        """A statement of a thread at a named barrier. does: "sync" or "arrive"."""
        return f"bar_{does}({self.shared.named[number]}, {self.program.barriers[number].threads});"

    def cursor(self, number: int) -> ir.Cursor:
        """The cursor of that id."""
        return self.group.cursor(number)

    def aref(self, cursor: int) -> ir.Aref:
        """The ring that a cursor walks."""
        return self.program.arefs[self.cursor(cursor).aref]

    def buffer(self, ref: ir.SlotRef) -> ir.Buffer:
        """The buffer of a slot."""
        return self.program.buffers[ref.buffer]

    def full(self, cursor: int) -> str:
        """C: address of the full barrier of the slot at a cursor."""
        return f"smem + {self.shared.full[self.cursor(cursor).aref]}" + self._times(cursor, 8)

    def empty(self, cursor: int) -> str:
        """C: address of the empty barrier of the slot at a cursor."""
        return f"smem + {self.shared.empty[self.cursor(cursor).aref]}" + self._times(cursor, 8)

    def slot(self, ref: ir.SlotRef) -> str:
        """C: address of a slot's tile, in shared or tensor memory."""
        buffer = self.buffer(ref)
        at = f"{'tensor' if buffer.tensor else 'smem'} + {self.shared.buffers[ref.buffer]}"
        step = buffer.stride if buffer.tensor else buffer.bytes
        return at if ref.cursor is None else at + self._times(ref.cursor, step)

    def _times(self, cursor: int, step: int) -> str:
        return "" if self.aref(cursor).depth == 1 else f" + {self.cursors[cursor]}.slot * {step}"

    def part(self, ref: ir.SlotRef) -> int:
        """Bytes from the start of a slot's tile to the part of it that `ref` names: whole panels along the columns.

        Errors: UnsupportedInKernel for a part that starts within a panel.
        """
        buffer = self.buffer(ref)
        size, row, column = BYTES[buffer.element], (ref.rows or (0, 0))[0], (ref.columns or (0, 0))[0]
        if len(buffer.shape) == 1:
            return (row + column) * size
        panel, inside = divmod(column * size, buffer.panel)
        if inside:
            raise exc.UnsupportedInKernel(f"part {ref.columns} of '{buffer.name}' starts within a panel")
        return panel * buffer.shape[0] * buffer.panel + row * buffer.panel


def is_simple(operand: ir.Operand) -> bool:
    """Whether the operand needs no computation."""
    return isinstance(operand, ir.Reg | Number | ProgramId | Symbol | Local | Element | PerGroup)
