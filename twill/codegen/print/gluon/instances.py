"""Which program instance a CTA works on next, as Gluon.

The kernel is persistent: CTA t of G has the instances t, t + G, ... of an order, and every role walks the same ones. A
role of several groups that take instances alternately walks every second of them, and its counters pass the others by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from twill import exc
from twill.codegen.passes.unused_indices import names, needed
from twill.codegen.print.gluon.fetched import is_fetched
from twill.codegen.print.gluon.pairs import TOLD
from twill.codegen.print.gluon.role import Role
from twill.codegen.print.gluon.scalars import AND, ATOM, CHOICE, COMPARE, OR, PRODUCT, SUM, Text, of_descriptor
from twill.codegen.print.gluon.writer import PythonWriter
from twill.codegen.warp import program as ir
from twill.codegen.warp.expression import Apply, CtaNumber, Expr, Local, Number, NumPrograms, ProgramId, Symbol, inlined
from twill.codegen.warp.parameters import nodes
from twill.tile.vocabulary import COMPARISONS

PLACE = "place_of"
RANK_OF_CTA = "rank_of_cta"
PROGRAM_ID = "program_id.0"  # among the names of a role
_SIGNS = {"mul": ("*", PRODUCT), "div": ("//", PRODUCT), "rem": ("%", PRODUCT), "add": ("+", SUM), "sub": ("-", SUM),
          "and": ("&", AND), "or": ("|", OR)}  # fmt: skip
_CTA = {"cta": "gl.program_id(0)", "ctas": "gl.num_programs(0)", "rank": f"{RANK_OF_CTA}()"}


def used_axes(program: ir.WarpProgram) -> list[int]:
    """Axes of the launch grid that some role asks for."""
    parts = tuple((group.body, group.skip, group.finish) for group in program.groups)
    return sorted({node.axis for node in nodes(parts) if isinstance(node, ProgramId)})


def grid_sizes(program: ir.WarpProgram) -> list[int]:
    """Axes whose sizes the roles need, for themselves or to know where an instance is."""
    parts = tuple((group.body, group.skip, group.finish) for group in program.groups)
    asked = {node.axis for node in nodes(parts) if isinstance(node, NumPrograms)}
    return sorted(asked | set(_needed(program)))


def _place(program: ir.WarpProgram) -> list[ir.Stmt]:
    """The statements that say where an instance is, along the axes that some role asks for; what is kept for all
    instances is computed anew, from the width of a band that the launcher passes."""
    axes = frozenset(used_axes(program))
    if program.pairs:
        return _place_of_pair(program, axes)
    stmts = list(needed(program.groups[0].next, frozenset(), axes))[::-1]
    keeping = next((stmt for stmt in program.once if isinstance(stmt, ir.Keep)), None)
    if keeping is None:
        return stmts
    wanted = names(keeping) - {stmt.name for stmt in program.once if isinstance(stmt, ir.Evenly)}
    common = [s for s in program.once if isinstance(s, ir.Define) and not wanted.isdisjoint(s.names)]
    values: dict[str, Expr] = dict(zip(ir.RECALLED, keeping.values, strict=True))
    return [*common, *(_without_recall(stmt, values) for stmt in stmts if not isinstance(stmt, ir.Recall))]


def _place_of_pair(program: ir.WarpProgram, axes: frozenset[int]) -> list[ir.Stmt]:
    """The same of a pair, with what is the same for all of them."""
    told = frozenset(told_of_pair(program))
    setup = [ir.Define((n,), (v,)) for s in program.setup if isinstance(s, ir.Define) for n, v in _named(s)]
    known = [stmt for stmt in setup if stmt.names[0] not in ("instances", "cluster", "clusters")]
    longest = max((group.next for group in program.groups), key=len)
    return list(needed([*known, *longest], told, axes))[::-1]


def _named(stmt: ir.Define) -> Iterator[tuple[str, Expr]]:
    return zip(stmt.names, stmt.values, strict=True)


def told_of_pair(program: ir.WarpProgram) -> list[str]:
    """Which of the scalars of a pair of instances some role asks for."""
    parts = tuple((group.body, group.skip, group.finish) for group in program.groups)
    asked = {node.name for node in nodes(parts) if isinstance(node, Local)}
    return [name for name in TOLD if name in asked] if program.pairs else []


def _without_recall(stmt: ir.Stmt, values: dict[str, Expr]) -> ir.Stmt:
    """A statement with what was kept in the place of its names."""
    if isinstance(stmt, ir.Define):
        return replace(stmt, values=tuple(inlined(value, values) for value in stmt.values))
    return replace(stmt, value=inlined(stmt.value, values)) if isinstance(stmt, ir.SetProgramId) else stmt


def _needed(program: ir.WarpProgram) -> list[int]:
    """Axes whose sizes it takes to know where an instance is."""
    if is_flat(program):
        return []
    return sorted({node.axis for node in nodes(tuple(_place(program))) if isinstance(node, NumPrograms)})


def is_flat(program: ir.WarpProgram) -> bool:
    """Whether the number of an instance is its grid index: the grid has one axis as far as the kernel asks."""
    return used_axes(program) in ([], [0]) and not any(isinstance(stmt, ir.Define) for stmt in _place(program))


def place_arguments(program: ir.WarpProgram) -> list[str]:
    """What the function that says where an instance is takes."""
    more = ["instances", "together"] if program.once else []
    if program.pairs:
        found = [*nodes(tuple(_place(program)))]
        more = list(dict.fromkeys(count(node).text for node in found if isinstance(node, Symbol)))
        more += ["instances"] if any(isinstance(n, Local) and n.name == "instances" for n in found) else []
    return ["instance", *(f"grid_{axis}" for axis in _needed(program)), *more]


def print_place(program: ir.WarpProgram, out: PythonWriter) -> None:
    """The function that says where in the launch grid an instance is, if it takes one."""
    if is_flat(program) or not used_axes(program):
        return
    out.line("@gluon.jit")
    with out.block(f"def {PLACE}({', '.join(place_arguments(program))})"):
        out.line(f'"""{_said_of_place(program)}"""')
        found: list[str] = []
        for stmt in _place(program):
            if isinstance(stmt, ir.Define):
                if stmt.note:
                    out.line(f"# {stmt.note}")
                for name, value in zip(stmt.names, stmt.values, strict=True):
                    _print_scalar(name, value, out)
            elif isinstance(stmt, ir.SetProgramId) and isinstance(stmt.value, Apply) and stmt.value.kind == "select":
                found.append(f"pid_{stmt.axis}")
                _print_scalar(found[-1], stmt.value, out)
            elif isinstance(stmt, ir.SetProgramId):
                found.append(count(stmt.value).text)
        out.line(f"return {', '.join([*found, *told_of_pair(program)])}")
    out.line()
    out.line()


def _said_of_place(program: ir.WarpProgram) -> str:
    """What the function says, in a sentence."""
    if not program.pairs:
        return "The grid indices of an instance, in the order in which instances are worked on."
    if told := told_of_pair(program):
        return f"The grid indices of a CTA's own instance of a pair, and of the pair: {', '.join(told)}."
    return "The grid indices of the first instance of a pair, in the order in which pairs are worked on."


def _print_scalar(name: str, value: Expr, out: PythonWriter) -> None:
    """A scalar of the tile scheduler; a choice as a branch."""
    match value:
        case Apply("select", (condition, one, other)):
            out.line(f"{name} = {count(other).text}")
            with out.block(f"if {_holds(condition)}"):
                out.line(f"{name} = {count(one).text}")
        case Apply(operands=operands) if not out.fits("    ", [count(value).text], ""):
            told = zip(_told_apart(name, operands), operands, strict=True)
            parts = tuple(Local(part, one.element) for part, one in told)
            for part, operand in zip(parts, operands, strict=True):
                _print_scalar(part.name, operand, out)
            out.assign(name, count(replace(value, operands=parts)).text)
        case _:
            out.assign(name, count(value).text)


def _told_apart(name: str, operands: Sequence[Expr]) -> list[str]:
    """Names of the operands of an expression that has a name: after the first scalar in each, or after the side on
    which it stands."""
    found = [next((node.name for node in nodes(one) if isinstance(node, Local)), "") for one in operands]
    if "" in found or len({*found}) < len(found):
        return [f"{name}_{side}" for side, _ in zip(("left", "right", "third"), operands, strict=False)]
    return [f"of_{one}" for one in found]


def _holds(condition: Expr) -> str:
    """A condition, or that a number is not 0."""
    asked = count(condition)
    return asked.text if condition.element == "i1" else f"{asked.within(COMPARE - 1)} != 0"


def count(expr: Expr) -> Text:
    """Unsigned arithmetic of the tile scheduler in Gluon. Raises NotInGluon."""
    match expr:
        case Number(value):
            return Text(str(value))
        case NumPrograms(axis):
            return Text(f"grid_{axis}")
        case CtaNumber(of) if of in _CTA:
            return Text(_CTA[of])
        case Symbol(_, name):
            return Text(name if name.isidentifier() else of_descriptor(name))
        case Apply("cast", (operand,)):
            return count(operand)
        case Local(name) if name == ir.INSTANCES:
            return Text("instance // gl.num_programs(0)", PRODUCT)
        case Local(name):
            return Text(name)
        case Apply("min" | "max" as kind, operands):
            return Text(f"gl.{kind}imum({', '.join(count(operand).text for operand in operands)})")
        case Apply("select", (condition, one, other)):
            yes, no = count(one).within(COMPARE), count(other).within(COMPARE)
            return Text(f"{yes} if {_holds(condition)} else {no}", CHOICE)
        case Apply("compare", (left, right), _, attributes):
            return _between(COMPARISONS[str(dict(attributes)["predicate"])], COMPARE, left, right)
        case Apply(kind, (left, right)) if kind in _SIGNS:
            return _between(*_SIGNS[kind], left, right)
    raise exc.NotInGluon(f"no Gluon for the expression {expr!r}", hint="`--as cuda`")


def _between(sign: str, level: int, left: Expr, right: Expr) -> Text:
    """Operators bind to the left."""
    return Text(f"{count(left).within(level)} {sign} {count(right).within(level - 1)}", level)


def print_loop_head(role: Role) -> str:
    """The lines in front of the loop over instances, and the loop's head."""
    turn, of = role.stream.share
    out, begin, step, end = role.out, "gl.program_id(0)", "gl.num_programs(0)", "instances"
    if role.program.pairs and role.stream.loop is not None:
        end = count(role.stream.loop.end).text
    passed = {stmt.cursor: stmt for stmt in role.stream.skip if isinstance(stmt, ir.Skip)}
    if of > 1:
        group = role.constant(tuple(range(of))) if len(role.section.groups) == of else str(turn)
        _refuse_varying(role)
        begin, step = f"{begin} + {group} * {step}", f"{of} * {step}"
    counters = dict.fromkeys(role.counters.values())
    zeros = [role.counts[shared] for shared in counters if shared not in passed]
    if zeros:
        out.line(f"{', '.join(zeros)} = {', '.join('0' for _ in zeros)}")
    for shared in counters:
        if shared in passed:
            out.line(f"{role.counts[shared]} = {group} * {role.scalar(passed[shared].count).within(1)}")
    name = "instance"
    if is_flat(role.program) and used_axes(role.program):
        name = role.instance = "pid"
        role.locals[PROGRAM_ID] = Text(name)
    if is_fetched(role):
        out.line(f"{name} = {begin}  # the first one of a CTA is its own number")
        return f"while {name} < {end}"
    return f"for {name} in range({begin}, {end}, {step})"


