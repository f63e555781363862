"""Promises of elementwise operations in CUDA: their meaning for each type, and that every kind has one."""

from __future__ import annotations

import itertools

import pytest

from tests.printed_programs import arguments, compute, simple
from twill import exc
from twill.codegen.compile.nvrtc import compile_cubin
from twill.codegen.print.cuda.elements import BYTES
from twill.codegen.print.cuda.print_elementwise import PRINTERS, ElementwiseOperation, print_elementwise
from twill.codegen.print.cuda.print_expression import literal
from twill.codegen.print.cuda.printer import print_cuda
from twill.codegen.warp.expression import Number
from twill.codegen.warp.layout import Blocked
from twill.codegen.warp.program import Compute, Fill, LoadGlobal, Reg, Stmt, StoreGlobal, Window, WindowAxis
from twill.tile.vocabulary import ELEMENTWISE, LIBRARY, UNPACKED

OF_TWO = ("atan2", "hypot", "pow")
FUNCTIONS = ("neg", "abs", "floor", "ceil", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf",
             "trunc", "rint", "round", *(kind for kind in LIBRARY if kind not in OF_TWO))  # fmt: skip
FLOATS = ("f32", "bf16", "f8e4m3", "f64")
INTEGERS = ("i1", "i8", "i16", "i32", "i64")


def text(kind: str, element: str, count: int = 2, result: str = "", **attributes: int | float | str) -> str:
    names = ("a", "b", "c")[:count]
    made = print_elementwise(ElementwiseOperation(kind, names, (element,) * count, result or element, attributes))
    return made.text


def compiles(kinds: list[tuple[str, str]], body: list[Stmt]) -> None:
    """Fragments of those (name, element), their last values stored, in one kernel."""
    block = Blocked((256,), 2)
    fragments = [(name, element, block) for name, element in kinds]
    axis = (WindowAxis(256, Number(1), Number(0)),)
    stores = [StoreGlobal(Window(f"X{n}", e, axis, Number(0), 0.0), Reg(n)) for n, (_, e) in enumerate(kinds)]
    args = arguments(**{f"X{n}": f"ptr:{element}" for n, (_, element) in enumerate(kinds)})
    printed = print_cuda(simple("k", args, fragments, [*body, *stores]))
    compile_cubin(printed.text, lines=printed.lines)


def test_every_elementwise_operation_of_the_vocabulary_has_a_printer() -> None:
    """erfc is what lowering makes of 1 + erf(x), and sums of parts are a statement of their own."""
    assert set(PRINTERS) == {*ELEMENTWISE, "erfc"} - {"sum_parts"}


def test_an_operation_out_of_the_vocabulary_is_refused() -> None:
    with pytest.raises(exc.UnsupportedInKernel, match="'digamma'"):
        text("digamma", "f32", 1)


def test_the_larger_of_a_float_and_nan_is_the_float_unless_nan_propagates() -> None:
    assert (text("max", "f32"), text("max", "f32", propagate_nan=1)) == ("fmaxf(a, b)", "max_nan(a, b)")
    assert text("clamp", "f32", 3) == "fminf(fmaxf(a, b), c)"


def test_a_lazy_maximum_stays_while_it_grew_by_no_more_than_its_slack() -> None:
    assert text("max", "f32", slack=8.0) == "(b > a + 8.0f ? b : a)"


def test_a_comparison_with_nan_is_false_but_for_ne_unless_it_is_unordered() -> None:
    assert text("compare", "f32", predicate="lt") == "(a < b)"
    assert text("compare", "f32", predicate="lt", unordered=1) == "!(a >= b)"
    assert text("compare", "f32", predicate="ne") == "(a != b)"
    assert text("compare", "f32", predicate="ne", unordered=0) == "(a < b || a > b)"
    assert text("compare", "f32", predicate="eq", unordered=1) == "!(a < b || a > b)"


def test_integers_are_signed_unless_it_is_said() -> None:
    assert text("div", "i32") == "(a / b)"
    assert text("div", "i32", signed=0) == "(i32)((u32)a / (u32)b)"
    assert text("compare", "i64", predicate="lt", signed=0) == "((u64)a < (u64)b)"
    assert text("shr", "i32", signed=0) == "(i32)((u32)a >> b)"
    assert text("max", "i32", signed=0) == "((u32)a > (u32)b ? a : b)"


def test_predicates_become_one_or_minus_one_as_signs_say() -> None:
    assert text("cast", "i1", 1, "f32", signed=0) == "(float)a"
    assert text("cast", "i1", 1, "i32", signed=1) == "(i32)-(i32)a"
    assert text("cast", "i32", 1, "i1") == "(bool)(a & 1)"


