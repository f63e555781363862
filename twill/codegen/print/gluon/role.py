"""One role of the kernel: the names that its text uses, and the text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from twill import exc
from twill.codegen.print.gluon import hopper
from twill.codegen.print.gluon.constants import known_in_places, masking_ranges
from twill.codegen.print.gluon.counters import merged
from twill.codegen.print.gluon.elementwise import PRINTERS as ELEMENTWISE
from twill.codegen.print.gluon.facts import ring_use
from twill.codegen.print.gluon.in_flight import ProductsInFlight, products_in_flight
from twill.codegen.print.gluon.layouts import Layout, layouts_of
from twill.codegen.print.gluon.pairs import TOLD
from twill.codegen.print.gluon.role_names import base_of, free, identifier
from twill.codegen.print.gluon.scalars import GluonScalarNames, Text, print_scalar
from twill.codegen.print.gluon.shared import shared_names
from twill.codegen.print.gluon.variables import named_after, needed_at_once
from twill.codegen.print.gluon.writer import PythonWriter
from twill.codegen.print.sections import Section, common_name
from twill.codegen.warp import program as ir
from twill.codegen.warp.expression import Expr

NAMED = 2  # rings after which a counter is called; of more, it is called `count`
Constants = tuple[int | float, ...]


@dataclass
class Role:
    """What the printers of a role's statements share.

    stream: of the section, with one cursor for each counter. used: parameters that the text came to use, in the order
    of `twill.codegen.print.gluon.module`. constants: parameters whose numbers differ between the groups. pending:
    values that are printed where they are read, and the fragments in them. reading: fragments in the values that the
    statement at hand has read so far. tokens: fragments that products write and no wait has given back as tensors.
    flying: fragments that products in flight may use. descriptors: names of (tensor map, block), of the whole kernel.
    among: places in the section of the groups that do what is printed now. known: fragments that may hold constants;
    masking: indices that masks compare with known ones. indices: variables of indices along an axis, by name and text.
    conflicts: fragments that are needed together with each. after: names of those that have none in the kernel.
    offsets: of places in windows of global memory, which each access computes anew, by length, layout and axis.
    parts: names of the parts of a fragment's columns, where it was taken apart. first_column: variable of a loop over
    parts of tensor memory's columns; what is printed is of the first part. instance: variable of the instance at hand.
    """

    program: ir.WarpProgram
    section: Section
    stream: ir.WarpGroup
    counters: Mapping[int, int]
    products: ProductsInFlight
    layouts: Mapping[int, Layout]
    out: PythonWriter
    taken: set[str]
    descriptors: dict[tuple[int, tuple[int, ...]], str]
    counts: dict[int, str] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    views: dict[tuple[int, str], str] = field(default_factory=dict)
    locals: dict[str, Text] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    constants: dict[Constants, str] = field(default_factory=dict)
    pending: dict[int, tuple[Text, Layout, frozenset[int]]] = field(default_factory=dict)
    reading: set[int] = field(default_factory=set)
    tokens: set[int] = field(default_factory=set)
    flying: set[int] = field(default_factory=set)
    shapes: set[Layout] = field(default_factory=set)
    among: tuple[int, ...] = ()
    known: frozenset[int] = frozenset()
    masking: frozenset[int] = frozenset()
    conflicts: Mapping[int, set[int]] = field(default_factory=dict)
    after: Mapping[int, str] = field(default_factory=dict)
    indices: dict[tuple[str, str], str] = field(default_factory=dict)
    offsets: dict[tuple[int, str, str], str] = field(default_factory=dict)
    parts: dict[int, list[str]] = field(default_factory=dict)
    first_column: str = ""
    instance: str = "instance"

    def __post_init__(self) -> None:
        self.among = tuple(range(len(self.section.groups)))

    # ------------------------------------------------------------ scalars
    def scalar(self, expr: Expr) -> Text:
        """An expression; the parameters in it are noted."""
        return print_scalar(expr, GluonScalarNames(self.locals, self.constant))

    def constant(self, values: Constants, called: str = "") -> str:
        """The parameter that has these numbers, one for each warp group of the section. called: its name if it is
        new; else it is called after what the numbers are."""
        known = self.constants.get(values)
        if known is None:
            ordinal = values == tuple(range(len(values)))
            rows = all(isinstance(v, int) and v % hopper.ROWS == 0 for v in values) and not ordinal
            base = called or ("GROUP" if ordinal else "ROW" if rows else "OFFSET")
            taken = set(self.constants.values())
            known = next(n for n in (base, *(f"{base}_{i}" for i in range(1, 99))) if n not in taken)
            self.constants[values] = known
        return known

    def free_local(self, name: str) -> str:
        """A name for a scalar, as the kernel has it where that is free."""
        return free(_NUMBERED.sub("", identifier(name)), self.taken)

    # ------------------------------------------------------------ rings
    def aref(self, cursor: int) -> ir.Aref:
        """The ring of a cursor."""
        return self.program.arefs[self.stream.cursor(cursor).aref]

    def ring(self, aref: ir.Aref) -> str:
        """What a ring is called in this role."""
        ids = self.section.arefs.get(aref.id, (aref.id,))
        return identifier(common_name([self.program.arefs[i].name for i in ids]))

    def count(self, cursor: int) -> str:
        """The counter that a cursor stands for."""
        return self.counts[self.counters[cursor]]

    def ring_of(self, cursor: int) -> str:
        """The ring of a cursor; where several tiles have barriers together, that of the first of them."""
        name = self.ring_variable(self.aref(cursor))
        self.used.add(name)
        return name

    def ring_of_tile(self, ref: ir.SlotRef) -> str:
        """The ring whose tile is at a cursor; of tiles that have barriers together, each has a ring."""
        assert ref.cursor is not None
        aref = self.aref(ref.cursor)
        return self.ring_of(ref.cursor) if len(aref.buffers) == 1 else self.buffer(ref.buffer)

    def ring_variable(self, aref: ir.Aref) -> str:
        """What a ring is called among the parameters of this role."""
        return self.buffer(min(aref.buffers)) if len(aref.buffers) > 1 else f"{self.ring(aref)}_ring"

    def note(self, use: str, kind: str, cursor: int, line: int) -> None:
        """That the next line uses a barrier of the slot at a cursor. use: "wait", "arrive", "expect", "commit"."""
        self.out.fact(ring_use(use, f"{self.ring_of(cursor)}.{kind}", self.aref(cursor).depth, kind == "empty"), line)

    def buffer(self, number: int) -> str:
        """What a buffer is called in this role."""
        ids = self.section.buffers.get(number, (number,))
        names = [self.program.buffers[i].name for i in ids]
        name = identifier(common_name(names))
        name = name if self.is_ring(number) else name.removesuffix("_0")
        full = f"{name}_ring" if self.is_ring(number) else name
        self.used.add(full)
        return full

    def is_ring(self, number: int) -> bool:
        """Whether a buffer belongs to a ring."""
        return any(number in aref.buffers for aref in self.program.arefs)

    def descriptor(self, number: int, block: tuple[int, ...]) -> str:
        """The tensor descriptor of a map whose copies are of such a block."""
        name = self.descriptors.get((number, block))
        if name is None:
            argument = self.program.maps[number].argument
            base = argument if argument.endswith("desc") else f"{argument}_desc"
            name = free(base, set(self.descriptors.values()))
            self.descriptors[number, block] = name
        self.used.add(name)
        return name

    def place(self, ref: ir.SlotRef) -> str:
        """A slot of a buffer, or a part of it."""
        buffer = self.program.buffers[ref.buffer]
        if ref.cursor is None:
            text = self.buffer(ref.buffer)
        else:
            text = f"{self.ring_of_tile(ref)}.tile({self.count(ref.cursor)})"
        for axis, part in enumerate((ref.rows, ref.columns)):
            if part is not None and part != (0, buffer.shape[axis]):
                text += f".slice({part[0]}, {part[1] - part[0]}, dim={axis})"
        return text

    def view(self, buffer: int, apart: str = "") -> str:
        """The variable that stands for a slot of a buffer. apart: what tells it from another one of the same buffer."""
        ring = self.buffer(buffer).removesuffix("_ring")
        if (buffer, apart) not in self.views:
            self.views[buffer, apart] = free(f"{ring}_{apart}" if apart else ring, self.taken)
        return self.views[buffer, apart]

    # ------------------------------------------------------------ fragments
    def fragment(self, number: int) -> ir.Fragment:
        """The fragment of that id."""
        return self.stream.fragment(number)

    def layout(self, layout: Layout) -> str:
        """A layout's text; it is noted."""
        self.shapes.add(layout)
        return layout.text

    def name(self, number: int, source: str = "") -> str:
        """The variable of a fragment, called as the kernel calls it where that name is free, or is that of a variable
        that is not needed any more; what has no name in the kernel is called after what it is made of. source: of what
        it is a conversion; then it is called after that and its element."""
        if number not in self.names:
            base = self._base(number, source)
            of_block = identifier(self.fragment(number).name)  # alpha_1: of the second row block
            if self._is_free(base, number):
                self.names[number] = base
                return base
            if base in self.taken and of_block not in self.taken and base_of(of_block) == base:
                base = of_block
            self.names[number] = free(base, self.taken)
        return self.names[number]

    def _base(self, number: int, source: str = "") -> str:
        """What a fragment would be called if nothing else was."""
        fragment = self.fragment(number)
        base = self.after.get(number) or _NUMBERED.sub("", identifier(_NUMBERED.sub("", fragment.name)))
        if source and (base in self.taken or base == "cast"):
            return f"{source}_{fragment.element}"
        return base

    def sharing(self, numbers: Iterable[int]) -> set[int]:
        """Fragments, and those that are one variable with one of them."""
        called = {self.names[number] for number in numbers if number in self.names}
        return {*numbers, *(number for number, name in self.names.items() if name in called)}

    def _is_free(self, name: str, number: int) -> bool:
        """Whether a name is a variable of fragments of the same type alone, none of which is needed together with this
        one, or stands in a value that is still to be printed."""
        having = [other for other, called in self.names.items() if called == name]
        kind = self.fragment(number).element, self.layouts[number]
        others = {*self.views.values(), *(text.text for text in self.locals.values()), *self.counts.values()}
        return (
            bool(having)
            and name not in others
            and all(
                other not in self.conflicts.get(number, ())
                and (self.fragment(other).element, self.layouts[other]) == kind
                for other in having
            )
        )

    def value(self, number: int) -> tuple[Text, Layout]:
        """A fragment where it is read: its name, or what makes it."""
        if number in self.pending:
            text, layout, made_of = self.pending.pop(number)
            self.reading |= made_of
            return text, layout
        self.reading.add(number)
        if number in self.tokens:
            raise exc.NotInGluon(f"`{self.name(number)}` is read before its product is waited for")
        return Text(self.name(number)), self.layouts[number]

    def converted(self, text: Text, have: Layout, want: Layout) -> Text:
        """A tensor in another layout, if it is another."""
        return text if have == want else Text(f"gl.convert_layout({text.text}, {self.layout(want)})")


