"""Products whose operand A is what floats are cast to in 8 bits: it stays in registers, in the order that they want."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kernels import H100
from tests.run_cache import once
from twill.codegen.emission import emit_solved, extract
from twill.codegen.emit import Emission
from twill.codegen.warp.program import Multiply, StoreShared
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import checked

TWICE = """
@triton.jit
def k(a_desc, b_desc, v_desc, o_desc, S, LENGTH, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM
    a = a_desc.load([0, m, 0]).reshape([BM, D])
    acc = tl.zeros([BM, D], tl.float32)
    scale = tl.load(S)
    for n in range(0, LENGTH, BN):
        b = b_desc.load([0, n, 0]).reshape([BN, D])
        p = tl.dot(a, b.T) * scale
        v = v_desc.load([0, 0, n]).reshape([D, BN])
        q = p.to(ELEMENT)
        REARRANGED
        acc = tl.dot(q, v.T, acc)
    o_desc.store([0, m, 0], acc.to(tl.bfloat16).reshape([1, BM, D]))
"""


IN_ORDER = "q = q.reshape([BM, BN // 16, ORDER]).permute(0, 1, 3, 2, 4).reshape([BM, BN])"


def emitted(kernel_file: Callable[..., str], element: str, order: str = "") -> Emission:
    """Both products of a type, 64 rows and 96 of the first one's columns a tile. order: of 16 columns, as digits."""
    rows, columns, width = 64, 96, 64
    sig = [f"a_desc=tensordesc<{element}[1, {rows}, {width}]>", f"b_desc=tensordesc<{element}[1, {columns}, {width}]>",
           f"v_desc=tensordesc<{element}[1, {width}, {columns}]>", f"o_desc=tensordesc<bf16[1, {rows}, {width}]>",
           "S=*fp32:16", "LENGTH=i32:16"]  # fmt: skip
    text = TWICE.replace("ELEMENT", {"fp8e4nv": "tl.float8e4nv", "fp8e5": "tl.float8e5"}[element])
    text = text.replace("REARRANGED", IN_ORDER.replace("ORDER", order) if order else "pass")
    kernel = extract(f"{kernel_file(text)}::k", sig=sig, const=[f"D={width}", f"BM={rows}", f"BN={columns}"])
    options = SolveOptions(blocks=1, budget=20)
    return once(
        f"8-bit operands of {element} in {order}",
        lambda: emit_solved(kernel, H100, lambda graph, on: solve(graph, on, options)),
    )


@pytest.mark.parametrize("element", ["fp8e4nv", "fp8e5"])
def test_an_operand_of_8_bits_is_multiplied_from_registers(kernel_file: Callable[..., str], element: str) -> None:
    """No tile between the products goes through shared memory or is made wider; the PTX computes the same."""
    emission = emitted(kernel_file, element)
    products = [stmt for group in emission.program.groups for stmt in group.stmts if isinstance(stmt, Multiply)]
    assert {stmt.operand for stmt in products} == {{"fp8e4nv": "f8e4m3", "fp8e5": "f8e5m2"}[element]}
    assert {type(stmt.a) is int for stmt in products} == {True, False}
    stored = [stmt for group in emission.program.groups for stmt in group.stmts if isinstance(stmt, StoreShared)]
    assert all(emission.program.buffers[stmt.target.buffer].element == "bf16" for stmt in stored)
    assert "exchange_bytes(" in emission.printed.text
    checked(emission)


def test_an_operand_in_the_order_of_a_result_moves_no_byte(kernel_file: Callable[..., str]) -> None:
    """Rearranged as threads hold it, for rows of B in that order, it is multiplied as it is."""
    emission = emitted(kernel_file, "fp8e4nv", "2, 4, 2")
    products = [stmt for group in emission.program.groups for stmt in group.stmts if isinstance(stmt, Multiply)]
    assert {stmt.quads for stmt in products if isinstance(stmt.a, int)} == {True}
    assert "exchange_bytes(" not in emission.printed.text
    checked(emission)


def test_another_order_is_a_rearrangement(kernel_file: Callable[..., str]) -> None:
    emission = emitted(kernel_file, "fp8e4nv", "4, 2, 2")
    products = [stmt for group in emission.program.groups for stmt in group.stmts if isinstance(stmt, Multiply)]
    assert not any(stmt.quads for stmt in products)
    checked(emission)
