"""Promises of what a right program may be off by: products of parts as much as what they leave out, and no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.golden_schedules import machine
from tests.tile.rewrite.test_precision import product, result, tensors
from twill.codegen.emission import extract
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract.inputs import CheckedLaunch
from twill.codegen.verify.abstract.results import Reference, compare, difference
from twill.codegen.verify.abstract.rounding import OF_PARTS, left_out, run_shaken, shaken_results
from twill.codegen.verify.abstract_machine import verify
from twill.exc import UnknownProblem
from twill.kernel.specialization import problem_of
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.tile.interpret.arithmetic import rounded
from twill.tile.interpret.atomics import in_turn
from twill.tile.interpret.sequential import run
from twill.tile.rewrite import precision as rewriting
from twill.tile.rewrite.precision import PARTS, split_mmas

BOUNDS = {
    "bf16x3": 3 * 2.0**-16 + 2 * 2.0**-24 + 2.0**-32,
    "bf16x6": 2 * 2.0**-24 + 2.0**-32,
    "tf32x3": 3 * 2.0**-22 + 2 * 2.0**-33 + 2.0**-44,
}


def verdict(precision: str, form: str, seed: int) -> str:
    """Of a product that is made in a form, beside the product as it was written."""
    program = product(precision)
    data = tensors(program, seed)
    shaken = {name: array.copy() for name, array in data.items()}
    run_shaken(program, (1,), shaken, {}, frozenset())
    moved = shaken["D"].reshape(64, 1024)[:, :64]
    ours = result(split_mmas(product(form)), data)
    return difference(ours.ravel(), result(program, data).ravel(), moved.ravel(), "f32")


@pytest.mark.parametrize("precision", sorted(BOUNDS))
def test_the_bound_is_the_sum_of_the_products_that_are_left_out(precision: str) -> None:
    assert left_out(precision) == BOUNDS[precision] * 2.0**23
    assert left_out("ieee") == 0


@pytest.mark.parametrize("precision", sorted({*PARTS, "tf32"} & {*OF_PARTS, "ieee"}))
@pytest.mark.parametrize("seed", range(3))
def test_a_product_of_parts_is_right_as_it_is_made(precision: str, seed: int) -> None:
    assert verdict(precision, "bf16x3" if precision == "tf32" else precision, seed) == ""


@pytest.mark.parametrize(("precision", "missing"), [("bf16x3", (0, 1)), ("bf16x6", (0, 1)), ("bf16x6", (1, 1)),
                                                    ("tf32x3", (1, 1)), ("ieee", (2, 0))])  # fmt: skip
def test_a_product_that_is_missing_is_found(
    precision: str, missing: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    retained = tuple(pair for pair in PARTS[precision] if pair != missing)
    monkeypatch.setattr(rewriting, "PARTS", {**PARTS, precision: retained})
    assert verdict(precision, precision, seed=0)


def test_what_a_precision_leaves_out_is_too_much_for_a_better_one() -> None:
    assert verdict("bf16x6", "bf16x3", seed=0) and verdict("ieee", "bf16x3", seed=0)


def test_parts_are_bounded_in_the_worst_case_too() -> None:
    """Numbers whose lower parts are as large as they can be and do not cancel: all elements are off one way."""
    program = product("bf16x3")
    worst = np.float32(1 + 2.0**-8 + 2.0**-16)
    data = {name: np.full_like(array, worst if name in "AB" else 0) for name, array in tensors(program).items()}
    exact = 64 * float(worst) ** 2
    off = abs(float(result(split_mmas(program), data)[0, 0]) - exact)
    assert 0.5 * exact * 2.0**-16 < off < exact * BOUNDS["bf16x3"]


def test_sums_that_are_rounded_to_f16_in_every_iteration_may_end_on_either_side() -> None:
    kernel = extract("tests/part_kernels.py", "f16")
    schedule = solve(kernel.graph, machine(), SolveOptions(strategy="heuristic"))
    program = lower(kernel.program, schedule, machine())
    assert verify(program, problem_of(kernel.specialization)) == ()


ADDS = """
import triton
import triton.language as tl

@triton.jit
def adds(x, y, B: tl.constexpr):
    o = tl.arange(0, B)
    tl.atomic_add(y + o % 4, tl.load(x + o).to(y.dtype.element_ty))
"""


@pytest.mark.parametrize(("kind", "element"), [("fp16", "f16"), ("bf16", "bf16"), ("fp32", "f32")])
def test_hundreds_of_sums_at_one_address_may_be_made_in_any_order_and_each_is_made(
    tmp_path: Path, kind: str, element: str
) -> None:
    (tmp_path / "k.py").write_text(ADDS, encoding="utf-8")
    tile = extract(f"{tmp_path / 'k.py'}::adds", sig=("x=*fp32:16", f"y=*{kind}:16"), const=("B=1024",)).program
    rng = np.random.default_rng(0)
    given = {"x": rng.standard_normal(1024).astype(np.float32), "y": np.ones(4, np.float32)}
    expected, shaken = ({name: array.copy() for name, array in given.items()} for _ in range(2))
    run(tile, (1,), expected, {})
    run_shaken(tile, (1,), shaken, {}, frozenset())
    where, inside = np.arange(1024) % 4, np.ones(1024, bool)
    added = rounded(given["x"], element)
    for _ in range(20):
        ours = given["y"].copy()
        in_turn(ours, (where, inside), added, element, rng.permutation(1024))
        assert not difference(ours, expected["y"], shaken["y"], element)
    largest = int(np.argmax(np.abs(added)))
    in_turn(left := given["y"].copy(), (where, inside), np.where(np.arange(1024) == largest, 0, added), element,
            rng.permutation(1024))  # fmt: skip
    assert difference(left, expected["y"], shaken["y"], element)


ONE = """
import triton
import triton.language as tl