def role_of(program: ir.WarpProgram, section: Section, descriptors: dict[tuple[int, tuple[int, ...]], str]) -> Role:
    """The role of a section, with nothing printed. descriptors: known so far; what the role needs is added."""
    given = section.stream
    stream = replace(
        given, start=_own(given.start), body=_own(given.body), skip=_own(given.skip), finish=_own(given.finish)
    )
    stream, counters = merged(stream)
    described = {entry.argument for entry in program.maps if not entry.argument.endswith("desc")}  # here `a_desc`
    plain = (a for a in program.program.arguments if not a.type.element.startswith("desc"))
    taken = {a.name for a in plain} | {a.name for a in program.program.arguments if a.name not in described}
    taken |= {"gl", "tma", "instance"} | shared_names()
    taken |= {ir.RANK, *TOLD} if program.pairs else set()
    products = products_in_flight(stream)
    role = Role(
        program,
        section,
        stream,
        counters,
        products,
        layouts_of(stream, any(buffer.tensor for buffer in program.buffers)),
        PythonWriter(),
        taken,
        descriptors,
        known=known_in_places(stream),
        masking=masking_ranges(stream),
        conflicts=needed_at_once(stream, products),
        after=named_after(stream, ELEMENTWISE),
    )
    role.counts.update(_counter_names(role, taken))
    return role


