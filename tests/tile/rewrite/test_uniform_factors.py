"""Promises of `twill.tile.rewrite.uniform_factors`: uniform factors and summands are applied once, where that saves
anything."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import ROOT
from twill.codegen.emission import extract
from twill.manifest.document import POSITIVE
from twill.tile.interpret.sequential import run
from twill.tile.program import Loop, Op, TileProgram, walk
from twill.tile.rewrite.pipeline import Allowed
from twill.tile.rewrite.uniform_factors import PROMISED, collect_factors, work

FILE = str(ROOT / "tests" / "linear_kernels.py")
SIG = ("X=*fp32:16", "Y=*fp32:16", "scale=fp32", "end=i32")
BLOCK = 16


@cache
def written(kernel: str) -> TileProgram:
    return extract(
        f"{FILE}::{kernel}", sig=SIG, const=(f"BLOCK={BLOCK}",), allowed=Allowed("none", conditional=False)
    ).program


@cache
def promised(kernel: str) -> TileProgram:
    sig = (*SIG[:2], "scale=fp32:positive", SIG[3])
    return extract(
        f"{FILE}::{kernel}", sig=sig, const=(f"BLOCK={BLOCK}",), allowed=Allowed("none", conditional=False)
    ).program


@cache
def made(kernel: str) -> TileProgram:
    return collect_factors(written(kernel))


def on_tiles(program: TileProgram) -> Counter[str]:
    """Operations of the loop on whole tiles."""
    (loop,) = (item for item in program.body if isinstance(item, Loop))
    return Counter(op.kind for op in walk(loop.body) if op.results and len(program.type_of(op.results[0]).shape) == 2)


def result(program: TileProgram, end: int, scale: float = 0.7) -> np.ndarray:
    memory = np.random.default_rng(1).standard_normal(BLOCK * 128).astype(np.float32)
    tensors = {"X": memory, "Y": np.zeros(2 * BLOCK, np.float32)}
    run(program, (1,), tensors, {"scale": scale, "end": end})
    return tensors["Y"]


@pytest.mark.parametrize("kernel", ["capped", "subtracted", "turned"])
@pytest.mark.parametrize("end", [0, 1, 16, 40, 112])
def test_the_result_is_the_same_up_to_rounding(kernel: str, end: int) -> None:
    assert made(kernel) is not written(kernel) and made(kernel).regrouped
    np.testing.assert_allclose(result(made(kernel), end), result(written(kernel), end), rtol=2e-5)


@pytest.mark.parametrize("scale", [-3.0, 0.0, 40.0])
def test_any_scale_will_do(scale: float) -> None:
    """Its sign is not known before the launch."""
    np.testing.assert_allclose(result(made("capped"), 40, scale), result(written("capped"), 40, scale), rtol=2e-5)


def test_a_soft_capped_score_takes_one_multiplication_before_and_one_multiply_add_behind() -> None:
    before, after = on_tiles(written("capped")), on_tiles(made("capped"))
    assert (before["mul"], before["exp"]) == (4, 1)
    assert before["neg"] + before["sub"] == 3  # Triton up to 3.8 spells -x as 0 - x
    assert (after["mul"], after["neg"], after["exp"], after["sub"]) == (1, 0, 0, 0)
    assert (after["fma"], after["exp2"], after["add"], after["div"], after["select"]) == (1, 2, 1, 1, 1)


def test_a_maximum_of_what_a_negative_factor_turned_round_stays_behind_it() -> None:
    (loop,) = (item for item in made("turned").body if isinstance(item, Loop))
    kinds = [op.kind for op in walk(loop.body)]
    assert kinds.index("fma") < kinds.index("reduce") and "mul" not in on_tiles(made("turned"))


def test_a_maximum_is_taken_in_front_of_a_factor_that_is_promised_to_be_positive() -> None:
    assert made("scaled") is written("scaled")
    program = collect_factors(promised("scaled"))
    before, after = on_tiles(promised("scaled")), on_tiles(program)
    assert (before["mul"], after["mul"], after["select"], after["sub"]) == (1, 1, 1, 1)
    (loop,) = (item for item in program.body if isinstance(item, Loop))
    kinds = [op.kind for op in walk(loop.body)]
    assert kinds.index("select") < kinds.index("reduce") < kinds.index("mul", kinds.index("select"))
    assert work(program) < work(promised("scaled"))  # the multiplication is part of the subtraction's instruction


@pytest.mark.parametrize("scale", [2.0**-32, 0.7, 3.0, 2.0**32])
@pytest.mark.parametrize("end", [0, 1, 16, 40])
def test_a_promised_factor_gives_the_same_result(scale: float, end: int) -> None:
    found, wanted = (result(one, end, scale) for one in (collect_factors(promised("scaled")), promised("scaled")))
    np.testing.assert_allclose(found, wanted, rtol=2e-5)


def test_what_is_relied_on_is_what_launches_are_held_to() -> None:
    assert PROMISED == POSITIVE


def test_promised_factors_that_might_overflow_together_stay_where_they_are() -> None:
    assert collect_factors(promised("scaled_often")) is promised("scaled_often")


def test_factors_that_might_overflow_together_stay_apart() -> None:
    assert made("far") is written("far")


def test_what_is_read_on_the_way_saves_nothing() -> None:
    assert made("read_between") is written("read_between")


def test_the_window_computes_less(at_root: Path) -> None:
    program = extract("examples/sliding_window_attention.py", allowed=Allowed("none")).program
    assert work(collect_factors(program)) < 0.75 * work(program)


KEPT = ("masked_far", "masked_far_with_promise", "masked_at_infinity", "masked_by_nothing", "to_integers",
        "to_fewer_bits", "far_from_vectors")  # fmt: skip


@pytest.mark.parametrize("kernel", KEPT)
@pytest.mark.parametrize("end", [16, 40])
def test_what_overflows_vanishes_or_is_rounded_away_does_so_still(kernel: str, end: int) -> None:
    """Minus infinity in place of the least number would make a masked block NaN; a sum that cancels would not round."""
    for program in (written(kernel), promised(kernel)):
        found, wanted = result(collect_factors(program), end), result(program, end)
        assert np.isfinite(wanted).all()
        np.testing.assert_allclose(found, wanted, rtol=2e-5)


def test_minus_infinity_moves_in_front_of_a_line_and_the_least_number_does_not() -> None:
    """What a select chooses instead, after all factors and summands that are collected."""
    for kernel, moves in (("masked_at_infinity", True), ("masked_far", False), ("masked_far_with_promise", False)):
        program = collect_factors(promised(kernel))
        (loop,) = (item for item in program.body if isinstance(item, Loop))
        kinds = [op.kind for op in walk(loop.body)]
        assert ("fma" not in kinds[: kinds.index("select")] and "mul" not in kinds[: kinds.index("select")]) == moves


def test_an_operation_that_says_how_it_rounds_is_left_alone() -> None:
    def exact(item: Op | Loop) -> Op | Loop:
        if isinstance(item, Loop):
            return replace(item, body=tuple(map(exact, item.body)))
        return replace(item, attributes=(("rounding", "rn"),)) if item.kind in ("div", "mul") else item

    program = replace(written("subtracted"), body=tuple(map(exact, written("subtracted").body)))
    before, after = on_tiles(program), on_tiles(collect_factors(program))
    assert (after["div"], after["mul"]) == (before["div"], before["mul"])
    assert on_tiles(made("subtracted"))["div"] < before["div"]
