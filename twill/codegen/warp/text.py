"""A warp program as text: one line a statement, blocks indented, names instead of ids, kernel lines as comments.

It says everything but the tile program: with that, `twill.codegen.warp.parse` makes the same program of it. The form of
each line is in `twill.codegen.warp.forms`, what stands in lines in `twill.codegen.warp.notation`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from twill.codegen.warp import program as ir
from twill.codegen.warp.forms import FORMS
from twill.codegen.warp.scalars import ScalarNames, table, write_expr
from twill.codegen.warp.tokens import INDENT, quoted

BLOCKS = ("start", "next", "body", "skip", "finish")  # of a warp group, in this order
COMMON = ("setup", "once", "walk")  # blocks of the program


def text(program: ir.WarpProgram) -> str:
    """The whole program. Ends with a newline."""
    tile, names = program.program, names_of(program)
    kernel = f"{quoted(tile.kernel)} {quoted(tile.spec)} for {quoted(program.machine)}"
    lines = [f"warp program {kernel}: {program.shared} bytes of shared memory"]
    lines += [f"{program.ctas} CTAs share an SM"] if program.ctas > 1 else []
    single = [] if program.cluster is None else [program.cluster]
    declared = (*single, *program.maps, *program.buffers, *program.arefs, *program.barriers)
    lines += [*(FORMS[type(entry)].write(entry, names) for entry in declared)]
    for name in COMMON:
        if block := getattr(program, name):
            lines += [name, *_block(block, names, INDENT)]
    for group in program.groups:
        lines += ["", *_group(group, names)]
    return "\n".join(lines) + "\n"


def names_of(program: ir.WarpProgram) -> ScalarNames:
    """What everything in a program is called."""
    fragments = [fragment for group in program.groups for fragment in group.fragments]
    cursors = [cursor for group in program.groups for cursor in group.cursors]
    return ScalarNames(
        program.program,
        map=table("a tensor map", ((m.id, m.argument) for m in program.maps)),
        buffer=table("a buffer", ((b.id, b.name) for b in program.buffers)),
        aref=table("an aref", ((a.id, a.name) for a in program.arefs)),
        barrier=table("a barrier", ((b.id, b.name) for b in program.barriers)),
        group=table("a warp group", ((g.id, g.role) for g in program.groups)),
        fragment=table("a fragment", ((f.id, f.name) for f in fragments), {f.id: f.element for f in fragments}),
        cursor=table("a cursor", ((c.id, c.name) for c in cursors)),
    )


def _group(group: ir.WarpGroup, names: ScalarNames) -> Iterator[str]:
    yield FORMS[ir.WarpGroup].write(group, names)
    for entry in (*group.fragments, *group.cursors):
        yield INDENT + FORMS[type(entry)].write(entry, names)
    if group.loop is not None:
        yield INDENT + FORMS[ir.InstanceLoop].write(group.loop, names)
    for name in BLOCKS:
        block = getattr(group, name)
        if block or name == "body":
            yield INDENT + name
            yield from _block(block, names, INDENT * 2)


def _block(stmts: Iterable[ir.Stmt], names: ScalarNames, indent: str) -> Iterator[str]:
    for stmt in stmts:
        yield indent + FORMS[type(stmt)].write(stmt, names)
        if isinstance(stmt, ir.If):
            yield from _block(stmt.body, names, indent + INDENT)
            if stmt.otherwise:
                yield f"{indent}else"
                yield from _block(stmt.otherwise, names, indent + INDENT)
        elif isinstance(stmt, ir.PublishInstance | ir.ScalarLoop | ir.Elect):
            yield from _block(stmt.body, names, indent + INDENT)
        elif isinstance(stmt, ir.Pipeline):
            for name, block in _phases(stmt, names):
                yield f"{indent}{INDENT}{name}"
                yield from _block(block, names, indent + INDENT * 2)


def _phases(stmt: ir.Pipeline, names: ScalarNames) -> Iterator[tuple[str, tuple[ir.Stmt, ...]]]:
    yield from ((f"prologue {k}", block) for k, block in enumerate(stmt.prologue))
    yield "steady", stmt.steady
    if stmt.until is not None:
        yield f"steady from {write_expr(stmt.until, names)} on", stmt.later
    yield from ((f"epilogue {k}", block) for k, block in enumerate(stmt.epilogue))
