"""Promises of `twill.graph.combined_results`: products whose results meet behind their loop are made where they
meet."""

from __future__ import annotations

import pytest

from tests.golden_schedules import Example, kernel, machine, schedule
from twill.graph.combined_results import combined_results
from twill.graph.cost import cost
from twill.graph.costed import Cooperation
from twill.graph.dependence import Region
from twill.machine.file import load_machine

pytestmark = pytest.mark.usefixtures("at_root")

GATED = Example("examples/dual_gemm.py", "bf16")


def main_loop(example: Example) -> Region:
    return next(region for region in kernel(example).graph.regions if region.kind == "loop")


def test_both_products_of_a_gated_layer_have_one_tag() -> None:
    loop = main_loop(GATED)
    mmas = [node.id for node in loop.nodes if node.mma is not None]
    tags = combined_results(kernel(GATED).graph, loop, machine())
    assert sorted(tags) == mmas and len(mmas) == 2 and len(set(tags.values())) == 1


@pytest.mark.parametrize("spec", ["examples/attention.py causal", "examples/attention_backward.py full"])
def test_products_that_meet_in_the_loop_or_nowhere_have_none(spec: str) -> None:
    """Attention's products feed one another; the two gradients of its backward pass are stored apart."""
    example = Example(*spec.split())
    assert all(
        not combined_results(kernel(example).graph, region, machine()) for region in kernel(example).graph.regions
    )


def test_accumulators_in_tensor_memory_are_read_from_anywhere() -> None:
    assert not combined_results(kernel(GATED).graph, main_loop(GATED), load_machine("b200"))


def test_each_row_block_meets_by_itself() -> None:
    graph = cost(kernel(GATED).graph, main_loop(GATED), machine(), Cooperation(dim="m", split=2, fuse=1))
    tags = [(i.block, i.single_issuer) for i in graph.instructions if i.op == "dot"]
    assert len(tags) == 4 and len(set(tags)) == 2 and all(tag for _, tag in tags)


@pytest.mark.parametrize("spec", ["bf16", "bf16-192"])
def test_no_accumulator_of_the_gated_layer_is_handed_over(spec: str) -> None:
    found = schedule(Example("examples/dual_gemm.py", spec))
    groups = {(op.block, op.warp_group) for op in found.ops if op.op == "dot"}
    assert len(groups) == found.cooperation.split