def _own(stmts: Iterable[ir.Stmt]) -> tuple[ir.Stmt, ...]:
    """The statements as objects of their own, so that what is found of one is found of one place."""
    return tuple(ir.with_blocks(replace(stmt), _own) for stmt in stmts)


# ---------------------------------------------------------------- names
_NUMBERED = re.compile(r"_\d+$")
_OF_BLOCK = re.compile(r"_\d+(?=_|$)")  # in the name of a ring: of one row block


def _counter_names(role: Role, taken: set[str]) -> dict[int, str]:
    """Names of counters, by the cursor that stands for each."""
    made: dict[int, str] = {}
    for shared in dict.fromkeys(role.counters.values()):
        members = [c for c, k in role.counters.items() if k == shared]
        arefs = sorted(map(role.aref, members), key=lambda a: a.id)
        rings = list(dict.fromkeys(_OF_BLOCK.sub("", role.ring(aref)) for aref in arefs))
        prefix = f"{'_'.join(rings)}_" if len(rings) <= NAMED else ""
        made[shared] = free(f"{prefix}{_part(role, members)}", taken)
    return made


def _part(role: Role, members: list[int]) -> str:
    """What a counter counts: slots that were filled, got, or given back behind those."""
    rings = {role.stream.cursor(member).aref for member in members}
    first = [min(c.id for c in role.stream.cursors if c.aref == aref) for aref in rings]
    return "count" if set(first) & set(members) else "done"