@triton.jit
def total(x, y, B: tl.constexpr):
    o = tl.arange(0, B)
    tl.store(y, tl.sum(tl.load(x + o), 0))
"""


@pytest.mark.parametrize(("kind", "element"), [("fp64", np.float64), ("fp32", np.float32)])
def test_a_single_sum_may_be_made_in_any_order_and_is_made(tmp_path: Path, kind: str, element: type[Any]) -> None:
    """One shaken run moves a single number by next to nothing now and then: of 100 sums in another order each is right,
    and one that lacks a term, or is off by a few hundred units, is not."""
    (tmp_path / "k.py").write_text(ONE, encoding="utf-8")
    tile = extract(f"{tmp_path / 'k.py'}::total", sig=(f"x=*{kind}:16", f"y=*{kind}:16"), const=("B=4096",)).program
    unit = f"f{kind[2:]}"
    for seed in range(100):
        rng = np.random.default_rng(seed)
        given = {"x": rng.standard_normal(4096).astype(element), "y": np.zeros(1, element)}
        plain = {name: array.copy() for name, array in given.items()}
        run(tile, (1,), plain, {})
        shaken = shaken_results(tile, (1,), given, {}, frozenset(), plain)["y"]
        parts = rng.permutation(given["x"]).reshape(32, 128)
        total = np.add.accumulate(np.add.accumulate(parts)[-1])[-1:]
        assert not difference(total, plain["y"], shaken, unit)
        assert difference(total - parts[0, 0], plain["y"], shaken, unit)
        assert difference(total + 4096 * 64 * np.finfo(element).eps, plain["y"], shaken, unit)


ONE_AMONG_MANY = """
import triton
import triton.language as tl

@triton.jit
def total(x, y, B: tl.constexpr, N: tl.constexpr):
    o, n = tl.arange(0, B), tl.arange(0, N)
    tl.store(y + n, tl.load(x + n) * 0.1 + tl.where(n == N - 1, tl.sum(tl.load(x + o), 0), 0.0))
"""


def test_one_large_sum_among_small_numbers_is_compared_with_several_shaken_runs(tmp_path: Path) -> None:
    """Of 64 numbers the last one has a sum of 4,096 in it: what roundings move is that one alone, and a single run may
    move it by next to nothing. In 100 other orders it is right, and wrong where it lacks a term."""
    (tmp_path / "k.py").write_text(ONE_AMONG_MANY, encoding="utf-8")
    given_const = ("B=4096", "N=64")
    tile = extract(f"{tmp_path / 'k.py'}::total", sig=("x=*fp32:16", "y=*fp32:16"), const=given_const).program
    asked = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        given = {"x": rng.standard_normal(4096).astype(np.float32) * 1000, "y": np.zeros(64, np.float32)}
        plain = {name: array.copy() for name, array in given.items()}
        run(tile, (1,), plain, {})
        shaken = [
            shaken_results(tile, (1,), given, {}, frozenset(), plain, several=several) for several in (False, True)
        ]
        launch = CheckedLaunch((1,), given, {})

        def farthest(made: Any = shaken[1]) -> Any:
            nonlocal asked
            asked += 1
            return made

        parts = rng.permutation(given["x"]).reshape(32, 128)
        total = np.add.accumulate(np.add.accumulate(parts)[-1])[-1]
        reference = Reference(plain, shaken[0], farthest=farthest)
        for missing in (0.0, 100.0):
            found = {**plain, "y": plain["y"].copy()}
            found["y"][63] = given["x"][63] * np.float32(0.1) + np.float32(total - missing)
            assert bool(list(compare(tile, launch, found, reference))) == bool(missing)
    assert 100 < asked < 150  # for each that is wrong, and for some others


BY_FLOATS = """
import triton
import triton.language as tl

@triton.jit
def k(x, f, y):
    i = tl.arange(0, 64)
    begin = (tl.load(f) / 3.0).to(tl.int32)
    tl.store(y + i, tl.load(x + begin + i))
"""


def test_an_address_that_leaves_its_tensor_for_other_roundings_is_told(tmp_path: Path) -> None:
    """9 / 3 is 3, and one unit in the last place less is 2, in front of which begins nothing that the launch has."""
    (tmp_path / "k.py").write_text(BY_FLOATS)
    tile = extract(f"{tmp_path / 'k.py'}::k", sig=("x=*fp32:16", "f=*fp32:16", "y=*fp32:16")).program
    given = {"x": np.ones(67, np.float32), "f": np.full(1, 9 - 2.0**-20, np.float32), "y": np.zeros(64, np.float32)}
    plain = {name: array.copy() for name, array in given.items()}
    run(tile, (1,), plain, {})
    short = {**given, "x": given["x"][:66]}  # as many as there are from 2 on
    with pytest.raises(
        UnknownProblem, match="an address of `k` is computed from floats, and with other roundings it is outside"
    ):
        for draw in range(64):
            shaken_results(tile, (1,), {**short, "f": given["f"] + np.float32(draw * 2.0**-24)}, {}, frozenset(), plain)
