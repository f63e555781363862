"""Waits for products that ptxas adds to those that a module asks for.

Where ptxas finds no registers for products that run side by side, it waits behind each instruction, and says so in a
remark that Triton does not keep. The machine code has the waits: more of them, for each instruction of a product, than
the PTX.
"""

from __future__ import annotations

from twill.codegen.compile.disassembler import disassemble
from twill.codegen.print.gluon import hopper


def added_waits(ptx: str, cubin: bytes) -> int:
    """How many waits the machine code has more than the PTX; 0 also without a disassembler, which Triton has."""
    products = len(hopper.PTX_MMA.findall(ptx))
    sass = disassemble(cubin) if products else None
    return 0 if sass is None else more_waits(ptx, sass)


def more_waits(ptx: str, sass: str) -> int:
    """The same of a listing of the machine code. A loop that is unrolled has products and waits more than once."""
    products, waits = len(hopper.PTX_MMA.findall(ptx)), len(hopper.PTX_WAIT.findall(ptx))
    copies = max(1, -(-len(hopper.SASS_MMA.findall(sass)) // max(1, products)))
    return max(0, len(hopper.SASS_WAIT.findall(sass)) - copies * waits)
