"""Where every tile lies in shared memory: offsets of buffers, and the bytes of everything with its barriers."""

from __future__ import annotations

from dataclasses import replace

from twill.codegen.lower.memory import SharedMemoryPlan
from twill.codegen.warp.choices import Choices
from twill.codegen.warp.program import WarpProgram


def run(program: WarpProgram, choices: Choices) -> WarpProgram:
    """The pass; what `twill.codegen.passes.overlay` has laid out stays. Raises SharedMemoryFull."""
    if program.shared:
        return program
    buffers, shared = SharedMemoryPlan.of(program).place(choices.capacity, program.own_bytes)
    return replace(program, buffers=buffers, shared=shared)
