"""What threads have is added to a product by threads.

::

    q = select(...);  r = dot(a, b, q)      becomes      t = dot(a, b);  r = q + t

A product into tensor memory adds to what products have left there, not to what threads hold in registers. A product of
f32 that is made of several (`twill.tile.rewrite.precision`) has such a sum: threads look at what the smaller products
have come to before the largest one is added.
"""

from __future__ import annotations

from dataclasses import replace

from twill.tile.program import Items, Loop, Op, TileProgram
from twill.tile.rewrite.precision import changed_mmas
from twill.tile.rewrite.writer import OpWriter

MADE_BY_THREADS = "select"  # what stands in front of the last product


def separate_sums(program: TileProgram) -> TileProgram:
    """The program in which such products add to nothing; the same one if there are none."""
    writer = OpWriter(program)
    apart = {
        op.id
        for op in changed_mmas(program)
        if len(op.operands) > 2 and op.operands[2] in writer.makers and _by_threads(writer.makers[op.operands[2]])
    }
    if not apart:
        return program
    body = _block(program.body, apart, writer)
    return replace(program, body=body, values=tuple(writer.values), original=program.original or program)


def _by_threads(maker: Op) -> bool:
    return maker.kind == MADE_BY_THREADS


def _block(items: Items, apart: set[int], writer: OpWriter) -> Items:
    made: list[Op | Loop] = []
    for item in items:
        if isinstance(item, Loop):
            made.append(replace(item, body=_block(item.body, apart, writer)))
        elif item.id in apart:
            product = writer.value_like(item.results[0])
            made.append(replace(item, operands=item.operands[:2], results=(product,)))
            sides = (item.operands[2], product)
            made.append(Op(writer.fresh(), "add", sides, item.results, (), item.line, item.name))
        else:
            made.append(item)
    return tuple(made)
