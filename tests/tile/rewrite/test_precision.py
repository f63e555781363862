"""Promises of `twill.tile.rewrite.precision`: products that the tensor core does not have, of those that it has."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tile_programs import Programs
from twill import exc
from twill.tile.interpret.arithmetic import HELD, apply
from twill.tile.interpret.sequential import run
from twill.tile.program import Op, TileProgram
from twill.tile.rewrite.precision import INSTEAD, PARTS, split_mmas

M, N, K = 64, 64, 64
FORMS = sorted(PARTS)


def product(
    precision: str = "ieee", element: str = "f32", result: str = "f32", turned: bool = False, computed: bool = False,
    shape: tuple[int, int, int] = (M, N, K), addend: bool = True, imprecise: int = 0,
) -> TileProgram:  # fmt: skip
    """C += A·B of one tile. turned: B lies along K. computed: A is twice what memory has."""
    m, n, k = shape
    p = Programs()
    for name, kind in (("A", element), ("B", element), ("C", result), ("D", result)):
        p.argument(name, f"ptr:{kind}")
    a = p.load("A", (m, k), element)
    if computed:
        a = p.op("mul", a, p.constant(2.0, (m, k), element), name="twice")
    b = p.load("B", (n, k) if turned else (k, n), element)
    if turned:
        b = p.op("transpose", b, shape=(k, n), order=(1, 0))
    operands = (a, b, p.load("C", (m, n), result)) if addend else (a, b)
    made = p.op("dot", *operands, shape=(m, n), element=result, name="c", precision=precision, imprecise=imprecise)
    p.store("D", made)
    return p.done()


def products(program: TileProgram) -> list[Op]:
    return [op for op in program.ops() if op.kind == "dot"]


def elements(program: TileProgram) -> list[str]:
    """Of the operands of each product."""
    return [program.type_of(op.operands[0]).element for op in products(program)]


def tensors(program: TileProgram, seed: int = 0, wide: bool = False) -> dict[str, np.ndarray]:
    """Flat tensors with rows of 1024 elements."""
    random, found = np.random.default_rng(seed), {}
    for argument in program.arguments:
        element = argument.type.element.removeprefix("ptr:")
        if element.startswith("i"):
            found[argument.name] = random.integers(-128, 128, 64 * 1024).astype(HELD[element])
            continue
        numbers = random.standard_normal(64 * 1024)
        if wide:
            numbers *= np.exp2(random.integers(-12, 13, numbers.shape))
        exact = numbers.astype(np.float32)
        found[argument.name] = apply("cast", [exact], element, {}, ["f32"]) if element != "f32" else exact
    return found


def result(program: TileProgram, data: dict[str, np.ndarray]) -> np.ndarray:
    """D as the program computes it."""
    own = {name: array.copy() for name, array in data.items()}
    run(program, (1,), own, {})
    return np.asarray(own["D"].reshape(64, 1024)[:, :N])


def tile(data: dict[str, np.ndarray], name: str) -> np.ndarray:
    return np.asarray(data[name].reshape(64, 1024)[:, :64], np.float64)


@pytest.mark.parametrize("precision", FORMS)
def test_a_precision_is_products_of_parts_from_the_least_to_the_greatest(precision: str) -> None:
    made = split_mmas(product(precision))
    assert elements(made) == ["bf16"] * len(PARTS[precision])
    names = [tuple(made.values[v].name.rpartition("_")[2] for v in op.operands[:2]) for op in products(made)]
    sizes = [sum({"hi": 0, "mid": 1, "lo": 2}[name] for name in pair) for pair in names]
    assert sizes == sorted(sizes, reverse=True) and names[-1] == ("hi", "hi")
    assert [dict(op.attributes).get(INSTEAD) for op in products(made)][-1] == precision


@given(st.floats(width=32, allow_nan=False, allow_infinity=False).filter(lambda x: x == 0 or abs(x) > 2.0**-100))
def test_three_parts_hold_a_number_exactly(number: float) -> None:
    """hi rounded towards zero, as for ieee: the largest f32 rounded to nearest would be an infinite bf16."""
    left, parts = np.float32(number), []
    for rounding in ("rtz", "rn", "rn"):
        attributes = {"rounding": "rtz"} if rounding == "rtz" else {}
        parts.append(np.float32(apply("cast", [left], "bf16", attributes, ["f32"])))
        left = np.float32(left - parts[-1])
    assert left == 0 and sum(map(float, parts)) == number and math.isfinite(parts[0])


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(("precision", "digits"), [("bf16x3", 15), ("tf32x3", 22), ("bf16x6", 22), ("ieee", 22)])
def test_errors_are_those_that_the_table_says(precision: str, digits: int, wide: bool) -> None:
    """Beside the sum's own, in float32: 64 roundings of less than 2^-24 each, which are 2^-22 on the mean."""
    program = product(precision)
    data = tensors(program, wide=wide)
    a, b = tile(data, "A"), tile(data, "B")
    error = np.abs(result(split_mmas(program), data) - (tile(data, "C") + a @ b))
    assert np.sqrt(np.mean((error / (np.abs(tile(data, "C")) + np.abs(a) @ np.abs(b))) ** 2)) < 2.0**-digits