def test_results_of_small_types_are_rounded_where_the_operation_can_leave_them() -> None:
    add = ElementwiseOperation("add", ("a", "b"), ("bf16", "bf16"), "bf16", {})
    least = ElementwiseOperation("min", ("a", "b"), ("bf16", "bf16"), "bf16", {})
    cut = ElementwiseOperation("cast", ("a",), ("f32",), "bf16", {"rounding": "rtz"})
    assert [print_elementwise(op).exact for op in (add, least, cut)] == [False, True, True]


@pytest.mark.parametrize("element", FLOATS)
def test_arithmetic_of_floats_compiles(element: str) -> None:
    body: list[Stmt] = [compute(kind, 1, 0) for kind in FUNCTIONS]
    body += [compute(kind, 1, 0, 1) for kind in ("add", "sub", "mul", "div", "rem", "max", "min")]
    body += [compute("fma", 1, 0, 1, 0), compute("clamp", 1, 1, Number(0.0, element), Number(6.0, element))]
    for predicate in ("lt", "le", "gt", "ge", "eq", "ne"):
        body += [compute("compare", 2, 0, 1, predicate=predicate), compute("select", 1, 2, 0, 1)]
    compiles([("x", element), ("y", element), ("p", "i1")],
             [Fill(0, Number(0.5, element)), Fill(1, Number(float("-inf"), element)), *body])  # fmt: skip


@pytest.mark.parametrize("element", INTEGERS)
def test_arithmetic_of_integers_compiles(element: str) -> None:
    kinds = [kind for kind in ("add", "sub", "mul", "and", "or", "xor", "max", "min")]
    kinds += [] if element == "i1" else ["div", "rem", "shl", "shr"]
    body: list[Stmt] = [compute(kind, 1, 1, 0, signed=sign) for kind in kinds for sign in (0, 1)]
    for predicate, sign in itertools.product(("lt", "le", "gt", "ge", "eq", "ne"), (0, 1)):
        body += [compute("compare", 2, 0, 1, predicate=predicate, signed=sign), compute("select", 1, 2, 0, 1)]
    compiles([("x", element), ("y", element), ("p", "i1")],
             [Fill(0, Number(1, element)), Fill(1, Number(-1, element)), *body])  # fmt: skip


def test_every_conversion_compiles() -> None:
    names = [element for element in BYTES if element != UNPACKED]  # of those threads hold none
    pairs = itertools.product(range(len(names)), repeat=2)
    body: list[Stmt] = [Fill(n, Number(1, element)) for n, element in enumerate(names)]
    body += [compute("cast", b, a, signed=sign) for a, b in pairs for sign in (0, 1)]
    for one, other in (("f32", "i32"), ("f64", "i64"), ("bf16", "i16"), ("f16", "bf16"), ("f8e4m3", "i8")):
        body += [compute("bitcast", names.index(b), names.index(a)) for a, b in ((one, other), (other, one))]
    compiles([(f"x_{element}", element) for element in names], body)


def test_divisions_and_roots_are_as_exact_as_the_kernel_says() -> None:
    assert (text("div", "f32"), text("div", "f32", rounding="rn")) == ("div_full(a, b)", "div_rounded(a, b)")
    assert (text("sqrt", "f32", 1), text("sqrt", "f32", 1, rounding="rn")) == ("sqrt_fast(a)", "sqrtf(a)")
    assert text("exp", "f32", 1, accurate=1) == "expf(a)"
    assert text("exp", "f32", 1, subnormal=1) == "ex2_subnormal(a * 1.4426950408889634f)"
    assert text("max", "f64", propagate_nan=1) == "max_nan(a, b)"
    assert literal(float("inf"), "f64") == "(double)infinity()"  # else no function is meant by fmin(a, infinity())
    assert (literal(float("-inf"), "f32"), literal(float("nan"), "f64")) == ("-infinity()", "(double)not_a_number()")


@pytest.mark.parametrize(("kind", "count", "said", "instruction"), [
    ("div", 2, ("rounding", "rn"), "div.rn.f32"), ("sqrt", 1, ("rounding", "rn"), "sqrt.rn.f32"),
    ("exp", 1, ("subnormal", 1), "ex2.approx.f32"), ("div", 2, None, "div.full.f32"),
    ("sqrt", 1, None, "sqrt.approx.ftz.f32"), ("max", 2, ("propagate_nan", 1), "max.NaN.f32"),
])  # fmt: skip
def test_the_instruction_is_the_one_that_triton_compiles_to(
    kind: str, count: int, said: tuple[str, int | str] | None, instruction: str
) -> None:
    block, axis = Blocked((256,), 2), (WindowAxis(256, Number(1), Number(0)),)
    at = Window("X", "f32", axis, Number(0), 0.0)
    work = Compute(kind, tuple(Reg(0) for _ in range(count)), 0, (said,) if said else ())
    body: list[Stmt] = [LoadGlobal(at, 0), work, StoreGlobal(at, Reg(0))]
    printed = print_cuda(simple("k", arguments(X="ptr:f32"), [("x", "f32", block)], body))
    assert instruction in compile_cubin(printed.text, lines=printed.lines).ptx