def print_rank(role: Role) -> None:
    """Which CTA of a pair this is, where the role asks."""
    parts = (role.stream.start, role.stream.body, role.stream.finish)
    if any(isinstance(node, Local) and node.name == ir.RANK for node in nodes(parts)):
        role.out.line(f"{ir.RANK} = {RANK_OF_CTA}()  # 0 or 1, of the pair")


def print_passed(role: Role) -> None:
    """Behind an instance: the counters pass by those of the other groups."""
    _, of = role.stream.share
    for stmt in role.stream.skip:
        if isinstance(stmt, ir.Skip) and role.counters[stmt.cursor] == stmt.cursor:
            text = role.scalar(stmt.count)
            more = text.text if of == 2 else f"{of - 1} * {text.within(1)}"
            role.out.line(f"{role.counts[stmt.cursor]} += {more}  # of the other group{'s' if of > 2 else ''}")


def _refuse_varying(role: Role) -> None:
    """What other groups' instances take must be the same for all of them."""
    for stmt in role.stream.skip:
        loose = [n for n in nodes(stmt) if isinstance(n, ProgramId | Local)]
        if not isinstance(stmt, ir.Skip) or loose:
            raise exc.NotInGluon("instances that warp groups take alternately have unequal trip counts")
    if any(isinstance(n, Local) and n.name == ir.INSTANCES for n in nodes(role.stream.body)):
        raise exc.NotInGluon("what an instance does depends on how many were before it")


