"""Promises of multiples: no divisor is claimed that is not one."""

from __future__ import annotations

import itertools

import pytest

from tests.printed_programs import arguments, simple, symbol
from twill.codegen.print.cuda.printer import print_cuda
from twill.codegen.warp.expression import Apply, Expr, Local, Number, ProgramId, Symbol, add, multiply, subtract
from twill.codegen.warp.layout import Blocked
from twill.codegen.warp.program import Let, Reg, StoreGlobal, Window, WindowAxis

ARGUMENTS = arguments(X="ptr:f32", n="i32")
N = symbol(simple("k", ARGUMENTS, [], []).program, "n")


def widest(offset: Expr) -> int:
    """Elements of the widest access that is printed for a store at that offset."""
    window = Window("X", "f32", (WindowAxis(512, Number(1), Local("offset")),), Number(0), 0.0)
    body = [Let("offset", offset), StoreGlobal(window, Reg(0))]
    text = print_cuda(simple("k", ARGUMENTS, [("x", "f32", Blocked((512,), 4))], body)).text
    return next((width for width in (4, 2) if f"Vector<float, {width}>" in text), 1)


def value(expr: Expr, n: int, pid: int) -> int:
    """What the expression is for one argument and one instance."""
    match expr:
        case Number(number):
            return int(number)
        case Symbol():
            return n
        case ProgramId():
            return pid
        case Apply(kind, (left, right)):
            a, b = value(left, n, pid), value(right, n, pid)
            return {"add": a + b, "sub": a - b, "mul": a * b, "max": max(a, b), "shl": a << max(b, 0)}[kind]
    raise AssertionError(expr)


PID = ProgramId(0)
CASES: list[tuple[Expr, int]] = [
    (Number(0), 4), (Number(6), 2), (Number(7), 1), (N, 4), (PID, 1), (multiply(PID, Number(128)), 4),
    (multiply(PID, N), 4), (add(multiply(PID, Number(2)), N), 2), (subtract(N, PID), 1), (add(N, Number(-8)), 4),
    (Apply("max", (N, Number(2)), "i32"), 2), (Apply("shl", (PID, Number(1)), "i32"), 2), (multiply(PID, PID), 1),
]  # fmt: skip


@pytest.mark.parametrize(("offset", "width"), CASES, ids=str)
def test_accesses_are_as_wide_as_the_offset_is_known_to_be_aligned(offset: Expr, width: int) -> None:
    assert widest(offset) == width
    for n, pid in itertools.product((16, 48), range(5)):
        assert value(offset, n, pid) % width == 0
