"""Where every tile lies in shared memory: offsets of buffers, and the bytes of everything with its barriers."""

from __future__ import annotations

from dataclasses import replace

from twill.codegen.lower.memory import SharedMemoryPlan
from twill.codegen.warp.choices import Choices
from twill.codegen.warp.program import ORDER_BYTES, WarpProgram


def run(program: WarpProgram, choices: Choices) -> WarpProgram:
    """The pass. Raises SharedMemoryFull."""
    order = ORDER_BYTES if program.order is not None else 0
    buffers, shared = SharedMemoryPlan.of(program).place(choices.capacity, order)
    return replace(program, buffers=buffers, shared=shared)
