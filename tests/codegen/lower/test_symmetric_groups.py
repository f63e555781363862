"""Promises of `twill.codegen.lower.symmetric_groups`: warp groups with the same tasks follow one order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kernels import H100
from tests.lowered import plan_of, planned, scheduled
from tests.tile_programs import attention
from twill.codegen.lower.groups import Group
from twill.codegen.lower.plan import LoweringPlan
from twill.codegen.lower.symmetric_groups import in_step, lateness, of_group, symmetric_groups
from twill.codegen.lower.task import Task
from twill.codegen.lowering import lower
from twill.codegen.print.sections import sections
from twill.graph.build import wire


def plan() -> LoweringPlan:
    return planned(attention(), blocks=2).plan


def nobody(task: Task) -> set[int]:
    return set()


def disordered() -> tuple[list[Task], list[Group]]:
    """Two groups of one loop whose second has two of its elementwise tasks the other way round."""
    made = plan()
    tasks = [task for task in made.tasks.values() if task.region in made.loops]
    second = [task for task in of_group(tasks, 1) if task.node.kind == "elementwise"][:2]
    times = {task.place: other.start for task, other in zip(second, second[::-1], strict=True)}
    return [replace(task, start=times.get(task.place, task.start)) for task in tasks], list(made.groups)


def test_row_blocks_of_two_groups_are_alike_and_load_groups_are_not() -> None:
    tasks, groups = disordered()
    assert [[group.id for group in members] for members in symmetric_groups(tasks, groups, nobody)] == [[0, 1]]


def test_the_group_with_the_fewest_registers_leads() -> None:
    tasks, groups = disordered()
    groups[0] = replace(groups[0], registers=groups[1].registers + 8)
    assert [[group.id for group in members] for members in symmetric_groups(tasks, groups, nobody)] == [[1, 0]]


def test_groups_that_read_of_each_other_keep_their_own_order() -> None:
    tasks, groups = disordered()
    assert symmetric_groups(tasks, groups, lambda task: {0, 1}) == ()


def test_groups_with_other_tasks_are_not_alike() -> None:
    tasks, groups = disordered()
    fewer = [task for task in tasks if task.place != of_group(tasks, 1)[0].place]
    assert symmetric_groups(fewer, groups, nobody) == ()


def test_one_group_with_both_blocks_answers_to_no_group_with_one_block_twice() -> None:
    tasks, groups = disordered()
    mixed = [replace(t, place=(*t.place[:2], 1), groups=t.groups) if t.place == of_group(tasks, 0)[0].place else t
             for t in tasks]  # fmt: skip
    assert symmetric_groups(mixed, groups, nobody) == ()


def test_those_that_follow_are_as_much_later_as_their_products_are() -> None:
    tasks, groups = disordered()
    (members,) = symmetric_groups(tasks, groups, nobody)
    first, other = of_group(tasks, 0), of_group(tasks, 1)
    later = lateness(first, other)
    mmas = [b.start - a.start for a, b in zip(first, other, strict=True) if a.node.kind == "mma"]
    assert set(later.values()) <= set(mmas)
    made = in_step(tasks, members)
    for one, task in zip(first, other, strict=True):
        assert made[task.place].start == one.start + later[one.region]
        assert replace(made[task.place], start=task.start) == task


@pytest.mark.parametrize("causal", [False, True])
def test_schedules_that_place_row_blocks_unlike_still_give_one_section(causal: bool) -> None:
    tile = attention(causal)
    schedule = scheduled(tile, blocks=2)
    wired = wire(tile)
    tasks = plan_of(wired, schedule).tasks
    last = max((op for op in schedule.ops if op.warp_group == 1), key=lambda op: op.start)
    later = schedule.model_copy(
        update={"ops": tuple(op.model_copy(update={"start": op.start + 1}) if op is last else op
                             for op in schedule.ops)}
    )  # fmt: skip
    assert tasks and [section.groups for section in sections(lower(tile, later, H100))][0] == (0, 1)
