"""Warp groups that have the same tasks of other row blocks do them in the same order.

A solver places every instruction for itself, and nothing makes it place the row blocks of two warp groups alike: where
cycles are to spare, a few numbers for each row come sooner in one and later in the other. Such warp groups follow the
one of them that needs the fewest registers, each as many cycles later as its MMAs are: their order among
themselves, which turns (`twill.codegen.lower.ordering_barriers`) rest on, stays. So they are one section of the kernel
(`twill.codegen.print.sections`), which is compiled once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median_low

from twill.codegen.lower.groups import Group
from twill.codegen.lower.task import Place, Task

Makers = Callable[[Task], set[int]]
"""The warp groups that make what a task reads in its loop."""


def symmetric_groups(tasks: Sequence[Task], groups: Sequence[Group], makers: Makers) -> tuple[tuple[Group, ...], ...]:
    """Warp groups by what they do in loops, the one with the fewest registers first; those that read nothing of each
    other."""
    classes: dict[tuple[tuple[int, int], ...], list[Group]] = {}
    for group in groups:
        mine = of_group(tasks, group.id)
        if mine and not group.issuer:
            classes.setdefault(tuple(task.place[:2] for task in mine), []).append(group)
    found = (sorted(members, key=lambda group: (group.registers, group.id)) for members in classes.values())
    return tuple(tuple(members) for members in found if len(members) > 1 and apart(tasks, members, makers))


def apart(tasks: Sequence[Task], members: Sequence[Group], makers: Makers) -> bool:
    """Whether each row block of one group answers to one of each other, and none reads what another makes."""
    numbers = {group.id for group in members}
    for group in members:
        pairs = zip(of_group(tasks, members[0].id), of_group(tasks, group.id), strict=True)
        blocks = {(one.block, other.block) for one, other in pairs}
        if len(blocks) > len({one for one, _ in blocks}) or len(blocks) > len({other for _, other in blocks}):
            return False
        if any(makers(task) & (numbers - {group.id}) for task in of_group(tasks, group.id)):
            return False
    return True


def of_group(tasks: Sequence[Task], group: int) -> list[Task]:
    """The tasks that a warp group has in loops, in the order of the kernel."""
    return sorted((task for task in tasks if task.groups == (group,)), key=lambda task: task.place)


def in_step(tasks: Sequence[Task], members: Sequence[Group]) -> dict[Place, Task]:
    """The tasks of alike groups, at the times of the first of them and as much later as each group is."""
    first, made = of_group(tasks, members[0].id), {}
    for group in members[1:]:
        mine = of_group(tasks, group.id)
        later = lateness(first, mine)
        for one, other in zip(first, mine, strict=True):
            made[other.place] = replace(other, start=one.start + later[other.region])
    return made


def lateness(first: Sequence[Task], other: Sequence[Task]) -> Mapping[int, int]:
    """How many cycles a warp group is behind another in each loop: most of its MMAs, or else of all its tasks."""
    found = {}
    for region in {task.region for task in first}:
        pairs = [(a, b) for a, b in zip(first, other, strict=True) if a.region == region]
        mmas = [(a, b) for a, b in pairs if a.node.kind == "mma"]
        found[region] = median_low(b.start - a.start for a, b in mmas or pairs)
    return found
