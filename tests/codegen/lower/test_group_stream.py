"""Promises of `twill.codegen.lower.group_stream` and `select_group`: a stream says what is when, without statements or
registers; select says a stream that was made by hand as well as one that was scheduled."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path

import pytest

from tests.kernels import H100
from tests.lowered import planned, scheduled
from tests.tile_programs import attention, gemm
from twill.codegen.emission import extract
from twill.codegen.lower.group_stream import GroupStream, stream
from twill.codegen.lower.loop_stream import LoopStream
from twill.codegen.lower.memory import SharedMemoryPlan
from twill.codegen.lower.placement import Placement
from twill.codegen.lower.ring_uses import RingReads, SlotUse, ring_uses
from twill.codegen.lower.select_group import select_group
from twill.codegen.lower.stream import Stream, StreamEvent
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.program import Commit, Multiply, Pipeline, TmaLoad, WaitGroups, WarpGroup, walk

ISSUE, RETIRE = ("issue", 0), ("retire", 0)


@cache
def placement() -> Placement:
    return planned(gemm())


def streams(of: Placement) -> dict[str, GroupStream]:
    return {group.role: stream(of, group) for group in of.plan.groups}


def loop_of(made: GroupStream) -> LoopStream:
    (loop,) = made.loops.values()
    return loop


def selected(made: GroupStream) -> WarpGroup:
    """The statements of a stream."""
    memory = SharedMemoryPlan(placement().plan.wired.program.file, [*placement().buffers], [*placement().arefs])
    return select_group(placement(), memory, made, count(), count())


def pipeline(group: WarpGroup) -> Pipeline:
    (found,) = (stmt for stmt in group.body if isinstance(stmt, Pipeline))
    return found


def test_a_load_group_issues_its_loads_and_reads_no_ring() -> None:
    loop = loop_of(streams(placement())["load"])
    assert [(e.key, e.multiplies) for e in loop.stream.events] == [(("issue", 0), False), (("issue", 1), False)]
    assert [task.node.name for task in loop.tasks] == ["a", "b"]
    assert (loop.reads, loop.values, dict(loop.ages)) == ((), (), {})


def test_a_computing_group_waits_for_its_mma_and_reads_two_rings_that_end_with_it() -> None:
    made = streams(placement())["consumer 0"]
    loop = loop_of(made)
    assert [(e.key, e.stage, e.retires) for e in loop.stream.events] == [(ISSUE, 0, None), (RETIRE, 1, ISSUE)]
    assert [(reads.events, reads.ends) for reads in loop.reads] == [((ISSUE,), RETIRE)] * 2
    assert made.most == {(0, "get"): 2, (1, "get"): 2}
    assert [ago for ago in loop.ages.values()] == [0]  # it adds to what it left itself


def test_groups_that_take_instances_alternately_have_one_stream() -> None:
    made = streams(placement())
    one, other = made["consumer 0"], made["consumer 1"]
    assert loop_of(one) == loop_of(other) and one.tasks_of == other.tasks_of and one.group != other.group


def test_values_that_share_a_variable_are_told_without_registers() -> None:
    of = planned(attention(), 2)
    made = next(stream(of, group) for group in of.plan.groups if not group.issuer)
    loop = loop_of(made)
    names = {task.steps[-1]: task.node.name for task in loop.tasks}
    shared = {made.values.find(value) for value in loop.values if names.get(value[0]) == "acc"}
    assert len(shared) == 1 and len({made.values.find(value) for value in loop.values}) < len(loop.values)


def by_hand(*events: StreamEvent, ends: tuple[str, int]) -> GroupStream:
    """The stream of the first computing group with other events, of which that one ends the reads of its rings."""
    made = streams(placement())["consumer 0"]
    loop = loop_of(made)
    reads = tuple(replace(one, ends=ends) for one in loop.reads)
    most = {place: len({event.stage for event in events}) for place in made.most}
    found = replace(loop, stream=Stream(events, 0, 512), reads=reads)
    return replace(made, loops={loop.region: found}, most=most)


def product(stage: int) -> tuple[StreamEvent, StreamEvent]:
    """An MMA that is waited for in the same step (stage 0), or when it has been issued again (stage 1)."""
    (acc,) = loop_of(streams(placement())["consumer 0"]).values
    issue = StreamEvent(ISSUE, 0, multiplies=True)
    return issue, StreamEvent(RETIRE, 500, retires=ISSUE, ready=(acc,), matters=False, stage=stage)


def test_a_stream_made_by_hand_is_said_in_its_order() -> None:
    for stage, pending, cursors in ((0, 0, 2), (1, 1, 4)):
        group = selected(by_hand(*product(stage), ends=RETIRE))
        steady = [stmt for stmt in walk(pipeline(group).steady) if isinstance(stmt, Multiply | Commit | WaitGroups)]
        assert [type(stmt) for stmt in steady] == [Multiply, Commit, WaitGroups]
        assert isinstance(steady[-1], WaitGroups) and steady[-1].pending == pending
        assert len(group.cursors) == cursors  # one for each stage that uses a ring


def test_what_was_scheduled_is_said_as_the_stream_by_hand_that_is_equal_to_it() -> None:
    scheduled = streams(placement())["consumer 0"]
    issue, retire = loop_of(scheduled).stream.events
    assert selected(by_hand(issue, retire, ends=RETIRE)) == selected(scheduled)


def test_the_loads_of_a_stream_are_said_in_its_order() -> None:
    made = streams(placement())["load"]
    loop = loop_of(made)
    turned = replace(loop, stream=replace(loop.stream, events=tuple(reversed(loop.stream.events))))
    maps = {}
    for name, one in (("scheduled", loop), ("turned", turned)):
        group = selected(replace(made, loops={loop.region: one}))
        loads = [stmt for stmt in walk(pipeline(group).steady) if isinstance(stmt, TmaLoad)]
        maps[name] = [placement().buffers[load.target.buffer].name for load in loads]
    assert maps["turned"] == sorted(maps["scheduled"], reverse=True) != maps["scheduled"]


def test_each_stage_reads_at_a_position_of_its_own_and_the_last_moves_on_those_of_others() -> None:
    events = (StreamEvent(("issue", 0), 0), StreamEvent(("issue", 1), 5, stage=1))
    loop = Stream(events, 1, 10)
    uses = ring_uses(loop, RingReads(7, (("issue", 0), ("issue", 1)), ("issue", 1)), most=3)
    assert uses == {
        ("issue", 0): SlotUse((7, "get", 0), True, False, ((7, "get", 0),)),
        ("issue", 1): SlotUse((7, "get", 1), False, True, ((7, "get", 1), (7, "get", 2))),
    }


CONDITIONAL = """
import triton
import triton.language as tl

