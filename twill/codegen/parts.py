"""Sums of rows that a loop carries are kept in parts: each lane adds up its own elements, and the lanes of a row meet
once, behind the loop, instead of in every iteration.

That is right for what only such sums are added to, and what is multiplied by numbers that all lanes of a row have
alike: both are linear. What enters the loop is divided among the four lanes, which is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from twill.codegen.aref import Compute, Copy, Fragment, If, Pipeline, Reduce, Reg, Stmt, walk, with_blocks
from twill.codegen.expression import Number
from twill.codegen.fences import named
from twill.codegen.layout import LANES_OF_A_ROW, Accumulator, Along, Layout

Maker = Callable[[str, str, Layout], int]


def in_parts(body: Iterable[Stmt], fragments: list[Fragment], new: Maker) -> tuple[Stmt, ...]:
    """The body of a warp group. fragments: its own, of which some change; new: makes one of a name, element, layout.

    Nothing changes where there are several loops: the lanes would meet between them, where registers are scarcest
    (causal attention with D = 256 spilled)."""
    block = tuple(body)
    if sum(isinstance(stmt, Pipeline) for stmt in block) > 1:
        return block
    for place, stmt in enumerate(block):
        if not isinstance(stmt, Pipeline):
            continue
        outside = {f for i, s in enumerate(block) if i != place for f in touched(s)}
        known = {fragment.id: fragment for fragment in fragments}
        for total in (s for s in stmt.steady if isinstance(s, Reduce)):
            linear = together(stmt, total, known)
            carried = linear & outside
            if linear and carried == carried_by(stmt, linear) and carried:
                return in_parts(divided(block, place, linear, carried, fragments, new), fragments, new)
    return block


def touched(stmt: Stmt) -> set[int]:
    """Fragments that a statement, or one within it, reads or writes."""
    return {fragment for inner in walk((stmt,)) if not isinstance(inner, If | Pipeline) for fragment in named(inner)}


def leaves(loop: Pipeline) -> list[Stmt]:
    """Statements of a loop that are no control."""
    return [s for s in walk((loop,)) if not isinstance(s, If | Pipeline)]


def together(loop: Pipeline, total: Reduce, known: Mapping[int, Fragment]) -> set[int]:
    """The vectors that must be in parts if that sum is; none if they cannot be."""
    inside = leaves(loop)
    found: set[int] = set()
    pending = {total.result}
    while pending:
        found |= pending
        pending = set()
        for stmt in inside:
            match stmt:
                case Compute("add" | "sub", operands, result) if touched(stmt) & found:
                    pending |= {o.fragment for o in operands if isinstance(o, Reg)} | {result}
                case Compute("mul", operands, result) if touched(stmt) & found:
                    pending.add(result)
                case Copy(source, result) if touched(stmt) & found:
                    pending |= {source, result}
        pending -= found
    if all(is_row_vector(known[f].layout) and known[f].element == "f32" for f in found) and all(
        is_linear(stmt, found, known) for stmt in inside if touched(stmt) & found
    ):
        return found
    return set()


def is_row_vector(layout: Layout) -> bool:
    """Whether four lanes have a number for each row, all of them the same."""
    return isinstance(layout, Along) and layout.axis == 1 and not layout.parts


def is_linear(stmt: Stmt, found: set[int], known: Mapping[int, Fragment]) -> bool:
    """Whether a statement does to parts what it does to their sum."""
    match stmt:
        case Reduce(operand, _, 1, "add", None):
            return operand not in found and isinstance(known[operand].layout, Accumulator)
        case Compute("add" | "sub", operands):
            return all(isinstance(operand, Reg) and operand.fragment in found for operand in operands)
        case Compute("mul", operands):
            return sum(isinstance(operand, Reg) and operand.fragment in found for operand in operands) == 1
        case Copy():
            return True
    return False


def carried_by(loop: Pipeline, linear: set[int]) -> set[int]:
    """Those that are read before they are written."""
    carried: set[int] = set()
    written: set[int] = set()
    for stmt in leaves(loop):
        result = getattr(stmt, "result", -1)
        read = {o.fragment for o in stmt.operands if isinstance(o, Reg)} if isinstance(stmt, Compute) else set()
        carried |= (read | ({stmt.source} if isinstance(stmt, Copy) else set())) & linear - written
        written.add(result)
    return carried


def divided(
    block: tuple[Stmt, ...], place: int, linear: set[int], carried: set[int], fragments: list[Fragment], new: Maker
) -> tuple[Stmt, ...]:
    """The block with the vectors of one loop in parts."""
    loop = block[place]
    number = {fragment.id: index for index, fragment in enumerate(fragments)}
    names: dict[int, int] = {}
    for fragment in sorted(linear):
        old = fragments[number[fragment]]
        assert isinstance(old.layout, Along)
        parts = replace(old.layout, parts=True)
        if fragment in carried:
            names[fragment] = new(f"{old.name}_parts", old.element, parts)
        else:
            fragments[number[fragment]] = replace(old, layout=parts)
    share = Number(1 / LANES_OF_A_ROW, "f32")
    before = [Compute("mul", (Reg(old), share), made, note="parts of a sum") for old, made in names.items()]
    after = [Reduce(made, old, 1, "add", note="the sum of the parts") for old, made in names.items()]
    return (*block[:place], *before, renamed(loop, names), *after, *block[place + 1 :])


def renamed(stmt: Stmt, names: Mapping[int, int]) -> Stmt:
    """A statement with other fragments in place of some."""
    match stmt:
        case If() | Pipeline():
            return with_blocks(stmt, lambda block: all_renamed(block, names))
        case Compute():
            operands = tuple(
                replace(o, fragment=names.get(o.fragment, o.fragment)) if isinstance(o, Reg) else o
                for o in stmt.operands
            )
            return replace(stmt, operands=operands, result=names.get(stmt.result, stmt.result))
        case Copy():
            return replace(stmt, source=names.get(stmt.source, stmt.source), result=names.get(stmt.result, stmt.result))
        case Reduce():
            return replace(stmt, result=names.get(stmt.result, stmt.result))
    return stmt


def all_renamed(block: tuple[Stmt, ...], names: Mapping[int, int]) -> tuple[Stmt, ...]:
    """A block with other fragments in place of some."""
    return tuple(renamed(stmt, names) for stmt in block)
