"""Which program instance a CTA works on next, as Gluon.

The kernel is persistent: CTA t of G has the instances t, t + G, ... of an order, and every role walks the same ones. A
role of several groups that take instances alternately walks every second of them, and its counters pass the others by.
"""

from __future__ import annotations

from twill import exc
from twill.codegen.print.gluon.role import Role
from twill.codegen.print.gluon.scalars import ATOM, Text
from twill.codegen.print.gluon.writer import PythonWriter
from twill.codegen.warp.expression import Local, NumPrograms, ProgramId
from twill.codegen.warp.parameters import nodes
from twill.codegen.warp.program import INSTANCES, LongestFirst, Skip, WarpProgram

AXES = 3
PLACE = "place_of"
PROGRAM_ID = "program_id.0"  # among the names of a role


def used_axes(program: WarpProgram) -> list[int]:
    """Axes of the launch grid that some role asks for."""
    parts = tuple((group.body, group.skip, group.finish) for group in program.groups)
    return sorted({node.axis for node in nodes(parts) if isinstance(node, ProgramId)})


def grid_sizes(program: WarpProgram) -> list[int]:
    """Axes whose sizes the roles need, for themselves or to know where an instance is."""
    parts = tuple((group.body, group.skip, group.finish) for group in program.groups)
    asked = {node.axis for node in nodes(parts) if isinstance(node, NumPrograms)}
    return sorted(asked | set(_needed(program)))


def _needed(program: WarpProgram) -> list[int]:
    """Axes whose sizes it takes to know where an instance is."""
    used = used_axes(program)
    if not used:
        return []
    if program.order is not None:
        return sorted({program.order.axis, next(a for a in range(AXES) if a != program.order.axis)})
    if program.raster_group and {0, 1} & set(used):
        return [0, 1]
    return [] if used == [0] and is_flat(program) else list(range(min(AXES, max(used) + 1)))


def is_flat(program: WarpProgram) -> bool:
    """Whether the number of an instance is its grid index: the grid has one axis as far as the kernel asks."""
    return used_axes(program) in ([], [0]) and not program.raster_group and program.order is None


def place_arguments(program: WarpProgram) -> list[str]:
    """What the function that says where an instance is takes."""
    more = ["instances", "together"] if program.order is not None else []
    return ["instance", *(f"grid_{axis}" for axis in _needed(program)), *more]


def print_place(program: WarpProgram, out: PythonWriter) -> None:
    """The function that says where in the launch grid an instance is, if it takes one."""
    if is_flat(program) or not used_axes(program):
        return
    out.line("@gluon.jit")
    with out.block(f"def {PLACE}({', '.join(place_arguments(program))})"):
        if program.order is not None:
            _longest_first(program.order, used_axes(program), out)
        elif program.raster_group and {0, 1} & set(used_axes(program)):
            _rasterized(program.raster_group, used_axes(program), out)
        else:
            out.line('"""The grid indices of an instance, the first axis the fastest."""')
            ids = ("instance % grid_0", "instance // grid_0 % grid_1", "instance // (grid_0 * grid_1)")
            out.line(f"return {', '.join(ids[axis] for axis in used_axes(program))}")
    out.line()
    out.line()


def _rasterized(group: int, used: list[int], out: PythonWriter) -> None:
    out.line(f'"""The grid indices of an instance: {group} rows of the grid are walked together, column by column."""')
    layered = 2 in used
    here = "instance % (grid_0 * grid_1)" if layered else "instance"
    if layered:
        out.line(f"in_layer = {here}")
        here = "in_layer"
    out.line(f"first_row = {here} // ({group} * grid_1) * {group}")
    out.line(f"in_band = {here} - first_row * grid_1")
    out.line(f"rows = gl.minimum(grid_0 - first_row, {group})")
    ids = ("first_row + in_band % rows", "in_band // rows", "instance // (grid_0 * grid_1)")
    out.line(f"return {', '.join(ids[axis] for axis in used)}")


