"""Seeded faults of what is in tensor memory: products of one thread, arrivals behind them, reads of what they made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from tests.places import Edit, Place, block_of, instead, move
from twill.codegen.warp.expression import Number
from twill.codegen.warp.program import (
    Acquire,
    Consumed,
    CopyScales,
    Get,
    LoadAccumulator,
    Pipeline,
    Publish,
    Stmt,
    StoreScales,
    TensorMultiply,
    WarpProgram,
    walk,
)

Faults = Iterable[tuple[str, str, Edit]]


def _dropped(place: Place, program: WarpProgram) -> Faults:
    if isinstance(place.stmt, TensorMultiply | LoadAccumulator | CopyScales | StoreScales):
        yield f"dropped {type(place.stmt).__name__}", "left out", instead()


def _behind(place: Place, program: WarpProgram) -> Faults:
    """What comes when products are over comes at once."""
    if isinstance(place.stmt, Consumed | Publish) and place.stmt.behind:
        yield f"{type(place.stmt).__name__} not behind products", "", instead(replace(place.stmt, behind=False))
    if isinstance(place.stmt, Publish) and place.stmt.behind:
        yield "Publish twice", "", instead(place.stmt, place.stmt)


def _flags(place: Place, program: WarpProgram) -> Faults:
    if isinstance(place.stmt, TensorMultiply):
        yield "always added", "", instead(replace(place.stmt, accumulate=Number(1, "i1")))
        yield "never added", "", instead(replace(place.stmt, accumulate=Number(0, "i1")))
        yield "operands exchanged", "of a product", instead(replace(place.stmt, a=place.stmt.b, b=place.stmt.a))


def _scales(place: Place, program: WarpProgram) -> Faults:
    """Scales of the other operand, of another slot, or copied too late."""
    stmt = place.stmt
    if isinstance(stmt, TensorMultiply) and stmt.of_a is not None and stmt.of_b is not None:
        yield "scales exchanged", "of a product", instead(replace(stmt, of_a=stmt.of_b, of_b=stmt.of_a))
        for name, ref in (("of_a", stmt.of_a), ("of_b", stmt.of_b)):
            first = replace(stmt, **{name: replace(ref, cursor=None)})  # type: ignore[arg-type]
            yield "scales of the first slot", name, instead(first)
    if isinstance(stmt, StoreScales):
        yield "scales of the first slot", "stored", instead(replace(stmt, target=replace(stmt.target, cursor=None)))
    if isinstance(stmt, CopyScales):
        for name, ref in (("source", stmt.source), ("target", stmt.target)):
            first_slot = replace(stmt, **{name: replace(ref, cursor=None)})  # type: ignore[arg-type]
            yield "scales of the first slot", name, instead(first_slot)
        block, index = block_of(program, place)
        after = [at for at in range(index + 1, len(block)) if isinstance(block[at], TensorMultiply)]
        if after:
            yield "CopyScales after its product", "", move(index, after[0] + 1)


def _moved(place: Place, program: WarpProgram) -> Faults:
    """Waits behind what they are there for; a slot that goes back in front of its last read, or of its product."""
    block, index = block_of(program, place)

    def has(at: int, kind: type[Stmt]) -> bool:
        return any(isinstance(inner, kind) for inner in walk((block[at],)))

    for wait, use in ((Get, TensorMultiply), (Get, LoadAccumulator), (Acquire, Pipeline)):
        if isinstance(place.stmt, wait):
            after = [at for at in range(index + 1, len(block)) if has(at, use)]
            if after:
                yield f"{wait.__name__} after {use.__name__}", "", move(index, after[0] + 1)
    if isinstance(place.stmt, Consumed):
        before = [at for at in range(index) if has(at, LoadAccumulator) or has(at, TensorMultiply)]
        if before:
            yield "Consumed before its use", "", move(index, before[-1])
    if isinstance(place.stmt, Publish) and place.stmt.behind:
        before = [at for at in range(index) if has(at, Pipeline)]
        if before:
            yield "Publish before its products", "", move(index, before[-1])


RULES: tuple[Callable[[Place, WarpProgram], Faults], ...] = (_dropped, _behind, _flags, _scales, _moved)
