"""A warp program as a module of Gluon: a function for each role, the kernel that starts them, and the launcher."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twill.codegen.print.gluon import barriers, blackwell, hopper
from twill.codegen.print.gluon.facts import BUDGETS, ModuleFact
from twill.codegen.print.gluon.host import print_launcher
from twill.codegen.print.gluon.instances import (
    count_instances,
    grid_sizes,
    print_ids,
    print_loop_head,
    print_passed,
    print_place,
)
from twill.codegen.print.gluon.layouts import Layout, OperandA, Products, SlicedLayout, definition
from twill.codegen.print.gluon.preface import docstring, helpers, imports
from twill.codegen.print.gluon.role import Role, identifier, role_of
from twill.codegen.print.gluon.scalars import BITS, TYPES
from twill.codegen.print.gluon.statements import print_block
from twill.codegen.print.gluon.tensor_rings import hosted, print_ring
from twill.codegen.print.gluon.writer import PythonWriter
from twill.codegen.print.sections import sections
from twill.codegen.warp.program import Aref, Multiply, TensorMultiply, WarpProgram

if TYPE_CHECKING:
    from twill.kernel.specialization import Specialization
    from twill.schedule.document import Schedule


@dataclass(frozen=True)
class DescriptorParameter:
    """A tensor descriptor that the kernel takes: its name, of which map, in which blocks, and the name of its layout in
    shared memory."""

    name: str
    map: int
    block: tuple[int, ...]
    layout: str


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
    known: dict[tuple[int, tuple[int, ...]], str] = {}
    roles = tuple(role_of(program, section, known) for section in sections(program))
    for role in roles:
        _print_stream(role)
    descriptors = tuple(
        DescriptorParameter(
            name, number, block, _shared(program.maps[number].swizzle, program.maps[number].element, len(block))[0]
        )
        for (number, block), name in sorted(known.items(), key=lambda item: program.maps[item[0][0]].argument)
    )
    printing = Printing(program, roles, descriptors, _parameters(program, roles, descriptors))
    out = PythonWriter()
    for line in docstring(program, specialization, schedule).splitlines():
        out.line(line)
    out.line()
    for line in imports(set().union(*(role.features for role in roles)), program):
        out.line(line)
    out.line()
    _print_constants(printing, out)
    pairs = {barriers.HELPER} if blackwell.has_tensor_memory(program) else set[str]()
    if functions := helpers(pairs.union(*(role.features for role in roles))):
        for line in (*functions, "", ""):
            out.line(line)
    print_place(program, out)
    for role in roles:
        _print_role(role, printing, out)
    _print_kernel(printing, out)
    print_launcher(printing.entry, printing.parameters, descriptors, program, specialization, out)
    workers = tuple((_warps(program, g), _registers(program.groups[g].registers)) for g in _order(roles)[1:])
    text = "\n".join(out.text) + "\n"
    facts = tuple(sorted(out.facts))
    return GluonModule(text, printing.entry, printing.parameters, descriptors, out.lines, workers, facts)


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
    """What a group passes for each ring, buffer and barrier of its role: parameter -> name in the kernel."""
    program, place = role.program, role.section.groups.index(group)
    made: dict[str, str] = {}
    for aref in program.arefs:
        ids = role.section.arefs.get(aref.id, (aref.id,) * (place + 1))
        own = program.arefs[ids[place]]
        base, real = role.ring(aref), identifier(own.name)
        made |= {f"{base}_{kind}": f"{real}_{kind}" for kind in ("full", "empty")}
    for buffer in program.buffers:
        ids = role.section.buffers.get(buffer.id, (buffer.id,) * (place + 1))
        made[role.buffer(buffer.id)] = _kernel_name(program, ids[place])
    return made


def _print_role(role: Role, printing: Printing, out: PythonWriter) -> None:
    owned = tuple(dict.fromkeys(name for group in role.section.groups for name in _arguments(role, group)))
    plain = _used(role, printing.parameters)
    rings = _used(role, owned)
    constants = [f"{name}: gl.constexpr" for name in role.constants.values()]
    out.line("@gluon.jit")
    out.call(f"def {role_name(role)}", [*plain, *rings, *constants], "):")
    with out.deeper():
        out.prose(_said(role), '"""', '"""')
    out.take(role.out)
    out.line()
    out.line()


def _said(role: Role) -> str:
    """What a role is, in a sentence."""
    group, number = role.stream, len(role.section.groups)
    products = any(isinstance(stmt, Multiply) for stmt in group.stmts)
    if any(isinstance(stmt, TensorMultiply) for stmt in group.stmts):
        return "One warp: products in tensor memory."
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
    arguments = tuple(a.name for a in program.program.arguments if a.name.isidentifier())
    launch = (*(f"grid_{axis}" for axis in grid_sizes(program)), "instances")
    more = ("together",) if program.once else ()
    every = (*(d.name for d in descriptors), *arguments, *launch, *more)
    found = {name for role in roles for name in _used(role, every)}
    return tuple(dict.fromkeys(name for name in every if name in found))


def _shared(swizzle: int, element: str, rank: int) -> tuple[str, str]:
    """Name and definition of a layout of tiles in shared memory."""
    bits = BITS[element]
    name = f"SWIZZLED_{swizzle}" if bits == 16 else f"SWIZZLED_{swizzle}_OF_{bits}_BITS"
    return name, hopper.shared_layout(swizzle, bits, rank)


def _stages(printing: Printing) -> dict[str, int]:
    """Names of depths."""
    found: dict[str, int] = {}
    for role in printing.roles:
        for aref in printing.program.arefs:
            found[role.depth(aref)] = aref.depth
    text = "\n".join(line for role in printing.roles for line in role.out.text)
    return {name: depth for name, depth in found.items() if re.search(rf"\b{name}\b", text)}


def _print_constants(printing: Printing, out: PythonWriter) -> None:
    program = printing.program
    for name, depth in _stages(printing).items():
        out.line(f"{name} = gl.constexpr({depth})")
    tensor = blackwell.has_tensor_memory(program)
    columns: dict[Layout, int] = {}
    for role in printing.roles:
        bits = {s.accumulator: BITS[s.operand] for s in role.stream.stmts if isinstance(s, Multiply)}
        width = next(iter(bits.values()), 16)
        for shape in role.shapes:
            columns[Products(shape.columns)] = width
            if isinstance(shape, OperandA):
                columns[shape] = width
    assert not any(isinstance(layout, SlicedLayout) for layout in columns)
    for layout in sorted(columns, key=lambda one: (isinstance(one, OperandA), one.columns)):
        said = blackwell.read_layout(layout.columns) if tensor else definition(layout, columns[layout])
        out.line(f"{layout.text} = gl.constexpr({said})")
    shared = {
        _shared(b.swizzle, b.element, len(b.shape))
        for b in program.buffers
        if not b.tensor and not _is_scratch(printing, b.id)
    }
    for name, text in sorted(shared):
        out.line(f"{name} = gl.constexpr({text})")
    out.line()
    out.line()


def _is_scratch(printing: Printing, number: int) -> bool:
    """Whether no role names a buffer: it is scratch memory of reductions, which Triton makes for itself."""
    return _kernel_name(printing.program, number) not in _passed(printing)


def _passed(printing: Printing) -> set[str]:
    """Names of rings, buffers and barriers that the kernel passes to some partition."""
    found: set[str] = set()
    for role in printing.roles:
        for group in role.section.groups:
            renamed = _arguments(role, group)
            found |= {renamed[name] for name in _used(role, tuple(renamed))}
    return found


def _kernel_name(program: WarpProgram, number: int) -> str:
    """What a buffer is called in the kernel."""
    name = identifier(program.buffers[number].name)
    return f"{name}_ring" if any(number in aref.buffers for aref in program.arefs) else name


def _print_kernel(printing: Printing, out: PythonWriter) -> None:
    program = printing.program
    out.line("@gluon.jit")
    out.call(f"def {printing.entry}", list(printing.parameters), "):")
    with out.deeper():
        out.line(
            '"""Rings and barriers, and the partitions that share them; the first one is the default partition."""'
        )
        for buffer in program.buffers:
            if _is_scratch(printing, buffer.id):
                continue
            aref = next((a for a in program.arefs if buffer.id in a.buffers), None)
            name = _kernel_name(program, buffer.id)
            slots = [_depth(printing, aref)] if aref is not None else []
            if buffer.tensor:
                over = hosted(program, buffer)
                host = _kernel_name(program, over.host.id) if over is not None else ""
                print_ring(name, buffer, slots[0], over, host, out)
                continue
            shape = ", ".join([*slots, *map(str, buffer.shape)])
            layout = _shared(buffer.swizzle, buffer.element, len(buffer.shape))[0]
            out.line(f"{name} = gl.allocate_shared_memory(gl.{TYPES[buffer.element]}, [{shape}], {layout})")
        for aref in () if blackwell.has_tensor_memory(program) else program.arefs:
            for kind in ("full", "empty"):
                shape = f"[{_depth(printing, aref)}, 1]"
                name = f"{identifier(aref.name)}_{kind}"
                out.line(f"{name} = gl.allocate_shared_memory(gl.int64, {shape}, mbarrier.MBarrierLayout())")
        for aref in program.arefs:
            _print_barriers(aref, printing, out)
        if blackwell.has_tensor_memory(program):
            out.line(f"{hopper.FENCE}  # the word that said where tensor memory is may lie where a ring does")
        _print_partitions(printing, out)
    out.line()
    out.line()


def _depth(printing: Printing, aref: Aref) -> str:
    """A ring's depth in the text."""
    names = [role.depth(aref) for role in printing.roles if role.depth(aref) in _stages(printing)]
    return names[0] if names and aref.depth > 1 else str(aref.depth)


def _print_barriers(aref: Aref, printing: Printing, out: PythonWriter) -> None:
    """Whole partitions arrive, each once, where warps do in the warp program; the TMA's bytes, and products that are
    over, come with one arrival."""
    full = aref.full_count if aref.transport in ("tma", "mma") else aref.full_count // hopper.WARPS
    issuing = sum(printing.program.groups[consumer].issuer for consumer in aref.consumers)
    empty = issuing + (aref.empty_count - issuing) // hopper.WARPS
    printer = barriers.print_pair if blackwell.has_tensor_memory(printing.program) else barriers.print_single
    printer(identifier(aref.name), aref.depth, _depth(printing, aref), full, empty, out)


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
    out.line(f"({role_name(role)}, (")
    with out.deeper():
        for line in out.filled(given):
            out.line(line)
    out.line(")),")
