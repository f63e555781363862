"""Promises of the first step of lowering: which warp group has which task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.lowered import plan_of, scheduled
from twill.codegen.emission import extract
from twill.codegen.lower.assign import rooted_in
from twill.codegen.lower.plan import LoweringPlan
from twill.codegen.lower.task import Place, Task

NORMALIZED = """
@triton.jit
def k(a, b, B: tl.constexpr, TIMES: tl.constexpr):
    at = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
    x = tl.exp(tl.load(a + at))
    for _ in tl.static_range(TIMES):
        x = x / tl.sum(x, 1)[:, None]
        x = x / tl.sum(x, 0)[None, :]
    tl.store(b + at, x)
"""


def test_a_chain_in_which_every_value_is_read_twice_is_walked_once(
    kernel_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums of rows and of columns in turn: there are 2^12 ways from the end of this chain to its beginning."""
    file = kernel_file(NORMALIZED)
    kernel = extract(f"{file}::k", sig=["a=*fp32:16", "b=*fp32:16"], const=["B=64", "TIMES=6"])
    plan = plan_of(kernel.wired, scheduled(kernel.program))
    looked: Counter[Place] = Counter()
    sources = LoweringPlan.register_sources

    def counting(self: LoweringPlan, task: Task) -> object:
        looked[task.place] += 1
        return sources(self, task)

    monkeypatch.setattr(LoweringPlan, "register_sources", counting)
    last = max(plan.tasks)
    rooted_in(plan, plan.tasks[last])
    assert len(looked) >= 12
    assert set(looked.values()) == {1}