def _longest_first(order: LongestFirst, used: list[int], out: PythonWriter) -> None:
    grid = f"grid_{order.axis}"
    first, second = (axis for axis in range(AXES) if axis != order.axis)
    for line in (
        '"""The grid indices of an instance: the longest come first, and every other round of CTAs runs backwards, so',
        "that what two rounds add to a CTA is nearly the same for all. `together` instances along the other axes are",
        'walked side by side: what they read stays in the L2 cache."""',
        "cta, ctas = gl.program_id(0), gl.num_programs(0)",
        "begin = instance - cta",
        "backwards = begin + gl.minimum(ctas, instances - begin) - 1 - cta",
        "rank = backwards if instance // ctas % 2 == 1 else instance",
        f"others = instances // {grid}",
        f"band = rank // (together * {grid})",
        "before = band * together",
        "width = gl.minimum(together, others - before)",
        f"inside = rank - before * {grid}",
        "along = inside // width",
        "other = before + inside % width",
        "from_its_end = ((others - 1) // together - band) % 2 == 1  # every other band begins with its shortest",
        f"step = {grid} - 1 - along if from_its_end else along",
    ):
        out.line(line)
    ids = {first: f"other % grid_{first}", second: f"other // grid_{first}"}
    ids[order.axis] = f"{grid} - 1 - step" if order.grows else "step"
    out.line(f"return {', '.join(ids[axis] for axis in used)}")


def print_loop_head(role: Role) -> str:
    """The lines in front of the loop over instances, and the loop's head."""
    turn, of = role.stream.share
    out, begin, step = role.out, "gl.program_id(0)", "gl.num_programs(0)"
    passed = {stmt.cursor: stmt for stmt in role.stream.skip if isinstance(stmt, Skip)}
    if of > 1:
        group = role.constant(tuple(range(of))) if len(role.section.groups) == of else str(turn)
        _refuse_varying(role)
        begin, step = f"{begin} + {group} * {step}", f"{of} * {step}"
    for shared in dict.fromkeys(role.counters.values()):
        start = "0"
        if shared in passed:
            start = f"{group} * {role.scalar(passed[shared].count).within(1)}"
        out.line(f"{role.counts[shared]} = {start}")
    name = "instance"
    if is_flat(role.program) and used_axes(role.program):
        name = "pid"
        role.locals[PROGRAM_ID] = Text(name)
    return f"for {name} in range({begin}, instances, {step})"


def print_passed(role: Role) -> None:
    """Behind an instance: the counters pass by those of the other groups."""
    _, of = role.stream.share
    for stmt in role.stream.skip:
        if isinstance(stmt, Skip) and role.counters[stmt.cursor] == stmt.cursor:
            text = role.scalar(stmt.count)
            more = text.text if of == 2 else f"{of - 1} * {text.within(1)}"
            role.out.line(f"{role.counts[stmt.cursor]} += {more}  # of the other group{'s' if of > 2 else ''}")


def _refuse_varying(role: Role) -> None:
    """What other groups' instances take must be the same for all of them."""
    for stmt in role.stream.skip:
        loose = [n for n in nodes(stmt) if isinstance(n, ProgramId | Local)]
        if not isinstance(stmt, Skip) or loose:
            raise exc.NotInGluon("instances that warp groups take alternately have unequal trip counts")
    if any(isinstance(n, Local) and n.name == INSTANCES for n in nodes(role.stream.body)):
        raise exc.NotInGluon("what an instance does depends on how many were before it")


def print_ids(role: Role) -> None:
    """Where in the grid the instance is, as far as the role asks."""
    program = role.program
    if is_flat(program):
        return
    every = used_axes(program)
    own = {n.axis for n in nodes((role.stream.body, role.stream.finish)) if isinstance(n, ProgramId)}
    if own:
        names = ", ".join(f"pid_{axis}" if axis in own else "_" for axis in every)
        role.out.line(f"{names} = {PLACE}({', '.join(place_arguments(program))})")


def count_instances(role: Role) -> None:
    """How many instances the CTA has had, where what comes last asks."""
    if any(isinstance(n, Local) and n.name == INSTANCES for n in nodes(role.stream.finish)):
        role.locals[INSTANCES] = Text("taken", ATOM)
        role.out.line("taken = gl.cdiv(instances - gl.program_id(0), gl.num_programs(0))  # instances of this CTA")


def together(order: LongestFirst, expression: str) -> list[str]:
    """Python of the launcher: how many instances are walked side by side. expression: of the bytes that the longest
    reads."""
    return [
        f"others = instances // grid[{order.axis}]",
        f"most = min(max(1, {order.cached} // max(1, {expression})), others, {order.most})",
        "together = (others - 1) // ((others - 1) // most + 1) + 1  # bands as wide as one another",
        "while (others - 1) % together * 2 + 2 < together:  # no narrow last one",
        "    together -= 1",
    ]
