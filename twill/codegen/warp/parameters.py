"""The parameters of an emitted kernel, in order: what its text declares and what a launch passes.

Tensor maps first, then the scalars and pointers that the program refers to in the order of the tile program's
arguments, then the launch grid of the original kernel (three u32), then what the launch computes, then the workspace:
the counter of a dynamic order, counters of a split and its partial sums (`twill.manifest.document.SplitK`), and tensor
maps that CTAs make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from operator import attrgetter
from typing import Any, Literal

from twill.codegen.warp.expression import Apply, Expr, Lookup, Number, NumPrograms, Symbol
from twill.codegen.warp.program import Atomic, Given, MakeMap, SumParts, WarpGroup, WarpProgram, Window
from twill.manifest.evaluate import evaluable
from twill.tile.program import TileProgram


@dataclass(frozen=True)
class PrintedParameter:
    """kind "map": the tensor map of that index, by value. "scalar": argument number `index` of the tile program, by
    value. "pointer": the address of that argument. "grid": extent `index` of the launch grid, u32. "computed": what
    the `index`th `Given` says. "workspace": the address of zeros that no launch beside this one has; the kernel leaves
    zeros there.

    element: of the map's tensor, of the scalar, or of what the pointer points to; "u32" of a grid extent.
    """

    kind: Literal["map", "scalar", "pointer", "grid", "computed", "workspace"]
    name: str
    element: str
    index: int


def parameters(program: WarpProgram) -> tuple[PrintedParameter, ...]:
    """The parameters of the kernel that is printed from `program`."""
    symbols, windows = set[int](), dict[str, str]()
    blocks = ((group.start, group.next, group.body, group.skip, group.finish) for group in program.groups)
    setup = tuple(stmt for stmt in program.setup if not isinstance(stmt, Given))
    for node in nodes((setup, program.once, program.walk, *blocks)):
        if isinstance(node, Symbol):
            symbols.add(node.value)
        elif isinstance(node, Window | Lookup | Atomic):
            windows[node.argument] = node.element
        elif isinstance(node, MakeMap):
            windows[program.maps[node.map].argument] = program.maps[node.map].element
    return (
        *(PrintedParameter("map", f"map{m.id}", m.element, m.id) for m in program.maps),
        *_arguments(program.program, symbols, windows),
        *(PrintedParameter("grid", f"grid{axis}", "u32", axis) for axis in range(3)),
        *(PrintedParameter("computed", passed_as(g.name), passed(g.value), at) for at, g in enumerate(given(program))),
        *([PrintedParameter("workspace", "claims", "u32", 0)] if wants_workspace(program) else []),
    )


LAUNCH = "launch_"


def given(program: WarpProgram) -> tuple[Given, ...]:
    """What the launch computes."""
    return tuple(stmt for stmt in program.setup if isinstance(stmt, Given))


def passed(value: Expr) -> str:
    """The element type in which the launch passes a scalar: a truth value as a number."""
    return "i32" if value.element == "i1" else value.element


def passed_as(name: str) -> str:
    """The name of the parameter for such a scalar; no other one begins so (`twill.codegen.print.cuda.names`)."""
    return LAUNCH + name.replace(".", "_")


def is_of_launch(value: Expr) -> bool:
    """Whether an expression is made of arguments and of sizes of the launch grid alone, by what a launch computes."""
    if isinstance(value, Apply):
        return evaluable(value.kind) and not value.unsigned and all(is_of_launch(part) for part in value.operands)
    return isinstance(value, Number | Symbol | NumPrograms)


def wants_workspace(program: WarpProgram) -> bool:
    """Whether the kernel counts, or has partial sums or tensor maps, in memory of its own."""
    counts = program.instance_ring is not None and not program.cancels
    return counts or any(tensor.made for tensor in program.maps) or any(True for _ in partial_sums(program))


def partial_sums(program: WarpProgram) -> Iterator[tuple[WarpGroup, SumParts]]:
    """Every statement in which partial sums meet, with its warp group."""
    for group in program.groups:
        yield from ((group, stmt) for stmt in group.stmts if isinstance(stmt, SumParts))


def looks_up(part: Any) -> bool:
    """Whether an expression anywhere in a part of a program is an element of a tensor."""
    return any(isinstance(node, Lookup) for node in nodes(part))


def _arguments(program: TileProgram, symbols: set[int], windows: dict[str, str]) -> Iterator[PrintedParameter]:
    for index, argument in enumerate(program.arguments):
        if argument.value in symbols:
            yield PrintedParameter("scalar", argument.name, argument.type.element, index)
        if argument.name in windows:
            yield PrintedParameter("pointer", argument.name, windows[argument.name], index)


def nodes(node: Any) -> Iterator[Any]:
    """Every frozen dataclass inside of `node`, its tuples and fields: statements, windows, expressions."""
    found: list[Any] = []
    _collect(node, found)
    return iter(found)


def _collect(node: Any, found: list[Any]) -> None:
    if isinstance(node, tuple):
        inside = node
    else:
        kind: Any = type(node)
        fields_of = _fields(kind)
        if fields_of is None:
            return
        found.append(node)
        inside = fields_of(node)
    for value in inside:
        if type(value) not in LEAVES:
            _collect(value, found)


LEAVES = frozenset({int, str, bool, float, type(None)})


@cache
def _fields(kind: type[Any]) -> Callable[[Any], tuple[Any, ...]] | None:
    """What gives the fields of a dataclass' objects; None if it is none."""
    if not is_dataclass(kind):
        return None
    names = [field.name for field in fields(kind)]
    if len(names) < 2:  # of which `attrgetter` gives no tuple
        return lambda one: tuple(getattr(one, name) for name in names)
    return attrgetter(*names)
