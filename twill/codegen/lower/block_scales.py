"""Scales of blocks on their way to products: in chunks in shared memory, and copied to tensor memory.

Chunks are what the TMA loads, or what threads make of a tile [rows, blocks along K] that they load (StoreScales): rows
of such a tile have too few bytes for the TMA, and no copy to tensor memory gives them their lanes.

A ring of scales has a slot in tensor memory for each of its slots in shared memory, and no barriers besides: the thread
that multiplies waits for the slot, copies it, and multiplies; copies and products of one thread are done in the order
in which it issues them. The arrival behind the products gives both back. So nothing is copied over scales that a
product may still read, whatever the order of products and of copies behind them (PTX ISA, "tcgen05 Pipelined
Instructions", has none).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from twill import exc
from twill.codegen.lower.plan import LoweringPlan
from twill.codegen.lower.task import Source, Task
from twill.tile.flat import Step
from twill.tile.interpret.block_scales import CHUNK_ROWS, CHUNK_SCALES, SCALE_OPERANDS

CHUNK_COLUMNS = 4  # of tensor memory: 128 rows in 32 lanes, 4 scales in 32 bits (PTX ISA, "Scale Factor A Layout")
PACKED = 2  # elements of e2m1 in a byte


@dataclass(frozen=True)
class Scales:
    """A tile of scales: rows of the operand, blocks along K. in_rows: as the kernel loads it, by threads which put it
    into chunks; else it is chunks, as the TMA loads them."""

    rows: int
    count: int
    in_rows: bool = False

    @property
    def columns(self) -> int:
        """Of tensor memory."""
        return self.rows // CHUNK_ROWS * (self.count // CHUNK_SCALES) * CHUNK_COLUMNS

    def shape(self, lanes: int) -> tuple[int, int]:
        """Of a tile in tensor memory: lanes, and scales in each of them."""
        return lanes, self.columns * CHUNK_SCALES


def scales_of(plan: LoweringPlan, task: Task) -> Scales | None:
    """The scales that a task loads for products; None if it does something else. Raises UnsupportedInKernel if other
    work reads them, too."""
    if task.node.kind != "load":
        return None
    found: set[Scales] = set()
    others: list[Task] = []
    for reader in plan.readers(task.place):
        mine = [*_read_as_scales(plan, reader, task)]
        found.update(mine)
        others += [] if mine else [reader]
    if found and (others or len(found) > 1):
        _refuse(plan, task, f"scales `{task.node.name}` are read otherwise, too", "scales that products alone read")
    return next(iter(found), None)


def _read_as_scales(plan: LoweringPlan, reader: Task, task: Task) -> list[Scales]:
    """As what a task reads what another one loads, of each operand that has it."""
    step = plan.last_step(reader)
    if step.op.kind != "dot_scaled":
        return []
    return [
        scales_at(plan, step, position)
        for position, source in plan.sources(step, reader.block)
        if position in SCALE_OPERANDS and plan.place_of(source) == task.place
    ]


def scales_at(plan: LoweringPlan, step: Step, position: int) -> Scales:
    """The scales of operand A (position 3) or B (4) of a product."""
    rows, stored = plan.tiles.shape(step.operands[0])
    columns = plan.tiles.shape(step.operands[1])[1]
    elements = stored * (PACKED if plan.flat.cells[step.operands[0]].type.element == "i8" else 1)
    count, in_rows = elements // int(str(step.op.attribute("block"))), step.op.attribute("layout") == "rows"
    return Scales(rows if position == SCALE_OPERANDS[0] else columns, count, in_rows)


def sources_of(plan: LoweringPlan, task: Task) -> tuple[Source, Source] | None:
    """Where the scales of both operands of a product come from; None of another product."""
    step = plan.last_step(task)
    if step.op.kind != "dot_scaled":
        return None
    of_a, of_b = (plan.source(step.operands[position], task.block) for position in SCALE_OPERANDS)
    assert of_a is not None and of_b is not None
    return of_a, of_b


def copied_by(plan: LoweringPlan, source: Source) -> Task:
    """The product that copies scales to tensor memory: of those that read them, the one that is issued first."""
    loaded = plan.tasks[plan.place_of(source)]
    readers = [reader for reader in plan.readers(loaded.place) if _read_as_scales(plan, reader, loaded)]
    return min(readers, key=lambda reader: (reader.start, reader.place))


def refuse_scales(plan: LoweringPlan, task: Task) -> None:
    """Raises UnsupportedInKernel for a product whose scales do not come in chunks from loads of its loop."""
    step = plan.last_step(task)
    if step.op.kind != "dot_scaled":
        return
    name = task.node.name or "tl.dot_scaled"
    for position in SCALE_OPERANDS:
        source = plan.source(step.operands[position], task.block)
        maker = plan.tasks.get(plan.place_of(source)) if source is not None else None
        scales = scales_at(plan, step, position)
        loaded = maker is not None and maker.node.kind == "load" and scales.in_rows == (maker.node.transport != "tma")
        if loaded and (scales.rows % CHUNK_ROWS or scales.count % CHUNK_SCALES):
            what = f"scales of {scales.rows} rows and {scales.count} blocks along K"
            _refuse(
                plan, task, f"`{name}` has {what}, and a copy to tensor memory has {CHUNK_ROWS} and {CHUNK_SCALES}",
                f"tiles whose rows are a multiple of {CHUNK_ROWS}, and K of {CHUNK_SCALES} blocks",
            )  # fmt: skip
        if not loaded or maker is None or maker.region != task.region:
            reason = maker.node.transport_reason if maker is not None and maker.node.kind == "load" else ""
            why = f" (`{maker.node.name}`: {reason})" if maker is not None and reason else ""
            _refuse(
                plan, task, f"the scales of `{name}` are not loaded as the tensor core has them{why}",
                "scales [ROWS, BLOCKS], loaded in the loop and read by products alone; or 128 rows and 4 blocks in 512 "
                "bytes, loaded in the loop by a descriptor with blocks [1, ROWS // 128, BLOCKS // 4, 2, 256], then "
                ".reshape(ROWS // 128, BLOCKS // 4, 32, 4, 4).trans(0, 3, 2, 1, 4).reshape(ROWS, BLOCKS), as in "
                "examples/gemm_mxfp8.py",
            )  # fmt: skip
    for operand, across in ((step.operands[0], False), (step.operands[1], True)):
        if plan.tiles.is_transposed(operand) != across:
            _refuse(plan, task, f"`{name}` has operands that do not lie along K", "A [M, K], and B.T of B [N, K]")
    rows, one = plan.flat.cells[step.operands[0]].type.shape[0], plan.tiles.target.mma
    assert one is not None
    if rows != one.rows or plan.tiles.is_split(step.operands[1]):
        what = f"`{name}` has {rows} rows, whose scales a product of {one.rows} would have a part of"
        _refuse(plan, task, what, f"A of {one.rows} rows")


def _refuse(plan: LoweringPlan, task: Task, what: str, instead: str) -> NoReturn:
    raise exc.UnsupportedInKernel(
        f"{what}, which is not emitted", file=plan.wired.program.file, line=task.node.line, hint=instead
    )
