"""Promises of `twill.tune.family`: a member's cost says in front of a launch what exploring predicted."""

from __future__ import annotations

import math
from functools import cache

import pytest

from tests.kernels import H100
from twill.codegen.emission import Extracted, extract
from twill.kernel.specialization import problem_of
from twill.manifest.family import Family, read_family
from twill.schedule.document import Schedule
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.tune.family import cost_of, family_of
from twill.tune.predict import predicted_cycles
from twill.tune.split import split_cycles

pytestmark = pytest.mark.usefixtures("at_root")


@cache
def solved(split: int = 1) -> tuple[Extracted, Schedule]:
    kernel = extract("examples/gemm.py", "bf16", split=split)
    return kernel, solve(kernel.graph, H100, SolveOptions(strategy="heuristic", blocks=1, fuse=False))


@pytest.mark.parametrize(("m", "k"), [(1024, 4096), (1000, 1000), (8192, 64)])
def test_a_cost_says_what_exploring_predicts(m: int, k: int) -> None:
    kernel, schedule = solved()
    problem, cost = problem_of(kernel.specialization), cost_of(kernel, schedule, H100)
    assert problem is not None and cost is not None
    case = problem.case({"M": m, "N": 1024, "K": k})
    sms = int(H100.sms.value)
    assert cost.cycles(math.prod(case.grid), sms, {"K": k}) == predicted_cycles(kernel, schedule, H100, case)


def test_parts_cost_what_exploring_predicts_of_them() -> None:
    """But for the latency of the last part's reads, and parts with fewer iterations than the others."""
    kernel, schedule = solved(split=2)
    problem, cost = problem_of(kernel.specialization), cost_of(kernel, schedule, H100)
    assert problem is not None and cost is not None
    case = problem.case({"M": 512, "N": 1024, "K": 8192})
    for parts in (1, 2, 4, 8):
        said = cost.cycles(math.prod(case.grid), int(H100.sms.value), {"K": 8192}, parts)
        assert said == pytest.approx(split_cycles(kernel, schedule, H100, case, parts), rel=0.04)


def test_of_a_loop_whose_iterations_depend_on_the_instance_nothing_is_said() -> None:
    kernel = extract("examples/attention.py", "causal")
    schedule = solve(kernel.graph, H100, SolveOptions(strategy="heuristic", fuse=False))
    cost = cost_of(kernel, schedule, H100)
    assert cost is None or cost.cycles(10, 132, {"N_CTX": 1024}) is None


def test_a_family_is_read_as_it_was_written(tmp_path: object) -> None:
    from pathlib import Path

    assert isinstance(tmp_path, Path)
    kernel, schedule = solved()
    made = family_of([("00", kernel, schedule, 1), ("01", *solved(split=2), 2)], H100)
    (tmp_path / "family.json").write_text(made.text())
    assert read_family(tmp_path) == made
    assert isinstance(made.without(frozenset({"01"})), Family)
    assert [one.folder for one in made.without(frozenset({"01"})).members] == ["00"]
