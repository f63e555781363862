"""Where every tile lies in shared memory: offsets of buffers, and the bytes of everything with its barriers."""

from __future__ import annotations

from dataclasses import replace

from twill.codegen.lower.memory import SharedMemoryPlan
from twill.codegen.warp.choices import Choices
from twill.codegen.warp.program import TENSOR_BYTES, WarpProgram


def run(program: WarpProgram, choices: Choices) -> WarpProgram:
    """The pass. Raises SharedMemoryFull."""
    besides = program.once_bytes + (TENSOR_BYTES if program.tensor_columns else 0)
    buffers, shared = SharedMemoryPlan.of(program).place(choices.capacity, besides)
    return replace(program, buffers=buffers, shared=shared)