def test_ieee_is_as_exact_as_a_sum_in_float32() -> None:
    program = product("ieee")
    data = tensors(program, wide=True)
    exact = tile(data, "C") + tile(data, "A") @ tile(data, "B")
    ours = np.abs(result(split_mmas(program), data) - exact)
    total = np.float32(0)
    for k in range(K):  # one after the other, each product exact and each sum rounded
        total = (total + tile(data, "A")[:, k : k + 1] * tile(data, "B")[k : k + 1]).astype(np.float32)
    theirs = np.abs((total + tile(data, "C").astype(np.float32)).astype(np.float64) - exact)
    assert np.sqrt(np.mean(ours**2)) <= 1.2 * np.sqrt(np.mean(theirs**2))


@pytest.mark.parametrize("precision", FORMS)
def test_whole_numbers_are_exact(precision: str) -> None:
    program = product(precision)
    data = {name: np.round(array * 50) for name, array in tensors(program).items()}
    assert np.array_equal(result(split_mmas(program), data), tile(data, "C") + tile(data, "A") @ tile(data, "B"))


@pytest.mark.parametrize("precision", FORMS)
def test_an_infinite_operand_is_infinite_times_what_has_no_lower_parts(precision: str) -> None:
    program = product(precision)
    data = tensors(program)
    a, b = (data[name].reshape(64, 1024) for name in ("A", "B"))
    a[:, 7], b[7, 3], b[7, 4], a[5, 9], b[9, 5] = 1.0, np.inf, -np.inf, np.nan, 0.0
    found = result(split_mmas(program), data)
    rows = np.arange(64) != 5
    assert np.all(found[rows, 3] == np.inf) and np.all(found[rows, 4] == -np.inf)
    assert np.all(np.isnan(found[5])) and np.all(np.isfinite(found[rows][:, 10:]))


def test_ieee_has_the_largest_numbers() -> None:
    program = product("ieee", addend=False)
    data = {name: np.zeros_like(array) for name, array in tensors(program).items()}
    data["A"].reshape(64, 1024)[0, 0], data["B"].reshape(64, 1024)[0, 0] = np.finfo(np.float32).max, 1.0
    assert result(split_mmas(program), data)[0, 0] == np.finfo(np.float32).max


def test_tf32_of_tiles_that_lie_along_k_stays() -> None:
    program = product("tf32", turned=True)
    assert split_mmas(program) is program


@pytest.mark.parametrize("options", [{"turned": False}, {"turned": True, "computed": True}])
def test_tf32_of_other_tiles_is_three_products(options: dict[str, bool]) -> None:
    made = split_mmas(product("tf32", **options))  # type: ignore[arg-type]
    assert elements(made) == ["bf16"] * 3 and dict(products(made)[-1].attributes)[INSTEAD] == "tf32"


def test_b_with_few_rows_is_converted_as_its_transpose() -> None:
    made = split_mmas(product("bf16x3", shape=(64, 64, 32)))
    assert [made.type_of(op.results[0]).shape for op in made.ops() if op.kind == "transpose"][0] == (64, 32)
    data = tensors(made)
    own = result(made, data)
    a, b = tile(data, "A")[:, :32], tile(data, "B")[:32]
    assert np.allclose(own, tile(data, "C") + a @ b, rtol=0, atol=1e-3)


