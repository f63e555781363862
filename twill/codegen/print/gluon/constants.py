"""Which tensors may hold numbers that a compiler knows.

Where a tile is masked, the compiler finds places that are masked in every thread, and has no register for their number
until an instruction needs it. For operand A of a product that is too late: its registers have to be written in front of
the product's fence. Such a tensor is moved into registers by an instruction that the compiler can't look into.
"""

from __future__ import annotations

from twill.codegen.warp.program import Compute, Copy, Fill, Multiply, Operand, Reg, WarpGroup

HELPER = "in_registers"

_TEXT = f'''

@gluon.jit
def {HELPER}(x, layout: gl.constexpr):
    """The same values, in registers that are written here. A constant among them, which the compiler writes where it is
    needed, would come behind the fence of the product that reads it."""
    MOVE: gl.constexpr = "mov.b32 $0, $1;"
    return gl.convert_layout(gl.inline_asm_elementwise(MOVE, "=r,r", [x], x.dtype, False, 2), layout)
'''


def known_in_places(group: WarpGroup) -> frozenset[int]:
    """Fragments of a warp group that may hold a known number somewhere: a mask's, or one that is made of such alone."""
    found: set[int] = set()
    products = {stmt.accumulator for stmt in group.stmts if isinstance(stmt, Multiply)}
    while more := {made for stmt in group.stmts if (made := _made(stmt, found)) is not None} - found - products:
        found |= more
    return frozenset(found)


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


def helper() -> str:
    """The function that moves a tensor into registers, behind two empty lines."""
    return _TEXT
