"""A warp program as a module of Gluon: a function for each role, the kernel that starts them, and the launcher."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twill.codegen.print.gluon import blackwell, hopper
from twill.codegen.print.gluon.facts import BUDGETS, ModuleFact
from twill.codegen.print.gluon.fetched import COUNTER, with_fetched_instances
from twill.codegen.print.gluon.host import print_launcher
from twill.codegen.print.gluon.instances import (
    count_instances,
    grid_sizes,
    print_ids,
    print_loop_head,
    print_passed,
    print_place,
    print_rank,
)
from twill.codegen.print.gluon.layouts import Layout, OperandA, Products, SlicedLayout, definition
from twill.codegen.print.gluon.pairs import of_both
from twill.codegen.print.gluon.preface import docstring, helpers, imports
from twill.codegen.print.gluon.ring_lines import (
    buffer_name,
    layouts,
    map_layout,
    part_of_cta,
    print_memory,
    ring_name,
)
from twill.codegen.print.gluon.role import Role, role_of
from twill.codegen.print.gluon.role_names import identifier
from twill.codegen.print.gluon.scalars import BITS
from twill.codegen.print.gluon.statements import print_block
from twill.codegen.print.gluon.writer import PythonWriter
from twill.codegen.print.sections import sections
from twill.codegen.warp.program import Buffer, Multiply, TensorMultiply, WarpProgram

if TYPE_CHECKING:
    from twill.kernel.specialization import Specialization
    from twill.schedule.document import Schedule


@dataclass(frozen=True)
class DescriptorParameter:
    """A tensor descriptor that the kernel takes: its name, of which map, in which blocks, and the name of its layout in
    shared memory. own: what one CTA copies of a block, which two have together."""

    name: str
    map: int
    block: tuple[int, ...]
    layout: str
    own: tuple[int, ...]


@dataclass(frozen=True)
class GluonModule:
    """text: the module. entry: the kernel's name in it; parameters: of the kernel, in order. lines: line of the text ->
    line of the Triton kernel. workers: warps and registers of each partition but the default one. facts: what the warp
    program decides in which line."""

    text: str
    entry: str
    parameters: tuple[str, ...]
    descriptors: tuple[DescriptorParameter, ...]
    lines: dict[int, int]
    workers: tuple[tuple[int, int], ...]
    facts: tuple[ModuleFact, ...]


@dataclass(frozen=True)
class Printing:
    """What the parts of the module share."""

    program: WarpProgram
    roles: tuple[Role, ...]
    descriptors: tuple[DescriptorParameter, ...]
    parameters: tuple[str, ...]

    @property
    def entry(self) -> str:
        """The kernel's name."""
        return f"{self.program.program.kernel}_kernel"


def print_gluon(program: WarpProgram, specialization: Specialization, schedule: Schedule) -> GluonModule:
    """The module of a program that Gluon can say (`twill.codegen.print.gluon.sayable`). Raises NotInGluon."""
    program = with_fetched_instances(of_both(program))
    known: dict[tuple[int, tuple[int, ...]], str] = {}
    roles = tuple(role_of(program, section, known) for section in sections(program))
    for role in roles:
        _print_stream(role)
    descriptors = tuple(
        DescriptorParameter(
            name,
            number,
            block,
            map_layout(program, number),
            part_of_cta(program, number, block),
        )
        for (number, block), name in sorted(known.items(), key=lambda item: program.maps[item[0][0]].argument)
    )
    printing = Printing(program, roles, descriptors, _parameters(program, roles, descriptors))
    functions = PythonWriter()
    print_place(program, functions)
    for role in roles:
        _print_role(role, printing, functions)
    _print_kernel(printing, functions)
    print_launcher(printing.entry, printing.parameters, descriptors, program, specialization, functions)
    constants = PythonWriter()
    _print_constants(printing, constants)
    names = _names([*constants.text, *functions.text])
    out = PythonWriter()
    for line in (*docstring(program, specialization, schedule).splitlines(), "", *imports(names)):
        out.line(line)
    out.take(constants)
    if own := helpers(names):
        for line in (*own, "", ""):
            out.line(line)
    out.take(functions)
    workers = tuple((_warps(program, g), _registers(program.groups[g].registers)) for g in _order(roles)[1:])
    text = "\n".join(out.text) + "\n"
    facts = tuple(sorted(out.facts))
    return GluonModule(text, printing.entry, printing.parameters, descriptors, out.lines, workers, facts)


