"""Promises of `twill.codegen.passes.erf_tails`: 1 + erf(x) becomes erfc(-x) where 16 bits are left of it, and nowhere
else."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

import twill
from tests.golden_schedules import Example, lowered
from twill.codegen.passes.erf_tails import with_tails
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.expression import Local, Number, less
from twill.codegen.warp.program import (
    DIGITS,
    FACTOR,
    Compute,
    If,
    Multiply,
    Reg,
    SlotRef,
    Stmt,
    StoreGlobal,
    Window,
    walk,
)

# x, mul, erf, sum, product, short
ELEMENTS = {0: "f32", 1: "f32", 2: "f32", 3: "f32", 4: "f32", 5: "bf16"}
ONE, HALF = Number(1.0, "f32"), Number(0.5, "f32")
STORE = StoreGlobal(Window("y", "f32", (), Number(0), 0.0), Reg(3))


NORMED = {"c": 6, "half": 7}  # fragments of f32: GELU's argument, and half of it


def halved(factor: Number = HALF) -> tuple[Stmt, ...]:
    """0.5 * c * (1 + erf(0.7 * c)), rounded."""
    c, half = NORMED["c"], NORMED["half"]
    return (
        Compute("add", (Reg(0), Reg(0)), c),
        Compute("mul", (Reg(c), Number(0.7, "f32")), 1),
        Compute("erf", (Reg(1),), 2),
        Compute("mul", (Reg(c), factor), half),
        Compute("add", (Reg(2), ONE), 3),
        Compute("mul", (Reg(half), Reg(3)), 4),
        Compute("cast", (Reg(4),), 5),
    )


def gelu(one: Number = ONE) -> tuple[Stmt, ...]:
    return (
        Compute("mul", (Reg(0), HALF), 1),
        Compute("erf", (Reg(1),), 2),
        Compute("add", (Reg(2), one), 3),
        Compute("mul", (Reg(1), Reg(3)), 4),
        Compute("cast", (Reg(4),), 5),
    )


def kinds(*body: Stmt, elements: dict[int, str] = ELEMENTS) -> list[str]:
    return [stmt.kind for stmt in walk(with_tails(body, elements)) if isinstance(stmt, Compute)]


def test_a_sum_that_is_rounded_to_16_bits_is_a_tail() -> None:
    assert kinds(*gelu()) == ["mul", "neg", "erfc", "mul", "cast"]
    assert kinds(If(less(Local("n"), Number(1)), gelu())) == ["mul", "neg", "erfc", "mul", "cast"]
    (_, _, total, *_) = with_tails(gelu(), ELEMENTS)
    assert isinstance(total, Compute) and total.operands == (Reg(2),)


@pytest.mark.parametrize(
    "body",
    [
        gelu(Number(2.0, "f32")),  # another number
        gelu()[:4],  # nothing rounds it
        (*gelu(), STORE),  # it is stored as it is, too
        (*gelu(), Compute("add", (Reg(3), Number(-1.0, "f32")), 4)),  # what is left of a difference may be its error
        (*gelu(), Compute("mul", (Reg(2), HALF), 4)),  # the error function itself is used
        (*gelu(), Compute("mul", (Reg(1), HALF), 3)),  # the sum is sometimes something else
        (*gelu(), Multiply(3, SlotRef(0), SlotRef(1), False, False, 64, "bf16", True)),
    ],
)
def test_anything_else_stays_as_it_is(body: tuple[Stmt, ...]) -> None:
    assert "erfc" not in kinds(*body) and with_tails(body, ELEMENTS) == body


def test_a_factor_of_the_product_goes_into_the_sum_that_is_rounded_to_bf16() -> None:
    elements = {**ELEMENTS, 6: "f32", 7: "f32"}
    made = with_tails(halved(), elements)
    assert [stmt.kind for stmt in made if isinstance(stmt, Compute)] == ["add", "mul", "neg", "erfc", "mul", "cast"]
    total, product = made[3], made[4]
    assert isinstance(total, Compute) and dict(total.attributes) == {DIGITS: 8, FACTOR: 0.5}
    assert isinstance(product, Compute) and product.operands == (Reg(NORMED["c"]), Reg(3))


@pytest.mark.parametrize(
    ("body", "short"),
    [
        (halved(), "f16"),  # the longer formula has no factor
        (halved(Number(-0.5, "f32")), "bf16"),
        ((*halved(), Compute("add", (Reg(7), Reg(7)), 0)), "bf16"),  # half of it is needed besides
        ((*halved(), Compute("add", (Reg(0), Reg(0)), 6)), "bf16"),  # the argument is something else by then
        ((*halved()[:5], If(less(Local("n"), Number(1)), halved()[5:])), "bf16"),  # the product is made elsewhere
    ],
)
def test_a_factor_that_is_more_than_that_stays(body: tuple[Stmt, ...], short: str) -> None:
    made = with_tails(body, {**ELEMENTS, 5: short, 6: "f32", 7: "f32"})
    sums = [stmt for stmt in walk(made) if isinstance(stmt, Compute) and stmt.kind == "erfc"]
    assert sums and not any(FACTOR in dict(stmt.attributes) for stmt in sums)
    assert len(list(walk(made))) == len(list(walk(body)))


def test_a_product_in_float32_that_is_all_there_is_stays() -> None:
    assert "erfc" not in kinds(*gelu(), elements={**ELEMENTS, 5: "f32"})


def test_the_example_has_it_and_is_right() -> None:
    example = Example("examples/gemm_bias_gelu.py", "bf16")
    program = lowered(example)
    assert any(isinstance(s, Compute) and s.kind == "erfc" for g in program.groups for s in g.stmts)
    assert verify(program) == ()


def coefficients(name: str, count: int) -> list[np.float32]:
    """Of a printed formula, the highest first."""
    text = (Path(twill.__file__).parent / "codegen" / "print" / "cuda" / "tile.cuh").read_text()
    body = text[text.index(f"DEV float {name}") :]
    body = body[: body.index("}")]
    return [np.float32(number) for number in re.findall(r"(-?[\d.]+(?:e-\d+)?)f\)?;", body)[:count]]


def test_the_formula_is_as_near_as_it_says() -> None:
    """In float32 with fused multiplications; ex2 itself adds 2 units in the last place, 1.2e-7 of the tail."""
    y = np.linspace(0, 12, 120001).astype(np.float32)
    first, *rest = coefficients("erfc_short", 8)
    q = np.full_like(y, first)
    for c in rest:
        q = (q.astype(np.float64) * y + c).astype(np.float32)
    tail = np.exp2(-(y * q).astype(np.float64))
    true = np.array([math.erfc(float(x)) for x in y])
    error = np.abs(tail - true)
    assert len(rest) == 7 and error.max() < 9e-8
    assert (error / true)[true > 1e-4].max() < 2.5e-4 and tail[y > 4.1].max() < 1e-8


def test_the_formula_for_bf16_is_as_near_as_it_says() -> None:
    """In float32; the special functions add 4 units in the last place."""
    x = np.linspace(-12, 12, 120001).astype(np.float32)
    y = x * x
    first, *rest = coefficients("erfc_bf16", 5)
    p = np.full_like(x, first)
    for c in rest:
        p = (p.astype(np.float64) * y + c).astype(np.float32)
    found = 2 / (1 + np.exp2(np.minimum((x * p).astype(np.float64), 1000)))
    true = np.array([math.erfc(float(number)) for number in x])
    error = np.abs(found - true)
    assert len(rest) == 4 and (error / true)[true > 1e-4].max() < 4.3e-4
    assert error[true <= 1e-4].max() < 4.3e-8 and found[x > 4.1].max() < 1e-8
    assert (np.diff((x * p).astype(np.float64)) > 0).all()
