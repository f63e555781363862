"""Which tensors may hold numbers that a compiler knows.

Where a tile is masked, the compiler finds places that are masked in every thread, and has no register for their number
until an instruction needs it. For operand A of a product that is too late: its registers have to be written in front of
the product's fence. Such a tensor is moved into registers by an instruction that the compiler can't look into.

A place of a product's result that is masked in every thread is read by nothing. The compiler gives its register to
something else, and then has no registers in a row for the product: it waits for each of its instructions. So indices
that masks compare come out of such an instruction, too.
"""

from __future__ import annotations

from twill.codegen.warp.expression import Number
from twill.codegen.warp.program import Compute, Copy, Fill, Multiply, Operand, Range, Reg, WarpGroup

HELPER, INDICES = "in_registers", "unknown_indices"
"""Functions that modules share."""


def known_in_places(group: WarpGroup) -> frozenset[int]:
    """Fragments of a warp group that may hold a known number somewhere: a mask's, or one that is made of such alone."""
    found: set[int] = set()
    products = {stmt.accumulator for stmt in group.stmts if isinstance(stmt, Multiply)}
    while more := {made for stmt in group.stmts if (made := _made(stmt, found)) is not None} - found - products:
        found |= more
    return frozenset(found)


def masking_ranges(group: WarpGroup) -> frozenset[int]:
    """Indices of a warp group with products that it compares with known ones."""
    if not any(isinstance(stmt, Multiply) for stmt in group.stmts):
        return frozenset()
    ranges = {stmt.result for stmt in group.stmts if isinstance(stmt, Range) and isinstance(stmt.start, int)}
    known = set(ranges)
    while more := {made for stmt in group.stmts if (made := _of_known(stmt, known)) is not None} - known:
        known |= more
    compares = [stmt for stmt in group.stmts if isinstance(stmt, Compute) and stmt.kind == "compare"]
    return frozenset(ranges) if any(stmt.result in known for stmt in compares) else frozenset()


def _of_known(stmt: object, known: set[int]) -> int | None:
    """The result of an operation on known numbers alone."""
    match stmt:
        case Copy(source) if source in known:
            return stmt.result
        case Compute(operands=operands) if all(isinstance(o, Number) or _in(o, known) for o in operands):
            return stmt.result
    return None


def _in(operand: Operand, known: set[int]) -> bool:
    return isinstance(operand, Reg) and operand.fragment in known


def _made(stmt: object, known: set[int]) -> int | None:
    """The fragment that a statement gives a known number to."""

    def is_known(operand: Operand) -> bool:
        return not isinstance(operand, Reg) or operand.fragment in known

    match stmt:
        case Fill(result):
            return result
        case Copy(source) if source in known:
            return stmt.result
        case Compute(kind="select", operands=(_, *values)) if any(map(is_known, values)):
            return stmt.result
        case Compute(operands=operands) if all(map(is_known, operands)):
            return stmt.result
    return None
