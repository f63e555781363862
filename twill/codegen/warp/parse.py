"""The warp program that a text says: `parse(text(p), p.program) == p`.

First all declarations are read, so that every name is known wherever it stands; then the blocks of each warp group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from twill.codegen.warp import program as ir
from twill.codegen.warp.expression import Expr
from twill.codegen.warp.forms import FORMS, read_statement
from twill.codegen.warp.scalars import ScalarNames, read_expr, read_int, read_word, table
from twill.codegen.warp.text import BLOCKS, COMMON
from twill.codegen.warp.tokens import Mismatch, Reader, TextLine, lines
from twill.exc import WarpTextSyntax
from twill.tile.program import TileProgram

T = TypeVar("T")
_ORDERED = (ir.TensorMapSpec, ir.Buffer, ir.Aref, ir.NamedBarrier)
_FIRST = {FORMS[made].parts[0].text.split()[0].strip(":"): made for made in (*_ORDERED, ir.Cluster)}


def parse(text: str, program: TileProgram) -> ir.WarpProgram:
    """The warp program of a text, which does what `program` does. Raises WarpTextSyntax."""
    top = lines(text)
    if not top:
        raise WarpTextSyntax("an empty text", ("`warp program`",), line=1, column=1)
    head, *others = top
    groups = [line for line in others if line.reader.peek().text == "group"]
    declared = [line for line in others if line.reader.peek().text != "group"]
    names = _names(declared, groups, program)
    machine, shared = _only(head, lambda r: _head(r, program))
    said: dict[str, Any] = {"machine": machine, "shared": shared}
    entries: list[Any] = []
    for line in declared:
        kind = _FIRST.get(line.reader.peek().text)
        if (block := line.reader.peek().text) in COMMON:
            _only(line, lambda r, block=block: r.expect(block), below=True)  # type: ignore[misc]
            said[block] = _block(line.below, names)
        elif kind is None:
            said |= _only(line, _setting)
        else:
            entries.append(_declared(kind, line, names))
    made_groups = tuple(_group(line, names) for line in groups)
    of: dict[type[Any], tuple[Any, ...]] = {}
    for made in (*_ORDERED, ir.Cluster):
        of[made] = tuple(entry for entry in entries if isinstance(entry, made))
    maps, buffers, arefs, barriers = (of[made] for made in _ORDERED)
    return ir.WarpProgram(
        program, maps=maps, buffers=buffers, arefs=arefs, barriers=barriers, groups=made_groups,
        cluster=next(iter(of[ir.Cluster]), None), **said,
    )  # fmt: skip


def _only(line: TextLine, read: Callable[[Reader], T], below: bool = False) -> T:
    """What a whole line says, which has no lines below it unless it may. Raises WarpTextSyntax."""
    try:
        made = read(line.reader)
        line.reader.finish()
    except Mismatch:
        raise line.reader.error() from None
    if line.below and not below:
        inner = line.below[0]
        raise WarpTextSyntax("a block", ("no block here",), line=inner.reader.number, column=inner.indent + 1)
    return made


# ---------------------------------------------------------------- declarations
def _head(r: Reader, program: TileProgram) -> tuple[str, int]:
    r.expect("warp")
    r.expect("program")
    for wanted in (program.kernel, program.spec):
        at = r.at
        if read_word(r) != wanted:
            r.at = at
            r.fail(f"`{wanted}`, as the tile program says")
    r.expect("for")
    machine = read_word(r)
    r.expect(":")
    shared = read_int(r)
    for word in ("bytes", "of", "shared", "memory"):
        r.expect(word)
    return machine, shared


def _setting(r: Reader) -> dict[str, Any]:
    """A line of the program that is no declaration."""
    if r.peek().kind != "number":
        for known in (*_FIRST, "group", *COMMON):
            r.attempt(lambda r, known=known: r.expect(known))  # type: ignore[misc]
    ctas = read_int(r)
    for word in ("CTAs", "share", "an", "SM"):
        r.expect(word)
    return {"ctas": ctas}


def _declared(made: type[Any], line: TextLine, names: ScalarNames) -> Any:
    return made(**_only(line, lambda r: FORMS[made].read(r, names)))


def _names(declared: Iterable[TextLine], groups: Iterable[TextLine], program: TileProgram) -> ScalarNames:
    """Every name that is declared, read in front of everything else."""
    found: dict[str, list[tuple[int, str]]] = {word: [] for word in (*_FIRST, "group", "fragment", "cursor")}
    elements: dict[int, str] = {}
    inside = [line for group in groups for line in group.below]
    for line in (*declared, *groups, *inside):
        r = line.reader
        word = r.peek().text
        if word not in found or r.peek(1).kind != "number":
            continue  # no declaration of a name; or an error, found when the line is read
        try:
            r.expect(word)
            number = read_int(r)
            found[word].append((number, read_word(r)))
            if word == "fragment" and r.accept(":"):
                elements[number] = read_word(r)
        except Mismatch:
            raise r.error() from None
        r.at, r.furthest = 0, (0, ())
    return ScalarNames(
        program,
        map=table("a tensor map", found["map"]),
        buffer=table("a buffer", found["buffer"]),
        aref=table("an aref", found["aref"]),
        barrier=table("a barrier", found["barrier"]),
        group=table("a warp group", found["group"]),
        fragment=table("a fragment", found["fragment"], elements),
        cursor=table("a cursor", found["cursor"]),
    )


def _group(line: TextLine, names: ScalarNames) -> ir.WarpGroup:
    said = _only(line, lambda r: FORMS[ir.WarpGroup].read(r, names), below=True)
    fragments: list[ir.Fragment] = []
    cursors: list[ir.Cursor] = []
    blocks: dict[str, Any] = {"body": ()}
    for inner in line.below:
        word = inner.reader.peek().text
        if word == "fragment":
            fragments.append(_declared(ir.Fragment, inner, names))
        elif word == "cursor":
            cursors.append(_declared(ir.Cursor, inner, names))
        elif word == "instances":
            blocks["loop"] = _declared(ir.InstanceLoop, inner, names)
        else:
            name = _only(inner, _block_name, below=True)
            blocks[name] = _block(inner.below, names)
    return ir.WarpGroup(**said, fragments=tuple(fragments), cursors=tuple(cursors), **blocks)


def _block_name(r: Reader) -> str:
    for name in BLOCKS:
        if r.accept(name):
            return name
    r.fail(", ".join(f"`{name}`" for name in ("fragment", "cursor", "instances", *BLOCKS)))


# ---------------------------------------------------------------- statements
def _block(inside: Iterable[TextLine], names: ScalarNames) -> tuple[ir.Stmt, ...]:
    made: list[ir.Stmt] = []
    for line in inside:
        before = made[-1] if made else None
        if isinstance(before, ir.If) and not before.otherwise and line.reader.accept("else"):
            _only(line, lambda r: None, below=True)
            made[-1] = replace(before, otherwise=_block(line.below, names))
            continue
        made.append(_statement(line, names))
    return tuple(made)


def _statement(line: TextLine, names: ScalarNames) -> ir.Stmt:
    form, said = read_statement(line.reader, names)
    said |= {"line": line.reader.line, "note": line.reader.note}
    if form.made is ir.If:
        return ir.If(**said, body=_block(line.below, names))
    if form.made in (ir.PublishInstance, ir.ScalarLoop, ir.Elect):
        inner: ir.Stmt = form.made(**said, body=_block(line.below, names))
        return inner
    if form.made is ir.Pipeline:
        return _pipeline(line, said, names)
    _only(line, lambda r: None)
    made: ir.Stmt = form.made(**said)
    return made


def _pipeline(line: TextLine, said: dict[str, Any], names: ScalarNames) -> ir.Pipeline:
    phases: dict[str, list[tuple[ir.Stmt, ...]]] = {"prologue": [], "steady": [], "later": [], "epilogue": []}
    until: Expr | None = None
    for inner in line.below:
        phase, condition = _only(inner, lambda r: _phase(r, phases, names), below=True)
        until = condition if phase == "later" else until
        phases[phase].append(_block(inner.below, names))
    if len(phases["steady"]) != 1:
        wanted = ("one below the pipeline",)
        raise WarpTextSyntax(
            f"{len(phases['steady'])} blocks `steady`", wanted, line=line.reader.number, column=line.indent + 1
        )
    prologue, epilogue = tuple(phases["prologue"]), tuple(phases["epilogue"])
    later = phases["later"][0] if phases["later"] else ()
    return ir.Pipeline(
        **said, prologue=prologue, steady=phases["steady"][0], epilogue=epilogue, until=until, later=later
    )


def _phase(r: Reader, phases: dict[str, list[tuple[ir.Stmt, ...]]], names: ScalarNames) -> tuple[str, Expr | None]:
    if r.accept("steady"):
        if not r.accept("from"):
            return "steady", None
        until = read_expr(r, names)
        r.expect("on")
        return "later", until
    for name in ("prologue", "epilogue"):
        if r.accept(name):
            r.expect(str(len(phases[name])))
            return name, None
    r.fail("`prologue`, `steady` or `epilogue`")
