"""`tcgen05.cp`: rows of shared memory become lanes of tensor memory.

Copies of a thread are done in order with its multiplies, as late as these: a multiply of the same thread behind a copy
reads what it wrote, and who else wants to needs a commit (PTX ISA, "tcgen05.cp" and "tcgen05 Memory Consistency
Model").
"""

from __future__ import annotations

import numpy as np

from twill.codegen.verify.ptx.accesses import address_of, other_cta
from twill.codegen.verify.ptx.code import Step
from twill.codegen.verify.ptx.tcgen05_memory import Cells
from twill.codegen.verify.ptx.tcgen05_multiplies import (
    PAIR,
    TensorProduct,
    begin_reading,
    group_of,
    multiplies_of,
)
from twill.codegen.verify.ptx.tcgen05_scales import TensorIssuer
from twill.codegen.verify.ptx.threads import Array, Cta, Gang
from twill.codegen.verify.ptx.units.tcgen05 import CHUNK, bytes_of
from twill.codegen.verify.ptx.units.tensor_memory import QUARTER
from twill.ptx.program import PtxInstruction
from twill.ptx.registers import Operands, unsupported

_COLUMNS = {"128b": 4, "256b": 8}
_ROWS = {"128x256b": 128, "128x128b": 128, "64x128b": 64, "32x128b": 32}
_COPIES = {
    "128x256b": (0,), "128x128b": (0,), "32x128b.warpx4": (0, QUARTER, 2 * QUARTER, 3 * QUARTER),
}  # fmt: skip
"""Of a shape: from which lanes on its rows are written."""


def build(operands: Operands, instruction: PtxInstruction) -> Step:
    """The step of one."""
    modifiers = instruction.modifiers
    shape = next((m for m in modifiers if m in _ROWS), "")
    spread = next((f"{shape}.{m}" for m in modifiers if m.startswith("warpx")), shape)
    if spread not in _COPIES or any(m.startswith("b") and "x16" in m for m in modifiers):
        raise unsupported(instruction)
    target, source = instruction.operands
    to, described = address_of(operands, instruction, target), operands.fetch(instruction, source, "u64")
    rows, columns, group = _ROWS[shape], _COLUMNS[shape.split("x")[1]], group_of(instruction)
    place = instruction.place

    def step(g: Gang) -> None:
        for lane in g.lanes().tolist():
            address, bits = (int(value[0] if len(value) == 1 else value[lane]) for value in (to(g), described(g)))
            warp = int(g.warps[lane])
            mine = multiplies_of(g, warp)
            by = TensorIssuer(g, warp, mine.agent, int(g.cta.world.clocks.known[mine.agent, mine.agent]), place)
            at = bytes_of(bits, rows, "u8", False)[:, : columns * 4 // CHUNK]
            ctas = [g.cta] if group < PAIR else [g.cta, other_cta(g, g.cta.rank ^ 1)]
            reads = [(cta, at) for cta in ctas]
            writes = [_cells(cta, by, address, rows, columns, _COPIES[spread]) for cta in ctas]
            begin_reading(by, lane, reads)

            def run(ctas: list[Cta] = ctas, at: Array = at, writes: list[tuple[Array, Array]] = writes) -> None:
                for cta, (lanes, wanted) in zip(ctas, writes, strict=True):
                    assert cta.tensor is not None
                    words = np.ascontiguousarray(cta.shared[at].reshape(rows, -1)).view(np.uint32)
                    cta.tensor.cells[lanes[..., None], wanted] = words

            mine.open.append(TensorProduct(run, reads, by.epoch, place))

    return step


def _cells(
    cta: Cta, by: TensorIssuer, address: int, rows: int, columns: int, starts: tuple[int, ...]
) -> tuple[Array, Array]:
    """Lanes [copies, rows] and columns that are written. Stopped: beyond tensor memory or an allocation."""
    assert cta.tensor is not None
    lane, wanted = cta.tensor.place(address, np.arange(columns))
    lanes = np.array(starts)[:, None] + np.arange(rows) + lane
    by.writes(cta.tensor, Cells.of(lanes.reshape(-1), wanted))
    return lanes, wanted
