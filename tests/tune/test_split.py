"""Promises of `twill.tune.split`: parts where tiles leave SMs idle, and none where they do not."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.kernels import H100
from twill.cli.tune import Built, tuning_of
from twill.codegen.emission import Extracted, extract
from twill.kernel.problem import Case
from twill.kernel.specialization import problem_of
from twill.schedule.document import Schedule
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.tune.explore import ExploreRequest, explore
from twill.tune.split import best_parts, fills, size_of_sums, split_cycles

pytestmark = pytest.mark.usefixtures("at_root")


@cache
def kernel() -> Extracted:
    return extract("examples/gemm.py", "bf16", split=2)


@cache
def schedule() -> Schedule:
    return solve(kernel().graph, H100, SolveOptions(strategy="heuristic", blocks=1, fuse=False))


def case(m: int, n: int, k: int) -> Case:
    problem = problem_of(kernel().specialization)
    assert problem is not None
    return problem.case({"M": m, "N": n, "K": k})


def parts(m: int, n: int, k: int) -> int:
    return best_parts(kernel(), schedule(), H100, [case(m, n, k)])[0]


def test_few_tiles_of_a_long_k_get_as_many_parts_as_fill_the_gpu() -> None:
    """64 tiles for 132 SMs; 144 tiles, of which 12 would have a wave of their own."""
    assert not fills(case(1024, 1024, 65536), H100)
    assert parts(1024, 1024, 65536) in (2, 4, 6)
    assert parts(2304, 1024, 63488) > 4


def test_many_tiles_are_not_split_and_neither_is_a_short_k() -> None:
    assert fills(case(8192, 8192, 4096), H100)
    assert parts(8192, 8192, 4096) == 1
    assert parts(1024, 1024, 128) == 1


def test_parts_cost_the_way_through_the_workspace() -> None:
    """Of a tile that fills the SMs anyway, twice the parts are twice the traffic and gain nothing."""
    assert size_of_sums(kernel()) == 4 * 128 * 128
    full = case(128 * 12, 128 * 11, 8192)
    one, two, four = (split_cycles(kernel(), schedule(), H100, full, count) for count in (1, 2, 4))
    assert one < two < four


def test_tuning_tries_parts_for_tiles_that_leave_sms_idle_and_emits_what_won() -> None:
    values = {"BLOCK_M": (128,), "BLOCK_N": (128,), "GROUP_M": (8,)}
    options = SolveOptions(blocks=1, fuse=False)
    asked = ExploreRequest(
        "examples/gemm.py", values=values, sizes=({"M": 512, "N": 512, "K": 16384},), options=options
    )
    found = explore(asked, H100)
    (split,) = (one for one in found.candidates if one.split > 1)
    assert split.name.endswith(f"K in {split.split} parts")
    assert split.predicted[0] < found.candidates[0].predicted[0] / 2
    default = found.candidates[0]
    emitted = {default.name: Built(Path(), default.schedule)}
    tried = next(one for one in tuning_of(found, emitted, {}, None, H100).tried if one.name == split.name)
    assert tried.split == split.split
