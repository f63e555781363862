"""Promises of the data that launches are made with: what operations tell apart is among it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.golden_schedules import Example, kernel, lowered
from tests.tile_programs import Programs
from twill.codegen.verify.abstract.data import (
    CREEP,
    EVERY,
    FACTOR,
    finite_in_products,
    free_integers,
    tells_floats_apart,
    tensor,
)
from twill.codegen.verify.abstract.inputs import launch, launches
from twill.codegen.verify.abstract_machine import run
from twill.kernel.specialization import problem_of
from twill.tile.interpret.arithmetic import rounded


@pytest.mark.parametrize("element", ["f32", "f16", "bf16", "f8e5m2", "f64"])
def test_awkward_floats_are_among_a_tensor_s_numbers(element: str) -> None:
    made = tensor(np.random.default_rng(1), 4 * EVERY, element, 1, "awkward", free=False)
    finite = made[~np.isinf(made)]  # rounding to 8 bits saturates
    np.testing.assert_array_equal(finite, rounded(finite, element))
    assert np.isnan(made).sum() in range(1, 9)
    assert (np.signbit(made) & (made == 0)).any()
    assert (made == np.inf).any() and (made == -np.inf).any()
    if element in ("f32", "f16", "bf16", "f64"):
        normal = {"f32": 2.0**-126, "bf16": 2.0**-126, "f16": 2.0**-14, "f64": 2.0**-1022}[element]
        assert ((made != 0) & (np.abs(made) < normal)).any()


def test_integers_that_nothing_depends_on_may_be_any() -> None:
    made = tensor(np.random.default_rng(1), 4 * EVERY, "i32", 1, "awkward", free=True)
    assert {-(2**31), 2**31 - 1, -1} <= set(made.tolist()) and (made < 0).sum() > EVERY
    few = tensor(np.random.default_rng(1), EVERY, "i32", 1, "awkward", free=False)
    assert set(few.tolist()) <= set(range(8))


def test_creeping_floats_grow_and_shrink() -> None:
    made = tensor(np.random.default_rng(1), 1 << 14, "f32", 1, "creeping", free=False)
    first, middle, last = np.std(made[:1000]), np.std(made[7700:8700]), np.std(made[-1000:])
    assert first < 0.3 and abs(middle - CREEP) < 0.4 and last < 0.3


def test_integers_that_address_memory_or_bound_a_loop_are_no_data() -> None:
    p = Programs()
    x = p.load("X", (16, 16), "i32")
    p.store("Y", p.reduce(x, 1, "max"))
    bounded = Programs()
    trips = bounded.op("mul", bounded.load("TRIPS", (), "i32"), bounded.constant(2))
    with bounded.loop(trips, [bounded.constant(0, (16,))]) as n:
        n.yields = [bounded.op("add", n.carried[0], bounded.load("X", (16,), "i32", at=(n.i,)))]
    bounded.store("Y", n.results[0])
    assert free_integers(p.done()) == free_integers(bounded.done()) == {"X"}


@pytest.mark.usefixtures("at_root")
@pytest.mark.parametrize(("file", "spec", "apart"), [("attention", "causal", True), ("gemm", "bf16", False)])
def test_kernels_that_take_maxima_tell_floats_apart(file: str, spec: str, apart: bool) -> None:
    assert tells_floats_apart(kernel(Example(f"examples/{file}.py", spec)).program) == apart


@pytest.mark.usefixtures("at_root")
def test_creeping_maxima_move_a_little_in_some_warps_and_not_in_others() -> None:
    """So that what is done where they move, and what is left out where they do not, meet in the same rows."""
    example = Example("examples/attention.py", "full-d256")
    program = lowered(example)
    (creeping,) = (launch for launch in launches(program) if launch.text.endswith("creeping data"))
    factors: list[float] = []

    def watch(actor, stmt) -> None:  # type: ignore[no-untyped-def]
        if "vote" in dict(getattr(stmt, "attributes", ())):
            (vector,) = (operand for operand in stmt.operands if getattr(operand, "axes", ()))
            factors.extend(np.ravel(actor.fragments.values[vector.fragment]).tolist())

    run(program, creeping, watch=watch)
    moved = [factor for factor in factors if factor != 1]
    assert moved and len(moved) < len(factors)
    assert [factor for factor in moved if factor > 2.0**-14]


def test_large_numbers_of_matrices_are_made_smaller_and_nothing_else_is(at_root: object) -> None:
    """Sums that overflow on their way have no one right result; what is no number or infinite stays so."""
    given = {"q_desc": np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, -0.0, 2.5], np.float32), "n": np.arange(3)}
    multiplied = finite_in_products(kernel(Example("examples/attention.py", "full")).program, given)
    wanted = np.array([np.nan, np.inf, -np.inf, FACTOR, -FACTOR, -0.0, 2.5], np.float32)
    assert multiplied["q_desc"].tobytes() == wanted.tobytes() and multiplied["n"] is given["n"]
    assert finite_in_products(kernel(Example("examples/layer_norm.py", "bf16")).program, given) is given


def test_launches_of_products_have_no_larger_ones(at_root: object) -> None:
    """Of weights of int8, one was called wrong: its row blocks overflowed, each in its own order."""
    example = kernel(Example("examples/gemm.py", "bf16"))
    problem = problem_of(example.specialization)
    assert problem is not None
    made = launch(example.program, problem.case({"M": 128, "N": 128, "K": 64}), data="awkward").arrays["a_desc"]
    finite = np.abs(made[np.isfinite(made)].astype(np.float64))
    assert finite.max() == FACTOR and np.isnan(made).any() and np.isinf(made).any()
