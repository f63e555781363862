"""Promises of `twill.solve.without_overlap`: iterations that do not overlap, each in the order of the schedule."""

from __future__ import annotations

import pytest

from tests.golden_schedules import Example, kernel, machine, schedule
from twill.schedule.checker.check import check
from twill.schedule.document import Schedule
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.solve.without_overlap import without_overlap
from twill.zlp.memory_use import MemoryUse

EXAMPLES = (("attention", "full"), ("attention", "causal"), ("gemm", "bf16"))  # causal: two loops


def orders(found: Schedule) -> list[tuple[int, str, list[tuple[int, int]]]]:
    """What each warp group does in an iteration of each loop, in order."""
    groups = [(loop.loop, group.id, group.role) for loop in found.loops for group in found.warp_groups]
    return [
        (loop, role, sorted((op.start, op.id) for op in found.ops if (op.loop, op.warp_group) == (loop, number)))
        for loop, number, role in groups
    ]


@pytest.mark.parametrize(("file", "spec"), EXAMPLES)
def test_no_iterations_overlap_and_each_is_as_it_was(file: str, spec: str) -> None:
    example = Example(f"examples/{file}.py", spec)
    before, graph = schedule(example), kernel(example).graph
    after = without_overlap(before, graph, machine())
    assert after is not None and not check(after, machine())
    assert all(loop.ii == loop.length and loop.copies == 1 and not loop.certificate.optimal for loop in after.loops)
    assert all(op.stage == 0 for op in after.ops) and orders(after) == orders(before)


@pytest.mark.parametrize("fits", [True, False])
def test_row_blocks_that_exchange_tiles_have_their_own_order_if_registers_suffice(
    monkeypatch: pytest.MonkeyPatch, fits: bool
) -> None:
    graph = kernel(Example("examples/attention_backward.py", "full")).graph
    before = solve(graph, machine(), SolveOptions(strategy="heuristic", fuse=False))
    assert before.copies > 1
    if not fits:
        monkeypatch.setattr(MemoryUse, "budgets", lambda use, start, ii: None)
    after = without_overlap(before, graph, machine())
    assert after is not None and not check(after, machine()) and after.copies == 1
    assert (orders(after) == orders(before)) != fits


def test_there_is_none_where_no_iterations_overlap() -> None:
    example = Example("examples/gemm.py", "bf16")
    after = without_overlap(schedule(example), kernel(example).graph, machine())
    assert after is not None and without_overlap(after, kernel(example).graph, machine()) is None
