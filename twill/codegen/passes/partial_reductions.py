"""Sums of rows that a loop carries are kept in parts: each lane adds up its own elements, and the lanes of a row meet
once, behind the loop, or behind the last of several, instead of in every iteration.

That is right for what only such sums are added to, and what is multiplied by numbers that all lanes of a row have
alike: both are linear. What enters the loop is divided among the four lanes, which is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, count

from twill.codegen.passes.fences import named
from twill.codegen.warp import program as ir
from twill.codegen.warp.choices import Choices
from twill.codegen.warp.effects import effects
from twill.codegen.warp.expression import Number
from twill.codegen.warp.layout import LANES_OF_A_ROW, Accumulator, Along, Layout

Maker = Callable[[str, str, Layout], int]


def with_partial_sums(
    body: Iterable[ir.Stmt], fragments: list[ir.Fragment], new: Maker, several: bool = True
) -> tuple[ir.Stmt, ...]:
    """The body of a warp group. fragments: its own, of which some change; new: makes one of a name, element, layout.
    several: whether also where there are several loops.

    Loops of one body, and what stands between them, are one stretch: sums that go from loop to loop meet once, behind
    the last."""
    block = tuple(body)
    loops = [place for place, stmt in enumerate(block) if isinstance(stmt, ir.Pipeline)]
    if not loops or (len(loops) > 1 and not several):
        return block
    before, inside, after = block[: loops[0]], block[loops[0] : loops[-1] + 1], block[loops[-1] + 1 :]
    known = {fragment.id: fragment for fragment in fragments}
    for total in (
        s for loop in inside if isinstance(loop, ir.Pipeline) for s in loop.steady if isinstance(s, ir.Reduce)
    ):
        linear = together(inside, total, known)
        entering, leaving = linear & touched(before), linear & touched(after)
        carried = carried_by(inside, linear)
        if linear and leaving and carried <= entering | leaving:
            made = divided((before, inside, after), linear, entering | carried, leaving, fragments, new)
            return with_partial_sums(made, fragments, new, several)
    return block


def touched(block: tuple[ir.Stmt, ...]) -> set[int]:
    """Fragments that statements, or those within them, read or write."""
    return {fragment for stmt in leaves(block) for fragment in named(stmt)}


def leaves(block: tuple[ir.Stmt, ...]) -> list[ir.Stmt]:
    """Statements of a block that are no control."""
    return [s for s in ir.walk(block) if not isinstance(s, ir.If | ir.Pipeline)]


def together(block: tuple[ir.Stmt, ...], total: ir.Reduce, known: Mapping[int, ir.Fragment]) -> set[int]:
    """The vectors that must be in parts if that sum is; none if they cannot be."""
    inside = leaves(block)
    found: set[int] = set()
    pending = {total.result}
    while pending:
        found |= pending
        pending = set()
        for stmt in inside:
            match stmt:
                case ir.Compute("add" | "sub", operands, result) if touched((stmt,)) & found:
                    pending |= {o.fragment for o in operands if isinstance(o, ir.Reg)} | {result}
                case ir.Compute("mul", operands, result) if touched((stmt,)) & found:
                    pending.add(result)
                case ir.Copy(source, result) if touched((stmt,)) & found:
                    pending |= {source, result}
        pending -= found
    if all(is_row_vector(known[f].layout) and known[f].element == "f32" for f in found) and all(
        is_linear(stmt, found, known) for stmt in inside if touched((stmt,)) & found
    ):
        return found
    return set()


def is_row_vector(layout: Layout) -> bool:
    """Whether four lanes have a number for each row, all of them the same."""
    return isinstance(layout, Along) and layout.axis == 1 and not layout.parts


def is_linear(stmt: ir.Stmt, found: set[int], known: Mapping[int, ir.Fragment]) -> bool:
    """Whether a statement does to parts what it does to their sum."""
    match stmt:
        case ir.Reduce(operand, _, 1, "add", None):
            return operand not in found and isinstance(known[operand].layout, Accumulator)
        case ir.Compute("add" | "sub", operands):
            return all(isinstance(operand, ir.Reg) and operand.fragment in found for operand in operands)
        case ir.Compute("mul", operands):
            return sum(isinstance(operand, ir.Reg) and operand.fragment in found for operand in operands) == 1
        case ir.Copy():
            return True
    return False


def carried_by(block: tuple[ir.Stmt, ...], linear: set[int]) -> set[int]:
    """Those that are read before they are written."""
    carried: set[int] = set()
    written: set[int] = set()
    for stmt in leaves(block):
        result = getattr(stmt, "result", -1)
        read = effects(stmt)[1] if isinstance(stmt, ir.Compute | ir.Copy) else set()
        carried |= read & linear - written
        written.add(result)
    return carried


def divided(
    blocks: tuple[tuple[ir.Stmt, ...], tuple[ir.Stmt, ...], tuple[ir.Stmt, ...]], linear: set[int], entering: set[int],
    leaving: set[int], fragments: list[ir.Fragment], new: Maker,
) -> tuple[ir.Stmt, ...]:  # fmt: skip
    """What stands before loops, they themselves, and what stands behind them, with vectors of the loops in parts."""
    before, inside, after = blocks
    number = {fragment.id: index for index, fragment in enumerate(fragments)}
    names: dict[int, int] = {}
    for fragment in sorted(linear):
        old = fragments[number[fragment]]
        assert isinstance(old.layout, Along)
        parts = replace(old.layout, parts=True)
        if fragment in entering | leaving:
            names[fragment] = new(f"{old.name}_parts", old.element, parts)
        else:
            fragments[number[fragment]] = replace(old, layout=parts)
    share = Number(1 / LANES_OF_A_ROW, "f32")
    divide = [ir.Compute("mul", (ir.Reg(f), share), names[f], note="parts of a sum") for f in sorted(entering)]
    join = [ir.Reduce(names[f], f, 1, "add", note="the sum of the parts") for f in sorted(leaving)]
    return (*before, *divide, *all_renamed(inside, names), *join, *after)


def renamed(stmt: ir.Stmt, names: Mapping[int, int]) -> ir.Stmt:
    """A statement with other fragments in place of some."""
    match stmt:
        case ir.If() | ir.Pipeline():
            return ir.with_blocks(stmt, lambda block: all_renamed(block, names))
        case ir.Compute():
            operands = tuple(
                replace(o, fragment=names.get(o.fragment, o.fragment)) if isinstance(o, ir.Reg) else o
                for o in stmt.operands
            )
            return replace(stmt, operands=operands, result=names.get(stmt.result, stmt.result))
        case ir.Copy():
            return replace(stmt, source=names.get(stmt.source, stmt.source), result=names.get(stmt.result, stmt.result))
        case ir.Reduce():
            return replace(stmt, result=names.get(stmt.result, stmt.result))
    return stmt


def all_renamed(block: tuple[ir.Stmt, ...], names: Mapping[int, int]) -> tuple[ir.Stmt, ...]:
    """A block with other fragments in place of some."""
    return tuple(renamed(stmt, names) for stmt in block)


def run(program: ir.WarpProgram, choices: Choices) -> ir.WarpProgram:
    """The pass: fragments that it adds are numbered behind all others, and named apart from what their group names."""
    if choices.strict:
        return program
    numbers = count(1 + max((f.id for group in program.groups for f in group.fragments), default=-1))
    return replace(program, groups=tuple(_with_partial_sums(group, numbers, choices) for group in program.groups))


def _with_partial_sums(group: ir.WarpGroup, numbers: Iterator[int], choices: Choices) -> ir.WarpGroup:
    fragments = list(group.fragments)
    names = {f.name for f in fragments} | {
        stmt.name for stmt in group.stmts if isinstance(stmt, ir.Let | ir.CountReuse)
    }

    def new(name: str, element: str, layout: Layout) -> int:
        free = next(n for n in chain((name,), (f"{name}_{i}" for i in count(2))) if n not in names)
        names.add(free)
        fragments.append(ir.Fragment(next(numbers), free, element, layout))
        return fragments[-1].id

    body = with_partial_sums(group.body, fragments, new, several=choices.partial_sums)
    return replace(group, body=body, fragments=tuple(fragments))
