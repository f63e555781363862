"""Promises of steady states that change once: both are reached, in full tiles."""

from __future__ import annotations

from functools import cache

import pytest

from tests.kernels import H100
from tests.lowered import scheduled
from twill.codegen.emission import extract
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract.index_set_splitting import SplitPipeline, split_pipelines
from twill.codegen.verify.abstract_machine import CheckedLaunch, trials
from twill.codegen.warp.expression import Apply, Element, Local, Number, ProgramId
from twill.codegen.warp.program import WarpProgram

pytestmark = pytest.mark.usefixtures("at_root")

TILE = 128


@cache
def causal() -> WarpProgram:
    """Attention at any length, in tiles of 128 rows and 32 keys, four blocks of which are masked."""
    sizes = {"q": TILE, "k": 32, "v": 32, "o": TILE}
    sig = [f"{name}_desc=tensordesc<bf16[1, {size}, 64]>" for name, size in sizes.items()]
    const = (f"BLOCK_M={TILE}", "BLOCK_N=32", "HEAD_DIM=64")
    program = extract("examples/attention_any_length.py", "causal-d64", sig=sig, const=const).program
    return lower(program, scheduled(program), H100)


def steps(launch: CheckedLaunch) -> set[tuple[int, int]]:
    return {pair for switch in split_pipelines(causal()) for pair in switch.steps(launch.scalars, launch.grid)}


def test_warp_groups_that_change_alike_have_one_switch() -> None:
    assert len(split_pipelines(causal())) == 1


def test_both_steady_states_are_reached_in_full_tiles() -> None:
    launches = [trial.launch for trial in trials(causal())]
    full = set().union(*(steps(launch) for launch in launches if not launch.scalars["N_CTX"] % TILE))
    assert {min(early, 2) for early, _ in full} >= {0, 2} and all(late for _, late in full)


def test_steps_are_counted_behind_the_prologue() -> None:
    until = Apply("compare", (Local("k"), Local("edge")), "i1", (("predicate", "ge"), ("signed", 1)))
    switch = SplitPipeline((("edge", ProgramId(0)),), "k", 1, Number(6), until)
    assert [*switch.steps({}, (8,))] == [(0, 5), (0, 5), (1, 4), (2, 3), (3, 2), (4, 1), (5, 0), (5, 0)]


def test_what_depends_on_loaded_values_is_not_foreseen() -> None:
    until = Apply("compare", (Local("k"), Element(3, "i32")), "i1", (("predicate", "ge"), ("signed", 1)))
    assert [*SplitPipeline((), "k", 0, Number(6), until).steps({}, (8,))] == []
