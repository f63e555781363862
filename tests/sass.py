"""Machine code for tests of its timing: a few instructions with control fields, as a disassembler prints them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twill.codegen.targets.hopper.timing.instruction import SassCode, read_code
from twill.codegen.targets.hopper.timing.program import Timed, timed_program
from twill.codegen.targets.hopper.timing.sm import Sm
from twill.codegen.targets.hopper.timing.state import Warp
from twill.machine.file import load_machine

FREE = 7


def entry(
    text: str, stall: int = 1, waits: Sequence[int] = (), writes: int = FREE, reads: int = FREE, yields: bool = False
) -> str:
    """One instruction, in two lines; labels stand for themselves."""
    if text.endswith(":"):
        return text
    mask = sum(1 << number for number in waits)
    bits = (stall | (not yields) << 4 | writes << 5 | reads << 8 | mask << 11) << 41
    return f"        /*0000*/                   {text} ;  /* 0x{0:016x} */\n                  /* 0x{bits:016x} */"


def code(*entries: str) -> SassCode:
    """The function `f` of these entries."""
    (found,) = read_code("\n".join(('        .section        .text.f,"ax",@progbits', *entries)))
    return found


Issued = list[tuple[int, int, str]]  # cycle, warp, text


def run(function: SassCode, warps: int = 1, constants: Mapping[int, int] | None = None) -> tuple[int, Issued]:
    """The cycle at which the last warp ends, and everything that was issued."""
    issued: Issued = []

    def trace(now: int, warp: Warp, one: Timed) -> None:
        issued.append((now, warp.index, one.text.split("*/", 1)[1].strip()))

    program = timed_program(function, constants or {}, 32 * warps, {}, load_machine("h200").simulating)
    return Sm(program, load_machine("h200").simulating, trace=trace).run(), issued


def cycles_of(issued: Sequence[tuple[int, int, str]], opcode: str, warp: int = 0) -> list[int]:
    """When a warp issued instructions of an opcode."""
    return [now for now, index, text in issued if index == warp and text.split(" ")[0].startswith(opcode)]
