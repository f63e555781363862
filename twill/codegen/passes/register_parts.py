"""What follows a loop in parts of columns, where accumulators are in registers: each part is finished and stored before
the next is begun.

An accumulator keeps its registers until it is stored. What is computed from all of it needs as many again; from a part
of its columns it needs a part of them. So the code behind the last loop is cut as behind tensor memory
(`twill.codegen.passes.column_parts`), and a part is a copy of some columns, which are registers of the accumulator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from twill.codegen.passes.column_parts import cut, fragments_of, is_beside
from twill.codegen.passes.staged_stores import Whole
from twill.codegen.warp import program as ir
from twill.codegen.warp.choices import Choices
from twill.codegen.warp.expression import Element
from twill.codegen.warp.forms import FORMS
from twill.codegen.warp.layout import Accumulator, Along, elements_of

_LOOPS = ir.Pipeline | ir.Multiply | ir.Commit | ir.WaitGroups | ir.Fence | ir.Arrive


def in_parts(group: ir.WarpGroup, program: ir.WarpProgram, registers: int) -> ir.WarpGroup:
    """The group with what follows its last loop in parts of columns whose accumulators take `registers` of a thread
    together; as it is if they take no more, or cannot be cut."""
    start = _behind_loops(group)
    tail = group.body[start:]
    products = {stmt.accumulator for stmt in group.stmts if isinstance(stmt, ir.Multiply)}
    read = [group.fragment(number) for number in sorted(products & _fragments(tail))]
    layouts = {fragment.layout for fragment in read}
    taken = sum(elements_of(fragment.layout) for fragment in read)
    if not registers or taken <= registers or len(layouts) != 1:
        return group
    (layout,) = layouts
    assert isinstance(layout, Accumulator)
    try:
        apart = _apart(group, program, start, layout, products)
        whole = frozenset(_fragments(_elsewhere(group, start)))
        return cut(apart, program, layout, start, registers * layout.columns // taken, whole)
    except Whole:
        return group


def _behind_loops(group: ir.WarpGroup) -> int:
    """The first statement behind all loops, and waits for their products, that has to do with a matrix."""
    looping = [n for n, stmt in enumerate(group.body) if any(isinstance(s, _LOOPS) for s in ir.walk((stmt,)))]
    last = max(looping, default=-1)
    for number, stmt in enumerate(group.body[last + 1 :], last + 1):
        if any(isinstance(group.fragment(n).layout, Accumulator | Along) for n in _fragments((stmt,))):
            return number
    return len(group.body)


def _apart(
    group: ir.WarpGroup, program: ir.WarpProgram, start: int, layout: Accumulator, products: set[int]
) -> ir.WarpGroup:
    """The group whose tail has variables of its own, and begins with copies of the accumulators. Raises Whole if the
    tail reads another matrix of that layout, or vector of one, that the loops leave."""
    tail = group.body[start:]
    before = _fragments(_elsewhere(group, start))
    again = {f.id for f in group.fragments if f.id in before and is_beside(f.layout, layout)} & _fragments(tail)
    free = 1 + max(fragment.id for other in program.groups for fragment in other.fragments)
    own = {number: free + place for place, number in enumerate(sorted(again))}
    entering = _entering(tail) & again
    if entering - products:
        raise Whole
    copies = [ir.Copy(number, own[number]) for number in sorted(entering)]
    added = [replace(group.fragment(number), id=new) for number, new in own.items()]
    body = (*group.body[:start], *copies, *(_renamed(stmt, own) for stmt in tail))
    return replace(group, fragments=(*group.fragments, *added), body=body)


def _elsewhere(group: ir.WarpGroup, start: int) -> tuple[ir.Stmt, ...]:
    """What the group does but for the tail."""
    return (*group.body[:start], *group.start, *group.next, *group.skip, *group.finish)


def _fragments(stmts: tuple[ir.Stmt, ...]) -> set[int]:
    """What statements, and those in them, read or write."""
    return {number for stmt in ir.walk(stmts) for number in fragments_of(stmt)}


def _entering(stmts: tuple[ir.Stmt, ...]) -> set[int]:
    """What statements may read before they write it."""
    made: set[int] = set()
    found: set[int] = set()
    for stmt in stmts:
        inner = _fragments((stmt,))
        result = getattr(stmt, "result", None)
        read = _fragments((replace(stmt, result=-1),)) if isinstance(result, int) else inner  # type: ignore[call-arg]
        found |= read - made
        made |= {result} if isinstance(result, int) else set()
    return found - {-1}


def _renamed(stmt: ir.Stmt, names: Mapping[int, int]) -> ir.Stmt:
    """A statement with other fragments in place of some."""
    changed: dict[str, Any] = {}
    for part in FORMS[type(stmt)].fields:
        value = getattr(stmt, part.field)
        of_fragments = part.kind in ("fragment", "fragments", "multiplied")
        changed[part.field] = _numbered(value, names) if of_fragments else _operand(value, names)
    return ir.with_blocks(replace(stmt, **changed), lambda block: tuple(_renamed(inner, names) for inner in block))


def _numbered(value: Any, names: Mapping[int, int]) -> Any:
    """A field that names fragments by number."""
    if isinstance(value, tuple):
        return tuple(_numbered(one, names) for one in value)
    return names.get(value, value) if isinstance(value, int) else value


def _operand(value: Any, names: Mapping[int, int]) -> Any:
    """A field whose operands and expressions name fragments."""
    if isinstance(value, tuple):
        return tuple(_operand(one, names) for one in value)
    if isinstance(value, ir.Reg | Element):
        value = replace(value, fragment=names.get(value.fragment, value.fragment))
    if not is_dataclass(value) or isinstance(value, type):
        return value
    return replace(value, **{f.name: _operand(getattr(value, f.name), names) for f in fields(value) if f.init})


def run(program: ir.WarpProgram, choices: Choices) -> ir.WarpProgram:
    """The pass. Fragments that it adds are numbered behind all others of the program."""
    for group in program.groups:
        made = in_parts(group, program, choices.product_registers)
        program = replace(program, groups=tuple(made if one.id == group.id else one for one in program.groups))
    return program
