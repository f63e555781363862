"""A function as the executor runs it: basic blocks of steps, each made once of an instruction.

A step changes registers and memory and cannot wait. What can wait, goes elsewhere or needs lanes together ends a block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from twill.codegen.verify.ptx.threads import Array, Gang, Strand
from twill.ptx import step
from twill.ptx.program import Function, PtxInstruction

Step = step.Step
End = Callable[[Gang, Strand], None]


@dataclass(frozen=True)
class Block:
    """instructions: those of the steps. end: goes on to other blocks. touched: registers that steps read or write;
    each: of every step what it reads, what it writes, and the source if it is a move, else -1. written: in order,
    (register, source) of what may be an operand of a multiply; the source of a move, else -1. last_touched: registers
    that `last` reads or writes."""

    steps: tuple[Step, ...]
    batches: tuple[Step, ...]
    instructions: tuple[PtxInstruction, ...]
    end: End
    last: PtxInstruction | None
    touched: frozenset[int]
    each: tuple[tuple[frozenset[int], frozenset[int], int], ...]
    written: tuple[tuple[int, int], ...]
    last_touched: frozenset[int] = frozenset()


@dataclass(frozen=True)
class VariableLayout:
    """Where variables lie. addresses: in their space, by name. shared: bytes that static variables take, from the
    first; dynamic: where the launch's bytes begin."""

    addresses: dict[str, int]
    spaces: dict[str, str]
    dynamic: int
    local: int


@dataclass(frozen=True)
class Code:
    """A function, ready to run. initial: what registers hold before anything is written to them. grain: bytes of shared
    memory that none of its accesses tells apart."""

    function: Function
    layout: VariableLayout
    registers: dict[str, int]
    initial: tuple[Array, ...]
    blocks: tuple[Block, ...]
    grain: int = 1