def test_parts_of_an_operand_are_made_once() -> None:
    p = Programs()
    for name in ("A", "B", "C", "D"):
        p.argument(name, "ptr:f32")
    a, b = p.load("A", (64, 64), "f32"), p.load("B", (64, 64), "f32")
    first = p.op("dot", a, b, shape=(64, 64), precision="bf16x3")
    p.store("C", first)
    p.store("D", p.op("dot", b, a, shape=(64, 64), precision="bf16x3"))
    made = split_mmas(p.done())
    narrow = [op for op in made.ops() if op.kind == "cast" and made.type_of(op.results[0]).element == "bf16"]
    assert len(narrow) == 4 and len(products(made)) == 6


def test_parts_of_what_a_loop_does_not_change_stand_before_it() -> None:
    p = Programs()
    for name in ("A", "B", "C"):
        p.argument(name, "ptr:f32")
    trips = p.argument("trips")
    a = p.load("A", (64, 64), "f32")
    with p.loop(trips, [p.constant(0.0, (64, 64), "f32")]) as k:
        b = p.load("B", (64, 64), "f32", at=(k.i * 64, 0))
        k.yields = [p.op("dot", a, b, k.carried[0], precision="bf16x3")]
    p.store("C", k.results[0])
    made = split_mmas(p.done())
    outside = [op for op in made.body if isinstance(op, Op) and op.kind == "cast"]
    assert {made.values[op.results[0]].name for op in outside} == {"A_hi", "A_mid"}


@pytest.mark.parametrize(("turned", "every", "operand", "added"), [
    (True, 1 << 30, "f8e4m3", False), (True, 64, "f8e4m3", True), (True, 32, "f16", False),
    (False, 1 << 30, "f16", False),
])  # fmt: skip
def test_8_bit_floats_are_summed_no_less_exactly_than_asked(
    turned: bool, every: int, operand: str, added: bool
) -> None:
    program = product(element="f8e4m3", turned=turned, imprecise=every)
    made = split_mmas(program)
    assert elements(made) == [operand] and ("add" in [op.kind for op in made.ops()]) == added
    data = tensors(program)
    assert np.allclose(result(made, data), result(program, data), rtol=0, atol=1e-4)


def test_integers_are_exact() -> None:
    program = product(element="i8", result="i32")
    made = split_mmas(program)
    assert elements(made) == ["bf16"]
    data = tensors(program)
    for name in "AB":
        data[name][::3] = -128  # the largest sums there are
    exact = tile(data, "A") @ tile(data, "B") + tile(data, "C")
    assert np.array_equal(result(made, data), exact.astype(np.int32))


def test_an_accumulator_of_f16_is_one_of_f32_that_is_rounded() -> None:
    program = product(element="f16", result="f16")
    made = split_mmas(program)
    assert [made.type_of(op.results[0]).element for op in products(made)] == ["f32"]
    assert [made.type_of(op.results[0]).element for op in made.ops() if op.kind == "cast"] == ["f32", "f16"]


@pytest.mark.parametrize(("program", "words"), [
    (product("fp32x9"), "input precision fp32x9"),
    (product(element="f64", result="f64"), "a product of f64"),
    (product(element="i8", result="i32", shape=(64, 64, 2048)), "over 2048 columns"),
])  # fmt: skip
def test_what_cannot_be_kept_is_refused_at_its_line(program: TileProgram, words: str) -> None:
    with pytest.raises(exc.UnsupportedMma, match=words) as caught:
        split_mmas(program)
    (dot,) = products(program)
    assert caught.value.line == dot.line and caught.value.file == "k.py" and caught.value.hint


def test_types_that_do_not_multiply_are_refused() -> None:
    program = product(element="bf16")
    values = tuple(
        replace(v, type=replace(v.type, element="i8")) if v.id == products(program)[0].operands[1] else v
        for v in program.values
    )
    with pytest.raises(exc.UnsupportedMma, match="bf16 and i8"):
        split_mmas(replace(program, values=values))