@triton.jit
def conditional(a, b, c, d, M, N, K, B: tl.constexpr):
    rows, columns = tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, B)
    part, total = tl.zeros((B, B), tl.float32), tl.zeros((B, B), tl.float32)
    for k in range(0, K, B):
        depth = k + tl.arange(0, B)
        left = tl.load(a + rows[:, None] * K + depth, mask=(rows[:, None] < M) & (depth < K), other=0.0)
        right = tl.load(b + depth[:, None] * N + columns, mask=(depth[:, None] < K) & (columns < N), other=0.0)
        total = tl.dot(left, right, total)
        if tl.program_id(0) == 0:
            part = tl.dot({left}, right, part)
    inside = (rows[:, None] < M) & (columns < N)
    tl.store(c + rows[:, None] * N + columns, part, mask=inside)
    tl.store(d + rows[:, None] * N + columns, total, mask=inside)
"""
SIGNATURE = ("a=*bf16:16", "b=*bf16:16", "c=*fp32:16", "d=*fp32:16", "M=i32:16", "N=i32:16", "K=i32:16")


@pytest.mark.parametrize("left", ["left", "left * 2"])
def test_a_product_that_is_added_under_a_condition_leaves_the_sum_for_when_it_does_not_hold(
    tmp_path: Path, left: str
) -> None:
    path = tmp_path / "k.py"
    path.write_text(CONDITIONAL.replace("{left}", left), encoding="utf-8")
    program = extract(str(path), sig=SIGNATURE, const=("B=64",)).program
    assert not verify(lower(program, scheduled(program), H100))
