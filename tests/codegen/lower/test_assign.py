"""Promises of the first step of lowering: which warp group has which task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.lowered import plan_of, scheduled
from tests.tile_programs import attention
from twill.codegen.emission import extract
from twill.codegen.lower.assign import rooted_in, without_idle_groups
from twill.codegen.lower.plan import LoweringPlan
from twill.codegen.lower.task import Place, Task
from twill.graph.build import wire

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


def test_only_tasks_that_have_an_operand_are_asked_whether_they_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(wire(attention()), scheduled(attention(), 2))
    looked: Counter[Place] = Counter()
    for kind in ("register_sources", "slot_sources"):
        found = getattr(LoweringPlan, kind)

        def counting(self: LoweringPlan, task: Task, found: Callable[..., object] = found) -> object:
            looked[task.place] += 1
            return found(self, task)

        monkeypatch.setattr(LoweringPlan, kind, counting)
    for place in plan.tasks:
        looked.clear()
        readers = plan.readers(place)
        assert looked.keys() - {place} == {task.place for task in readers} - {place}
        sources = {task.place: (*plan.register_sources(task), *plan.slot_sources(task)) for task in plan.tasks.values()}
        expected = [one for one, read in sources.items() if any(plan.place_of(source) == place for source in read)]
        assert [task.place for task in readers] == expected


def test_tasks_that_are_added_to_a_plan_are_found_among_readers() -> None:
    whole = plan_of(wire(attention()), scheduled(attention()))
    places = [place for place in whole.tasks if whole.readers(place)]
    growing: dict[Place, Task] = {}
    plan = replace(whole, tasks=growing)
    assert not plan.readers(places[0])
    growing.update(whole.tasks)
    assert [task.place for task in plan.readers(places[0])] == [task.place for task in whole.readers(places[0])]


STRAIGHT = """
@triton.jit
def k(a, b, c):
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at)))
"""


def test_groups_that_multiply_come_first_though_every_group_has_something_to_do(
    kernel_file: Callable[..., str],
) -> None:
    """Load groups are one warp where CTAs share an SM: an MMA's warps behind it would not begin at a multiple of 4."""
    kernel = extract(f"{kernel_file(STRAIGHT)}::k", sig=["a=*bf16:16", "b=*bf16:16", "c=*fp32:16"])
    plan = plan_of(kernel.wired, scheduled(kernel.program))
    assert [group.issuer for group in plan.groups] == [False, True]
    turned = {0: 1, 1: 0}
    groups = tuple(replace(plan.groups[turned[number]], id=number) for number in turned)
    tasks = {p: replace(t, groups=tuple(turned[one] for one in t.groups)) for p, t in plan.tasks.items()}
    made = without_idle_groups(replace(plan, groups=groups, tasks=tasks))
    assert [(group.id, group.issuer) for group in made.groups] == [(0, False), (1, True)]
    assert {p: t.groups for p, t in made.tasks.items()} == {p: t.groups for p, t in plan.tasks.items()}
