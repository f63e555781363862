"""Tiles that are never in use at the same time have the same columns of tensor memory.

As `twill.codegen.passes.overlay` does for shared memory: loops of a program instance run one after the other, and what
one of them has in tensor memory may lie where an earlier one had its accumulators. Whoever writes there first waits
until all who read the earlier tile are done, and in the next instance whoever writes the earlier one until all are done
with the later. An MMA that overwrites what an earlier one of the same thread has read or written needs no wait: they
are done in order. What lies over another tile by the schedule (P over S) moves with it.

The rings of these waits name a buffer of no columns, so that their waits and arrivals have the fences of tensor memory.
It costs the overlap of one loop's end with the next one's beginning, so it is done only where columns are short.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from twill import exc
from twill.codegen.lower.memory import SharedMemoryPlan
from twill.codegen.passes.overlay import NOTHING, apart, handoffs, with_handoffs
from twill.codegen.passes.uses import BodyUse, uses_of_tensor_memory
from twill.codegen.warp.choices import Choices
from twill.codegen.warp.program import Buffer, WarpProgram

Span = tuple[int, int]
"""Half-open columns."""


def run(program: WarpProgram, choices: Choices) -> WarpProgram:
    """The pass; the program as it is where its tiles fit. Raises UnsupportedInKernel where they do not either way."""
    if not choices.columns or columns_taken(program.buffers) <= choices.columns:
        return program
    uses = {} if choices.ping_pong or program.cluster is not None else uses_of_tensor_memory(program)
    held = [buffer for buffer in program.buffers if buffer.tensor]
    first = laid(held, uses, choices.columns) if all(buffer.id in uses for buffer in held) else {}
    buffers = tuple(replace(b, offset=first.get(b.id, b.offset)) for b in program.buffers)
    if columns_taken(buffers) > choices.columns:
        raise _too_many(program, columns_taken(buffers), choices.columns)
    meeting = [
        (one.id, other.id)
        for one in buffers
        for other in buffers
        if one.tensor and other.tensor and uses[one.id].last < uses[other.id].first
        if _meet(_span(one), _span(other))
    ]
    made = replace(program, buffers=buffers)
    return with_handoffs(made, handoffs(made, meeting, uses), uses, _nothing)


def _nothing(memory: SharedMemoryPlan) -> Buffer:
    """What the rings of the waits are said to hold: no column."""
    lanes = next(buffer.shape[0] for buffer in memory.buffers if buffer.tensor)
    return memory.tensor_buffer(NOTHING, (lanes, 0), "f32", 1, 0, 0)


def laid(buffers: Sequence[Buffer], uses: Mapping[int, BodyUse], most: int) -> dict[int, int]:
    """First columns of tiles. Those that have columns in common stay as they are to one another. In the order of their
    use, each gets columns that nobody has had, or those whose last use is longest ago; where that takes more than
    `most`, the widest first, each the lowest columns that no other in use at the same time has."""
    every = hosts(buffers)
    by_use = sorted(every, key=lambda tiles: (min(uses[tile.id].first for tile in tiles), tiles[0].id))
    widest = sorted(every, key=lambda tiles: (-_width(tiles), tiles[0].id))
    spread = _placed(by_use, uses, most)
    return spread if spread is not None else _placed(widest, uses, None) or {}


def _placed(order: Sequence[Sequence[Buffer]], uses: Mapping[int, BodyUse], most: int | None) -> dict[int, int] | None:
    """First columns of tiles that get them in this order, of `most`; None if there are too few. most: None for any
    number of them, where the lowest are taken."""
    placed: list[tuple[Span, Sequence[Buffer]]] = []
    for tiles in order:
        width, found = _width(tiles), dict[int, int]()  # by first column, when columns were last used
        for begin in sorted({0, *(end for (_, end), _ in placed)}):
            met = [others for span, others in placed if _meet(span, (begin, begin + width))]
            inside = most is None or begin + width <= most
            if inside and all(apart(tile, other, uses) for others in met for tile in tiles for other in others):
                found[begin] = max((uses[other.id].last for others in met for other in others), default=-1)
        if not found:
            return None
        first = min(found, key=lambda begin: (found[begin], begin) if most is not None else (begin, 0))
        placed.append(((first, first + width), tiles))
    return {
        tile.id: span[0] + tile.offset - min(other.offset for other in tiles)
        for span, tiles in placed
        for tile in tiles
    }


def hosts(buffers: Sequence[Buffer]) -> list[list[Buffer]]:
    """The buffers, with each those that have columns in common with it."""
    found: list[list[Buffer]] = []
    for buffer in sorted(buffers, key=lambda buffer: buffer.offset):
        if found and buffer.offset < max(_span(other)[1] for other in found[-1]):
            found[-1].append(buffer)
        else:
            found.append([buffer])
    return found


def _width(tiles: Sequence[Buffer]) -> int:
    """Columns from the first to the last of some tiles."""
    return max(_span(tile)[1] for tile in tiles) - min(tile.offset for tile in tiles)


def _span(buffer: Buffer) -> Span:
    """The columns of a buffer's slots."""
    return buffer.offset, buffer.offset + buffer.slots * buffer.stride


def _meet(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def columns_taken(buffers: Sequence[Buffer]) -> int:
    """The column behind the last one."""
    return max((_span(buffer)[1] for buffer in buffers if buffer.tensor), default=0)


def _too_many(program: WarpProgram, taken: int, most: int) -> exc.UnsupportedInKernel:
    """The error that says what does not fit."""
    held = hosts([buffer for buffer in program.buffers if buffer.tensor])
    words = ", ".join(f"{tiles[0].name} {tiles[0].slots} x {tiles[0].width}" for tiles in held)
    return exc.UnsupportedInKernel(
        f"accumulators of {taken} columns are more than tensor memory has, {most}: {words}",
        file=program.program.file, hint="smaller tiles",
    )  # fmt: skip
