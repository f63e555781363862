"""Promises of `twill.codegen.numerics`: every change of numbers is listed, and a strict program has none."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest

from tests.conftest import ROOT
from tests.kernels import H100
from tests.lowered import scheduled
from tests.tile_programs import Programs, attention
from twill.codegen.compile.nvrtc import compile_cubin
from twill.codegen.emission import extract
from twill.codegen.lowering import lower
from twill.codegen.numerics import changes
from twill.codegen.print.cuda.printer import print_cuda
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.program import SUBNORMAL, Compute, WarpProgram
from twill.kernel.specialization import fp_fusion, resolve
from twill.manifest.document import NumericChange
from twill.tile.program import TileProgram
from twill.tile.rewrite.conditional_rescale import rescale_conditionally
from twill.tile.rewrite.pipeline import rewrite

LINEAR = f"{ROOT / 'tests' / 'linear_kernels.py'}::capped"
SIG = ("X=*fp32:16", "Y=*fp32:16", "scale=fp32", "end=i32")


@cache
def lowered(program: TileProgram) -> WarpProgram:
    blocks = 2 if any(program.type_of(v).shape == (128, 128) for op in program.ops() for v in op.results) else 1
    return lower(program, scheduled(program, blocks), H100)


def words(program: WarpProgram) -> set[str]:
    return {change.what for change in changes(program)}


def softmax(strict: bool) -> WarpProgram:
    """Attention forward with everything that is done to it."""
    p, written = Programs(), attention()
    p.values = list(written.values)
    for name, element in zip("QKVOL", ("f16", "f16", "f16", "f16", "f32"), strict=True):
        p.argument(name, f"ptr:{element}")
    arguments = (*written.arguments, *p.arguments)
    program = replace(written, arguments=arguments, values=tuple(p.values), strict=strict)
    return lowered(program if strict else rescale_conditionally(program))


def test_what_is_done_to_attention_is_listed_with_its_lines() -> None:
    found = changes(softmax(strict=False))
    assert {re.sub(r" by more than .*", "", change.what) for change in found} == {
        "a running maximum moves only when it grew",
        "a sum over iterations is kept in four parts",
        "a division by a vector is one reciprocal and multiplications",
    }
    assert all(change.line and change.bound for change in found)


def test_a_strict_program_changes_nothing_and_is_still_right() -> None:
    made = softmax(strict=True)
    assert changes(made) == ()
    assert verify(made) == ()


def elementwise(kind: str, result: str = "f32") -> TileProgram:
    """One function of a vector, and what GELU does with it; of an exponential the sum."""
    p = Programs()
    p.argument("X", "ptr:f32")
    p.argument("Y", f"ptr:{result}")
    y = p.op(kind, p.load("X", (1024,), "f32"), name="y")
    if kind == "erf":
        y = p.op("add", y, p.constant(1.0, (1024,), "f32"), name="y")
    if result != "f32":
        y = p.op("cast", y, element=result, name="y")
    p.store("Y", y)
    return p.done()


def summed() -> TileProgram:
    """Sums of exponentials, for each of 64 rows."""
    p = Programs()
    p.argument("X", "ptr:f32"), p.argument("Y", "ptr:f32"), p.argument("A", "ptr:f16")
    a = p.load("A", (64, 64), "f16", name="a")
    product = p.op("dot", a, p.op("transpose", a, order=(1, 0)), shape=(64, 64), element="f32", precision="ieee")
    p.store("X", product)
    p.store("Y", p.op("reduce", p.op("exp", product), shape=(64,), axis=1, combine="add", name="y"))
    return p.done()


@pytest.mark.parametrize(("program", "what"), [
    (summed(), "an exponential below 2^-126, of which sums are made, is 0"),
    (elementwise("erf", "bf16"), "1 + erf(x) by a short formula, for results of 16 bits or fewer"),
])  # fmt: skip
def test_short_forms_of_functions_are_listed(program: TileProgram, what: str) -> None:
    assert words(lowered(program)) == {what}
    assert words(lowered(replace(program, strict=True))) == set()


def test_an_exponential_is_as_it_is() -> None:
    (stmt,) = (one for group in lowered(elementwise("exp")).groups for one in group.stmts if isinstance(one, Compute))
    assert dict(stmt.attributes) == {SUBNORMAL: 1}
    assert words(lowered(elementwise("exp"))) == set()


def test_an_error_function_that_is_not_rounded_to_16_bits_is_as_it_is() -> None:
    assert words(lowered(elementwise("erf"))) == set()


def product(precision: str) -> TileProgram:
    p = Programs()
    for name in "ABC":
        p.argument(name, "ptr:f32")
    trips = p.argument("trips")
    with p.loop(trips, [p.constant(0.0, (64, 64), "f32")]) as k:
        a, b = p.load("A", (64, 32), "f32", at=(0, k.i * 32)), p.load("B", (64, 32), "f32", at=(0, k.i * 32))
        turned = p.op("transpose", b, shape=(32, 64), order=(1, 0))
        k.yields = [p.op("dot", a, turned, k.carried[0], name="c", precision=precision)]
    p.store("C", k.results[0])
    return p.done()


@pytest.mark.parametrize(("precision", "what"), [
    ("tf32x3", "tf32x3 by six products of bf16"), ("bf16x3", "three products of bf16"),
])  # fmt: skip
def test_products_that_stand_for_others_are_listed_and_right(precision: str, what: str) -> None:
    made = lowered(rewrite(product(precision)))
    assert words(made) == {what}
    assert verify(made) == ()


def test_a_product_that_the_tensor_core_has_is_not_listed() -> None:
    assert words(lowered(rewrite(product("tf32")))) == set()


def scaled(strict: bool = False, fused: bool = True) -> TileProgram:
    """x·s + t of a vector."""
    p = Programs()
    for name in "XY":
        p.argument(name, "ptr:f32")
    s, t = p.argument("s", "f32"), p.argument("t", "f32")
    x = p.load("X", (1024,), "f32")
    product = p.op("mul", x, p.op("splat", s, shape=(1024,)))
    p.store("Y", p.op("add", product, p.op("splat", t, shape=(1024,)), name="y"))
    return replace(p.done(), strict=strict, fp_fusion=fused)


@pytest.mark.parametrize(("strict", "fused", "fma"), [(False, True, True), (False, False, False), (True, True, False)])
def test_products_and_sums_are_rounded_apart_where_the_program_says_so(strict: bool, fused: bool, fma: bool) -> None:
    program = lowered(scaled(strict, fused))
    printed = print_cuda(program)
    rounded_once = fused and not strict
    ptx = compile_cubin(printed.text, lines=printed.lines, fused=rounded_once).ptx
    assert bool(re.search(r"\bfma\.rn\.f32", ptx)) == fma


def test_factors_stay_where_they_are_in_a_strict_program_and_in_one_without_fusion() -> None:
    usual, strict, apart = (
        extract(LINEAR, sig=SIG, const=("BLOCK=16",), strict=strict, fp_fusion=fused).program
        for strict, fused in ((False, True), (True, True), (False, False))
    )
    assert usual.regrouped and not strict.regrouped and not apart.regrouped
    assert (usual.fp_fusion, strict.strict, apart.fp_fusion) == (True, True, False)
    assert "fma" not in {op.kind for program in (strict, apart) for op in program.ops()}


def test_the_environment_turns_fusion_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "0")
    assert not fp_fusion(None) and fp_fusion(asked=True)
    assert not resolve(str(ROOT / "examples" / "attention.py"), spec="causal").fp_fusion


def test_a_change_is_said_with_its_line_and_its_bound() -> None:
    assert NumericChange(7, "a sum", "2^-24").said() == "line 7: a sum (2^-24)"
    assert NumericChange(0, "a sum", "2^-24").said() == "a sum (2^-24)"


def test_a_rounded_division_by_a_vector_stays_a_division() -> None:
    p = Programs()
    for name in "abc":
        p.argument(name, "ptr:f32")
    x = p.dot(p.load("a", (64, 64)), p.load("b", (64, 64)), name="x")
    rows = p.reduce(x, 1, "max", name="rows")
    p.store("c", p.op("div", x, p.column(rows, 64), name="q", rounding="rn"))
    text = print_cuda(lowered(p.done())).text
    assert "div_rounded(" in text and "div_full(" not in text


def test_an_unsigned_maximum_with_what_is_in_memory_is_one_of_unsigned_numbers() -> None:
    p = Programs()
    p.argument("X", "ptr:i32"), p.argument("Y", "ptr:i32")
    x = p.load("X", (1024,), "i32")
    access = p.access("Y", (1024,), "i32", [0])
    p.op("tile_reduce", x, access=access, combine="max", signed=0)
    text = print_cuda(lowered(p.done())).text
    assert re.search(r"reduce_umax\(\(u32\*\)\(at \+ .*\), \(u32\)", text)
