"""Tiles that a launch reads once leave the L2 cache first.

Whether it does depends on the launch: a product of few rows reads each tile of its weights once, the same kernel with
more rows many times. So the launch computes whether all instances together load about as many tiles from a tensor as
it has::

    given b_passes = (4 * instances * trip) <= (5 * cdiv(K, 64) * cdiv(N, 128))
    ... tma load b[...] -> ... passing where b_passes

A loop whose number of iterations differs from instance to instance asks in front of it (`let b_passes`).

What passes pushes nothing out of the cache that is needed later, or is yet to be written to memory. Tensors of several
times the size of the cache are left as they are: there the cache writes back little beside what is read, and lines
that go first may go before the next copy asks for the other half of them.

Left out are loops whose tensor is loaded elsewhere in the kernel, too, and clusters, whose tiles have two readers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from twill.codegen.passes.given import may_be_given, with_given
from twill.codegen.warp import program as ir
from twill.codegen.warp.choices import Choices, each_body
from twill.codegen.warp.expression import Apply, Expr, Local, Number, NumPrograms, inlined
from twill.codegen.warp.parameters import nodes
from twill.graph.work import moved_bytes

WIDE, AXES = "i64", 3  # of a launch grid
MANY = 8  # elements, which are whole bytes of whatever type
PASSES = "_passes"  # the end of the scalars' names
LOADS, TILES = 4, 5  # five loads for four tiles are still one each: parts of a sum end at whole tiles


def run(program: ir.WarpProgram, choices: Choices) -> ir.WarpProgram:
    """The pass."""
    if not choices.passing or program.cluster is not None or program.walk:
        return program
    tensors = [program.maps[load.map].argument for load in loads(tuple(group.body for group in program.groups))]
    made = each_body(program, lambda group: tuple(passing(group, program, tensors, choices.passing)))
    return computed_at_launch(made)


def computed_at_launch(program: ir.WarpProgram) -> ir.WarpProgram:
    """With what was asked in front of loops computed by the launch, where that knows all of it."""
    found: dict[str, Expr] = {}

    def given(group: ir.WarpGroup) -> tuple[ir.Stmt, ...]:
        body: list[ir.Stmt] = []
        known: dict[str, Expr] = {}
        for stmt in group.body:
            if not isinstance(stmt, ir.Let):
                body.append(stmt)
                continue
            value = known[stmt.name] = inlined(stmt.value, known)
            asked = stmt.name.endswith(PASSES) and may_be_given(program, value)
            if not asked or found.setdefault(stmt.name, value) != value:
                body.append(stmt)
        return tuple(body)

    return with_given(each_body(program, given), found)


def loads(part: Any) -> list[ir.TmaLoad]:
    """Every copy into shared memory in a part of a program."""
    return [node for node in nodes(part) if isinstance(node, ir.TmaLoad)]


def passing(group: ir.WarpGroup, program: ir.WarpProgram, tensors: Sequence[str], most: int) -> Iterator[ir.Stmt]:
    """The body of a warp group whose loops ask. tensors: of all loads of the program, as often as they are loaded.
    most: bytes of a tensor that passes."""
    for stmt in group.body:
        if isinstance(stmt, ir.Pipeline):
            yield from asking(stmt, program, tensors, most)
        else:
            yield stmt


def asking(loop: ir.Pipeline, program: ir.WarpProgram, tensors: Sequence[str], most: int) -> Iterator[ir.Stmt]:
    """What is asked in front of a loop, and the loop. tensors, most: as above."""
    made: ir.Stmt = loop
    inside = [load.map for load in loads(loop)]
    for number, boxes in copies(loop).items():
        spec = program.maps[number]
        if spec.made or None in spec.sizes or inside.count(number) != tensors.count(spec.argument):
            continue
        name = f"{spec.argument.replace('.', '_')}{PASSES}"
        yield ir.Let(name, is_read_once(spec, loop.trip, boxes, most), line=loop.line)
        made = marked(made, number, name)
    yield made


def copies(loop: ir.Pipeline) -> Mapping[int, int]:
    """Copies of an iteration through each map."""
    return Counter(load.map for load in loads(loop.steady))


def is_read_once(spec: ir.TensorMapSpec, trip: Expr, boxes: int, most: int) -> Expr:
    """Whether a launch whose instances run a loop so often reads a tensor once, which is not too large to pass."""
    sizes = [widened(size) for size in spec.sizes if size is not None]
    tiles = (over(size, box) for size, box in zip(sizes, spec.box, strict=True))
    instances = reduce(times, (widened(NumPrograms(axis)) for axis in range(AXES)))
    loaded = times(times(instances, widened(trip)), Number(boxes, WIDE))
    room = Number(most * MANY // moved_bytes((MANY,), spec.element), WIDE)
    small = Apply("compare", (reduce(times, sizes), room), "i1", (("predicate", "le"), ("signed", 1)))
    many, few = times(loaded, Number(LOADS, WIDE)), times(reduce(times, tiles), Number(TILES, WIDE))
    once = Apply("compare", (many, few), "i1", (("predicate", "le"), ("signed", 1)))
    return Apply("and", (once, small), "i1")


def widened(expr: Expr) -> Expr:
    """In 64 bits."""
    return expr if expr.element == WIDE else Apply("cast", (expr,), WIDE)


def times(left: Expr, right: Expr) -> Expr:
    """The product."""
    return left if right == Number(1, WIDE) else Apply("mul", (left, right), WIDE)


def over(size: Expr, box: int) -> Expr:
    """Boxes along an axis."""
    if box == 1:
        return size
    more = Apply("add", (size, Number(box - 1, WIDE)), WIDE)
    return Apply("div", (more, Number(box, WIDE)), WIDE, (("signed", 1),))


def marked(stmt: ir.Stmt, number: int, name: str) -> ir.Stmt:
    """A statement whose loads through a map pass where the scalar holds."""
    if isinstance(stmt, ir.TmaLoad):
        return replace(stmt, passing=Local(name, "i1")) if stmt.map == number else stmt
    return ir.with_blocks(stmt, lambda block: (marked(inner, number, name) for inner in block))
