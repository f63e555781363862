"""Waits for products that ptxas adds to those that a module asks for.

Where ptxas finds no registers for products that run side by side, it waits behind each instruction, and says so in a
remark that Triton does not keep. The machine code has the waits: more of them, for each instruction of a product, than
the PTX. It is read as it is: the disassembler would take most of a second for it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from twill.codegen.compile.gluon.sections import sections
from twill.codegen.print.gluon import hopper


def added_waits(ptx: str, cubin: bytes) -> int:
    """How many waits the machine code has more than the PTX."""
    return more_waits(ptx, instructions(cubin)) if hopper.PTX_MMA.search(ptx) else 0


def more_waits(ptx: str, code: Iterator[int]) -> int:
    """The same of instructions of the machine code. A loop that is unrolled has products and waits more than once."""
    products, waits = len(hopper.PTX_MMA.findall(ptx)), len(hopper.PTX_WAIT.findall(ptx))
    kinds = [hopper.instruction_kind(one) for one in code]
    copies = max(1, -(-kinds.count("product") // max(1, products)))
    return max(0, kinds.count("wait") - copies * waits)


def instructions(cubin: bytes) -> Iterator[int]:
    """The first half, 8 bytes, of each instruction of its functions: what it does, and to what."""
    for code in sections(cubin, ".text.", more=True):
        for first, _ in struct.iter_unpack("<QQ", code):
            yield first