def print_ids(role: Role) -> None:
    """Where in the grid the instance is, as far as the role asks."""
    program = role.program
    if is_flat(program):
        return
    every = used_axes(program)
    found = [*nodes((role.stream.body, role.stream.finish))]
    own = {n.axis for n in found if isinstance(n, ProgramId)}
    asked = {n.name for n in found if isinstance(n, Local)}
    told = told_of_pair(program)
    if own or asked.intersection(told):
        scalars = [name if name in asked else "_" for name in told]
        names = ", ".join([*(f"pid_{axis}" if axis in own else "_" for axis in every), *scalars])
        role.out.line(f"{names} = {PLACE}({', '.join(place_arguments(program))})")


def count_instances(role: Role) -> None:
    """How many instances the CTA has had, where what comes last asks."""
    if any(isinstance(n, Local) and n.name == ir.INSTANCES for n in nodes(role.stream.finish)):
        role.locals[ir.INSTANCES] = Text("taken", ATOM)
        role.out.line("taken = gl.cdiv(instances - gl.program_id(0), gl.num_programs(0))  # instances of this CTA")


def together(once: tuple[ir.Stmt, ...], host: Callable[[Expr], str]) -> list[str]:
    """Python of the launcher: how many instances are walked side by side. host: prints an expression there."""
    lines: list[str] = []
    for stmt in once:
        if isinstance(stmt, ir.Define):
            lines += [f"{name} = {host(value)}" for name, value in zip(stmt.names, stmt.values, strict=True)]
        elif isinstance(stmt, ir.Evenly):
            things, most, name = host(stmt.count), host(stmt.most), stmt.name
            lines += [
                f"{name} = ({things} - 1) // (({things} - 1) // {most} + 1) + 1  # bands as wide as one another",
                f"while ({things} - 1) % {name} * 2 + 2 < {name}:  # no narrow last one",
                f"    {name} -= 1",
            ]
    return lines
