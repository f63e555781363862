"""Promises of `twill.codegen.lower.ordering_barriers`: products of several warp groups run in the order of the
schedule; nobody waits
for ever, and no barrier gets two arrivals of one group in a phase, whatever the trip count and however often the
kernel's loop runs."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels import H100
from tests.streams import TRIP, executed, iteration, pipeline
from twill.codegen.lower.ordering_barriers import OrderingBarrier, begin, end, give, ordering_barriers, wait
from twill.codegen.lower.scalars import Iteration
from twill.codegen.lower.stream import Stream, StreamEvent, arrange
from twill.codegen.lower.task import Task
from twill.codegen.warp.program import Arrive, Let, Stmt, Sync
from twill.graph.dependence import Node

NODE = Node.model_construct()
SLACK = H100.emitting.ordered.value
BUSY = 10  # cycles of one product


def task(number: int, group: int, start: int, busy: int = BUSY, hold: int = 0) -> Task:
    return Task((0, number, group), NODE, (), (group,), start, busy, hold, busy)


def body(
    task: Task, given: Sequence[OrderingBarrier], barriers: dict[OrderingBarrier, int], at: Iteration
) -> list[Stmt]:
    """A product between its waits and arrivals, as the lowering puts them."""
    made: list[Stmt] = []
    for turn in given:
        if task.place in turn.to.mmas:
            made += wait(turn, task.place, barriers[turn], at, TRIP)
    made.append(Let(f"{task.place[1]}", at.number))
    for turn in given:
        if task.place in turn.of.mmas:
            made += give(turn, task.place, barriers[turn], at, TRIP)
    return made


def stream_of(group: int, mmas: Sequence[Task], interval: int) -> Stream:
    return arrange([StreamEvent(("issue", t.place[1]), t.start) for t in mmas if t.groups == (group,)], interval)


def statements(
    group: int, mmas: Sequence[Task], given: Sequence[OrderingBarrier], interval: int, trips: Sequence[int]
) -> Iterator[tuple[int, Stmt]]:
    """(instance, statement) of a persistent warp group that runs its loop once for each of `trips`."""
    stream = stream_of(group, mmas, interval)
    barriers = {turn: number for number, turn in enumerate(given)}
    tasks = {("issue", t.place[1]): t for t in mmas if t.groups == (group,)}

    def emit(event: StreamEvent, at: Iteration) -> list[Stmt]:
        return body(tasks[event.key], given, barriers, at)

    for number, turn in enumerate(given):
        if turn.of.group == group:
            yield from ((0, stmt) for stmt in begin(turn, number))
    for instance, trip in enumerate(trips):
        yield from ((instance, stmt) for stmt in executed(pipeline(stream, emit), trip))
    for number, turn in enumerate(given):
        if turn.to.group == group:
            yield from ((len(trips), stmt) for stmt in end(turn, number))


def play(
    mmas: Sequence[Task], given: Sequence[OrderingBarrier], interval: int, trips: Sequence[int], seed: int
) -> list[tuple[int, int, int]]:
    """One interleaving of the groups; (instance, iteration, product) in the order in which products are issued."""
    luck = random.Random(seed)
    running = {g: statements(g, mmas, given, interval, trips) for g in {t.groups[0] for t in mmas}}
    arrived: dict[int, set[int]] = {number: set() for number in range(len(given))}
    blocked: dict[int, int] = {}  # group -> the barrier that it waits on
    issued: list[tuple[int, int, int]] = []
    while running:
        able = sorted(set(running) - set(blocked))
        assert able, f"deadlock: {blocked}"
        group = luck.choice(able)
        found = next(running[group], None)
        if found is None:
            del running[group]
            continue
        instance, stmt = found
        if isinstance(stmt, Let):
            issued.append((instance, iteration(stmt), int(stmt.name)))
        if isinstance(stmt, Sync | Arrive):
            assert group not in arrived[stmt.barrier], "two arrivals in one phase"
            arrived[stmt.barrier].add(group)
            if isinstance(stmt, Sync):
                blocked[group] = stmt.barrier
            if len(arrived[stmt.barrier]) == 2:
                arrived[stmt.barrier].clear()
                blocked = {g: barrier for g, barrier in blocked.items() if barrier != stmt.barrier}
    assert not any(arrived.values()), "an arrival is left over"
    return issued


def runs_in_order(issued: Sequence[tuple[int, int, int]], given: Sequence[OrderingBarrier]) -> bool:
    """Whether the runs of products follow one another round and round, in every instance."""
    first = next(turn.to for turn in given if turn.wraps)
    cycle = [first]
    while len(cycle) < len(given):
        cycle.append(next(turn.to for turn in given if turn.of == cycle[-1]))
    place = {p[1]: (n, run.offsets[i]) for n, run in enumerate(cycle) for i, p in enumerate(run.mmas)}
    order = [(instance, at - place[number][1], place[number][0]) for instance, at, number in issued]
    return order == sorted(order)


@st.composite
def kernels(draw: st.DrawFn) -> tuple[list[Task], int]:
    """Two or three groups with the same products, each a part of the interval after the one before; products of a run
    may belong to several iterations."""
    groups, each = draw(st.integers(2, 3)), draw(st.integers(1, 3))
    interval = groups * each * BUSY * 2
    ahead = [draw(st.integers(0, 2)) for _ in range(each)]
    shift = draw(st.integers(0, 2 * interval))
    made = [
        task(number * groups + g, g, shift + ahead[number] * interval + g * (interval // groups) + number * BUSY)
        for g in range(groups)
        for number in range(each)
    ]
    return made, interval


@settings(max_examples=40)
@given(kernels(), st.lists(st.integers(0, 5), min_size=1, max_size=4), st.integers(0, 9))
def test_products_take_turns_in_any_interleaving(made: tuple[list[Task], int], trips: list[int], seed: int) -> None:
    mmas, interval = made
    given = ordering_barriers(mmas, (), interval, SLACK)
    assert len(given) == len({t.groups for t in mmas})
    issued = play(mmas, given, interval, trips, seed)
    assert len(issued) == len(set(issued)) == sum(trips) * len(mmas)
    assert runs_in_order(issued, given)


def ping_pong() -> list[Task]:
    """QK of iteration i + 1 before PV of iteration i, in each of two groups: the order of FlashAttention-3."""
    return [task(0, 0, 0), task(1, 0, 110), task(2, 1, 50), task(3, 1, 160)]


@pytest.mark.parametrize("trips", [(0,), (1,), (2,), (5,), (0, 3, 0, 1), (1, 1, 4)])
def test_ping_pong(trips: tuple[int, ...]) -> None:
    given = ordering_barriers(ping_pong(), (), 100, SLACK)
    assert [(turn.of.group, turn.to.group, turn.wraps) for turn in given] == [(1, 0, True), (0, 1, False)]
    assert given[0].to.offsets == (1, 0)
    for seed in range(5):
        assert runs_in_order(play(ping_pong(), given, 100, trips, seed), given)


def test_without_turns_the_order_is_lost() -> None:
    given = ordering_barriers(ping_pong(), (), 100, SLACK)
    assert not all(runs_in_order(play(ping_pong(), (), 100, (4,), seed), given) for seed in range(5))


@pytest.mark.parametrize("trips", [(1,), (1, 1), (2, 1), (4,)])
def test_the_products_of_a_run_may_be_far_apart(trips: tuple[int, ...]) -> None:
    mmas = [task(0, 0, 0), task(1, 0, 210), task(2, 1, 50), task(3, 1, 260)]
    given = ordering_barriers(mmas, (), 100, SLACK)
    assert given[0].to.offsets == (2, 0)
    for seed in range(5):
        assert runs_in_order(play(mmas, given, 100, trips, seed), given)


# -- when there are no turns --------------------------------------------------------------------


def test_one_group_needs_none() -> None:
    assert ordering_barriers([task(0, 0, 0), task(1, 0, 50)], (), 100, SLACK) == ()


def test_none_without_products() -> None:
    assert ordering_barriers([], (), 100, SLACK) == ()


def test_none_if_a_group_has_two_runs() -> None:
    mixed = [task(0, 0, 0), task(1, 1, 25), task(2, 0, 50), task(3, 1, 75)]
    assert ordering_barriers(mixed, (), 100, SLACK) == ()


def test_none_if_groups_run_ahead_differently() -> None:
    uneven = [task(0, 0, 0), task(1, 0, 110), task(2, 1, 50), task(3, 1, 60)]
    assert ordering_barriers(uneven, (), 100, SLACK) == ()


def test_none_if_a_short_loop_has_runs_in_one_group_only() -> None:
    """Both reach two iterations ahead; but in a loop of one iteration, only one of them has a product in between."""
    mmas = [task(0, 0, 0), task(1, 0, 210), task(2, 0, 220), task(3, 1, 50), task(4, 1, 160), task(5, 1, 270)]
    assert ordering_barriers(mmas, (), 100, SLACK) == ()


@pytest.mark.parametrize(("spare", "expected"), [(SLACK, 2), (SLACK - 0.01, 0)])
def test_none_if_a_group_has_no_time_to_wait(spare: float, expected: int) -> None:
    """A group that computes nearly always would only pass its delay on."""
    interval = 1000
    mmas = [task(0, 0, 0, busy=100), task(1, 1, 500, busy=100)]
    work = task(2, 1, 600, busy=0, hold=round(interval * (1 - spare)) - 100)
    assert len(ordering_barriers(mmas, [work], interval, SLACK)) == expected
    assert len(ordering_barriers(mmas, [replace(work, groups=(2,))], interval, SLACK)) == 2


def test_three_groups_go_round() -> None:
    given = ordering_barriers([task(0, 0, 0), task(1, 1, 33), task(2, 2, 66)], (), 100, SLACK)
    assert [turn.wraps for turn in given] == [True, False, False]
    assert all(before.to == after.of for before, after in pairwise(given))
    assert given[-1].to == given[0].of