def _names(lines: list[str]) -> frozenset[str]:
    """The names that stand in a text."""
    return frozenset(node.id for node in ast.walk(ast.parse("\n".join(lines))) if isinstance(node, ast.Name))


def _order(roles: tuple[Role, ...]) -> list[int]:
    """Warp groups as partitions, the default one first."""
    return [group for role in roles for group in role.section.groups]


def _warps(program: WarpProgram, group: int) -> int:
    """Warps of a partition: one is enough for what one thread issues."""
    return 1 if program.groups[group].issuer else hopper.WARPS


def _registers(budget: int) -> int:
    """Of a thread; a warp group without a budget only issues instructions, or is the default partition."""
    if not budget:
        return blackwell.WORKER_BUDGET
    return max(hopper.LEAST_BUDGET, budget // hopper.BUDGET_STEP * hopper.BUDGET_STEP)


# ---------------------------------------------------------------- roles
def _print_stream(role: Role) -> None:
    """What a role does, from its counters to its end."""
    with role.out.deeper():
        print_rank(role)
        if role.stream.start:
            print_block(role.stream.start, role)
        with role.out.block(print_loop_head(role)):
            print_ids(role)
            print_block(role.stream.body, role)
            print_passed(role)
        if role.stream.finish:
            count_instances(role)
            print_block(role.stream.finish, role)


def role_name(role: Role) -> str:
    """The function of a role."""
    groups = [role.program.groups[group].role for group in role.section.groups]
    made = identifier(groups[0] if len(groups) == 1 else re.sub(r"[ _.]?\d+$", "", groups[0]))
    return made if made != role.program.program.kernel else f"{made}_role"


def _used(role: Role, names: tuple[str, ...]) -> list[str]:
    """Those of the names that stand in a role's text."""
    text = "\n".join(role.out.text)
    words = set(re.findall(r"\b\w+\b", text))
    return [name for name in names if name in words]


def _arguments(role: Role, group: int) -> dict[str, str]:
    """What a group passes for each ring and buffer of its role: parameter -> name in the kernel."""
    program, place = role.program, role.section.groups.index(group)
    made: dict[str, str] = {}
    for buffer in program.buffers:
        ids = role.section.buffers.get(buffer.id, (buffer.id,) * (place + 1))
        made[role.buffer(buffer.id)] = buffer_name(program, ids[place])
    for aref in program.arefs:
        ids = role.section.arefs.get(aref.id, (aref.id,) * (place + 1))
        made.setdefault(role.ring_variable(aref), ring_name(program, program.arefs[ids[place]]))
    return made


def _print_role(role: Role, printing: Printing, out: PythonWriter) -> None:
    owned = tuple(dict.fromkeys(name for group in role.section.groups for name in _arguments(role, group)))
    plain = _used(role, printing.parameters)
    rings = _used(role, owned)
    constants = [f"{name}: gl.constexpr" for name in role.constants.values()]
    out.line("@gluon.jit")
    head, given = f"def {role_name(role)}", [*plain, *rings, *constants]
    out.aligned(head, given, "):" if out.fits(head, given, "):") else "):  # fmt: skip")
    with out.deeper():
        out.docstring(_said(role))
    out.take(role.out)
    out.line()
    out.line()


def _said(role: Role) -> str:
    """What a role is, in a sentence."""
    group, number = role.stream, len(role.section.groups)
    products = any(isinstance(stmt, Multiply) for stmt in group.stmts)
    if any(isinstance(stmt, TensorMultiply) for stmt in group.stmts):
        return (
            f"One warp{' of the first CTA: products of both' if role.program.pairs else ': products'} in tensor memory."
        )
    many = f"{number} partitions of {hopper.WARPS} warps" if number > 1 else "one warp" if group.issuer else "4 warps"
    what = "products and what follows on them" if products else "copies by the TMA" if group.issuer else "computing"
    turns = "; they take program instances alternately" if group.share[1] > 1 else ""
    budget = f" {_registers(group.registers)} registers a thread." if group.registers or group.issuer else ""
    return f"{many[0].upper()}{many[1:]}: {what}{turns}.{budget}"


# ---------------------------------------------------------------- the kernel
def _parameters(
    program: WarpProgram, roles: tuple[Role, ...], descriptors: tuple[DescriptorParameter, ...]
) -> tuple[str, ...]:
    """Of the kernel: descriptors, arguments of the Triton kernel that the roles ask for, the launch."""
    given = (a for a in program.program.arguments if not a.type.element.startswith("desc"))
    arguments = tuple(a.name for a in given if a.name.isidentifier())
    launch = (*(f"grid_{axis}" for axis in grid_sizes(program)), "instances")
    more = ("together",) if program.once else ()
    more = (*more, COUNTER) if program.instance_ring is not None and not program.cancels else more
    every = (*(d.name for d in descriptors), *arguments, *launch, *more)
    found = {name for role in roles for name in _used(role, every)}
    return tuple(dict.fromkeys(name for name in every if name in found))


def _print_constants(printing: Printing, out: PythonWriter) -> None:
    program = printing.program
    tensor = blackwell.has_tensor_memory(program)
    columns: dict[Layout, int] = {}
    for role in printing.roles:
        bits = {s.accumulator: BITS[s.operand] for s in role.stream.stmts if isinstance(s, Multiply)}
        width = next(iter(bits.values()), 16)
        for shape in role.shapes:
            columns[Products(shape.columns, 0 if isinstance(shape, OperandA) else shape.rows)] = width
            if isinstance(shape, OperandA):
                columns[shape] = width
    assert not any(isinstance(layout, SlicedLayout) for layout in columns)
    least = min((layout.columns for layout in columns if isinstance(layout, Products) and not layout.rows), default=0)
    for layout in sorted(columns, key=_place_of_layout):
        if tensor and isinstance(layout, Products):
            said = blackwell.read_layout(layout.columns, layout.rows, program.pairs)
        else:
            said = definition(layout, columns[layout])
        if tensor and isinstance(layout, Products) and not layout.rows and layout.columns == least:
            out.line("# a row of a product's result in tensor memory in the registers of each thread")
        out.call(f"{layout.text} = gl.constexpr", [said])
    for name, text in layouts(program, _kept(printing)):
        out.call(f"{name} = gl.constexpr", [text])
    out.line()
    out.line()


def _place_of_layout(layout: Layout) -> tuple[bool, int, int]:
    return isinstance(layout, OperandA), layout.columns, 0 if isinstance(layout, OperandA) else layout.rows


def _kept(printing: Printing) -> list[Buffer]:
    """Buffers that some role names: others are scratch memory of reductions, which Triton makes for itself."""
    passed, program = _passed(printing), printing.program
    rings = {number for aref in program.arefs for number in aref.buffers}
    return [b for b in program.buffers if b.id in rings or buffer_name(program, b.id) in passed]


def _passed(printing: Printing) -> set[str]:
    """Names of rings, buffers and barriers that the kernel passes to some partition."""
    found: set[str] = set()
    for role in printing.roles:
        for group in role.section.groups:
            renamed = _arguments(role, group)
            found |= {renamed[name] for name in _used(role, tuple(renamed))}
    return found


def _print_kernel(printing: Printing, out: PythonWriter) -> None:
    program = printing.program
    out.line("@gluon.jit")
    head, given = f"def {printing.entry}", list(printing.parameters)
    out.aligned(head, given, "):" if out.fits(head, given, "):") else "):  # fmt: skip")
    with out.deeper():
        out.line(
            '"""Rings and barriers, and the partitions that share them; the first one is the default partition."""'
        )
        print_memory(program, _kept(printing), out)
        if blackwell.has_tensor_memory(program):
            out.fact(hopper.FENCED)
            out.line(f"{hopper.FENCE}  # the TMA fills shared memory where the address of tensor memory was")
        _print_partitions(printing, out)
    out.line()
    out.line()


def _print_partitions(printing: Printing, out: PythonWriter) -> None:
    program, workers = printing.program, _order(printing.roles)[1:]
    out.line("gl.warp_specialize(")
    with out.deeper():
        out.line("[")
        with out.deeper():
            for role in printing.roles:
                for place, group in enumerate(role.section.groups):
                    _print_partition(role, place, group, printing, out)
        out.line("],")
        out.line(
            f"[{', '.join(str(_warps(program, g)) for g in workers)}],  # warps of the partitions behind the first"
        )
        budgets = ", ".join(str(_registers(program.groups[g].registers)) for g in workers)
        out.fact(BUDGETS + budgets)
        out.line(f"[{budgets}],  # registers of their threads; the first, the default one, has what is left")
    out.line(")  # fmt: skip")


def _print_partition(role: Role, place: int, group: int, printing: Printing, out: PythonWriter) -> None:
    """A role with what one of its groups has."""
    renamed = _arguments(role, group)
    rings = [renamed[name] for name in _used(role, tuple(renamed))]
    given = [*_used(role, printing.parameters), *rings, *(str(values[place]) for values in role.constants)]
    only = "," if len(given) == 1 else ""
    out.aligned(f"({role_name(role)}, ", given, f"{only})),")
