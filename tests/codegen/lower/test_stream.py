"""Promises of `twill.codegen.lower.stream`: every event once in every iteration, in the order of the schedule,
whatever the
trip count; waits that cover what they retire and nothing younger; older versions where their readers look for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.streams import event, executed, iteration, pipeline
from twill.codegen.lower.stream import Occurrence, Stream, StreamEvent, arrange, cost_of_cut, cut_at, pipeline_blocks
from twill.codegen.warp.program import Commit, Copy, Let, Pipeline, Stmt, WaitGroups, walk

TRIPS = (-1, 0, 1, 2, 3, 6)
SHARED = 1000  # an operand A that several products read


def product(number: int, time: int, until: int, matters: bool = True) -> list[StreamEvent]:
    """A product and the wait for it. Its accumulator is fragment `number`, its operand A fragment SHARED."""
    issue = replace(event("issue", number, time), multiplies=True)
    return [
        issue,
        replace(event("retire", number, until), retires=issue.key, ready=((number, -1), (SHARED, -1)), matters=matters),
    ]


@st.composite
def loops(draw: st.DrawFn) -> tuple[list[StreamEvent], int]:
    """Events of a loop and its interval. A product is waited for before it is issued again, as the lowering sees to."""
    interval = draw(st.integers(2, 12))
    times = st.integers(0, 4 * interval)
    made: list[StreamEvent] = []
    for number in range(draw(st.integers(0, 3))):
        time = draw(times)
        made += product(number, time, time + draw(st.integers(1, interval - 1)), draw(st.booleans()))
    made += [event("work", number, draw(times)) for number in range(draw(st.integers(0 if made else 1, 3)))]
    return draw(st.permutations(made)), interval


def run(stream: Stream, trip: int) -> list[Stmt]:
    """The statements that are executed."""
    return list(executed(pipeline(stream), trip))


def said(stmts: Sequence[Stmt]) -> list[tuple[str, int]]:
    """Events and their iterations, in the order in which they happen."""
    return [(stmt.name, iteration(stmt)) for stmt in stmts if isinstance(stmt, Let)]


def cyclic(events: Sequence[StreamEvent], interval: int) -> list[StreamEvent]:
    """Events in the order of their rows."""
    return sorted(events, key=lambda e: (e.time % interval, e.time))


def name(event: StreamEvent) -> str:
    return f"{event.key[0]} {event.key[1]}"


@settings(max_examples=30)
@given(loops())
def test_every_event_happens_once_in_every_iteration_in_the_order_of_the_schedule(
    made: tuple[list[StreamEvent], int],
) -> None:
    events, interval = made
    stream = arrange(events, interval)
    for trip in TRIPS:
        happened = said(run(stream, trip))
        expected = {(e.time + i * interval, name(e), i) for e in events for i in range(trip)}
        assert sorted(happened) == sorted((n, i) for _, n, i in expected)
        place = {instance: number for number, instance in enumerate(happened)}
        last = -1
        for _, together in groupby(sorted(expected), key=lambda at: at[0]):
            places = [place[n, i] for _, n, i in together]
            assert min(places) > last, "later in the schedule, earlier in the stream"
            last = max(places)


@settings(max_examples=30)
@given(loops(), st.integers(0, 20))
def test_any_cut_keeps_the_order(made: tuple[list[StreamEvent], int], cut: int) -> None:
    events, interval = made
    stream = cut_at(cyclic(events, interval), cut % len(events), interval)
    times = {name(e): e.time for e in events}
    for trip in (1, 2, 5):
        happened = said(run(stream, trip))
        virtual = [times[n] + i * interval for n, i in happened]
        assert len(set(happened)) == trip * len(events)
        assert virtual == sorted(virtual)


@dataclass
class Flight:
    """wgmma groups, the oldest first. open: products since the last Commit; complete: groups that were waited for;
    asked: those that the last wait was for."""

    groups: list[tuple[tuple[int, int], ...]] = field(default_factory=list)
    open: tuple[tuple[int, int], ...] = ()
    complete: int = 0
    asked: int = 0

    def step(self, stmt: Stmt) -> None:
        if isinstance(stmt, Let) and stmt.name.startswith("issue"):
            self.open += ((int(stmt.name.split()[1]), iteration(stmt)),)
        if isinstance(stmt, Commit):
            self.groups.append(self.open)
            self.open = ()
        if isinstance(stmt, WaitGroups):
            self.asked = len(self.groups) - stmt.pending
            self.complete = max(self.complete, self.asked)

    def group_of(self, number: int, at: int) -> int:
        return next(g for g, group in enumerate(self.groups) if (number, at) in group)

    def unfinished(self) -> set[int]:
        return {number for group in self.groups[self.complete :] for number, _ in group}


@settings(max_examples=30)
@given(loops())
def test_a_wait_covers_its_product_and_leaves_younger_ones_in_flight(made: tuple[list[StreamEvent], int]) -> None:
    events, interval = made
    stream = arrange(events, interval)
    behind = {e.key[1] for e in stream.events if e.stage > stream.stages}
    for trip in TRIPS:
        flight = Flight()
        for stmt in run(stream, trip):
            flight.step(stmt)
            if isinstance(stmt, WaitGroups):
                assert SHARED not in stmt.ready or not flight.unfinished(), "operand A is still read"
                assert not flight.unfinished() & set(stmt.ready), "an accumulator is still written"
            if isinstance(stmt, Let) and stmt.name.startswith("retire"):
                number, at = int(stmt.name.split()[1]), iteration(stmt)
                group = flight.group_of(number, at)
                assert group < flight.complete
                if not (number in behind and at == trip - 1):  # those wait for all, behind the loop
                    assert group + 1 == flight.asked, "a younger product was waited for"
        assert not flight.unfinished() and not flight.open


@given(loops())
@settings(max_examples=25)
def test_the_number_of_groups_does_not_depend_on_guards(made: tuple[list[StreamEvent], int]) -> None:
    events, interval = made
    stream = arrange(events, interval)
    mmas = sum(e.multiplies for e in events)
    for trip in range(1, 6):
        commits = sum(isinstance(stmt, Commit) for stmt in run(stream, trip))
        assert commits == mmas * (max(trip, stream.stages) + stream.stages)


def test_a_wait_says_what_it_frees_only_if_that_matters() -> None:
    for matters, ready in ((True, (0, SHARED)), (False, ())):
        stream = arrange(product(0, 0, 5, matters), 10)
        (loop,) = (stmt for stmt in pipeline(stream) if isinstance(stmt, Pipeline))
        assert [stmt.ready for stmt in walk(loop.steady) if isinstance(stmt, WaitGroups)] == [ready]


def test_what_a_younger_product_still_uses_is_not_free() -> None:
    stream = arrange([*product(0, 0, 5), *product(1, 3, 9)], 10)
    (loop,) = (stmt for stmt in pipeline(stream) if isinstance(stmt, Pipeline))
    waits = [stmt for stmt in loop.steady if isinstance(stmt, WaitGroups)]
    assert [(wait.pending, wait.ready) for wait in waits] == [(1, (0,)), (0, (1, SHARED))]


# -- stages and guards, written out -------------------------------------------------------------


def shown(stream: Stream, trip: int) -> str:
    """Events with their iterations: "a0 b0 a1"; "." for a Commit, "wN" for a wait that leaves N in flight."""
    words = []
    for stmt in run(stream, trip):
        if isinstance(stmt, Let):
            words.append(f"{stmt.name[0]}{iteration(stmt)}")
        if isinstance(stmt, Commit):
            words.append(".")
        if isinstance(stmt, WaitGroups):
            words.append(f"w{stmt.pending}")
    return " ".join(words)


def test_without_stages_there_is_no_prologue() -> None:
    stream = arrange([event("a", 0, 0), event("b", 0, 4)], 10)
    (loop,) = (stmt for stmt in pipeline(stream) if isinstance(stmt, Pipeline))
    assert (stream.stages, loop.prologue, loop.epilogue) == (0, (), ())
    assert shown(stream, 2) == "a0 b0 a1 b1"
    assert shown(stream, 0) == ""


def test_one_stage() -> None:
    stream = arrange([event("a", 0, 0), event("b", 0, 14)], 10)
    assert stream.stages == 1
    assert shown(stream, 1) == "a0 b0"
    assert shown(stream, 3) == "a0 a1 b0 a2 b1 b2"


def test_two_stages_with_fewer_iterations_than_stages() -> None:
    stream = arrange([event("a", 0, 0), event("b", 0, 13), event("c", 0, 26)], 10)
    assert stream.stages == 2
    assert shown(stream, 1) == "a0 b0 c0"
    assert shown(stream, 2) == "a0 a1 b0 b1 c0 c1"


@pytest.mark.parametrize(
    ("trip", "text"),
    [
        (0, "w0"),
        (1, "i0 . w1 w0 r0"),
        (2, "i0 . w1 i1 . w1 r0 w0 r1"),
        (3, "i0 . w1 i1 . w1 r0 i2 . w1 r1 w0 r2"),
    ],
)
def test_a_retirement_that_lags_needs_no_stage_of_its_own(trip: int, text: str) -> None:
    issue, retire = product(0, 0, 9, matters=False)
    stream = Stream((issue, replace(retire, stage=1)), 0, 10)
    assert shown(stream, trip) == text


def test_products_without_an_iteration_leave_empty_groups() -> None:
    stream = arrange([event("a", 0, 0), *product(0, 12, 18)], 10)
    assert stream.stages == 1
    assert shown(stream, 2) == "a0 . a1 i0 . w0 r0 i1 . w0 r1 w0"


# -- where a loop is cut ------------------------------------------------------------------------


def in_flight_over_the_back_edge(stream: Stream) -> int:
    """Products that other instructions touch and that are not waited for in the step that issues them."""
    stages = {e.key: e.stage for e in stream.events}
    return sum(e.matters and e.stage > stages[e.retires] for e in stream.events if e.retires is not None)


def test_the_cut_is_where_no_product_that_matters_is_in_flight() -> None:
    events = [event("work", 0, 0), *product(0, 6, 13)]
    assert in_flight_over_the_back_edge(cut_at(sorted(events, key=lambda e: e.time % 10), 0, 10)) == 1
    stream = arrange(events, 10)
    assert in_flight_over_the_back_edge(stream) == 0
    assert stream.stages == 1


def test_a_product_that_nothing_touches_may_be_in_flight_to_save_a_stage() -> None:
    stream = arrange([event("work", 0, 0), *product(0, 6, 13, matters=False)], 10)
    assert stream.stages == 0


@settings(max_examples=25)
@given(loops())
def test_no_cut_is_better(made: tuple[list[StreamEvent], int]) -> None:
    events, interval = made
    stream = arrange(events, interval)
    cuts = [cut_at(cyclic(events, interval), cut, interval) for cut in range(len(events))]
    assert (in_flight_over_the_back_edge(stream), stream.stages) <= min(
        (in_flight_over_the_back_edge(cut), cut.stages) for cut in cuts
    )
    assert cost_of_cut(stream)[0] == in_flight_over_the_back_edge(stream)


# -- how often an event runs between two others -------------------------------------------------


@settings(max_examples=30)
@given(loops(), st.data())
def test_executions_counts_what_happens_in_between(made: tuple[list[StreamEvent], int], data: st.DataObject) -> None:
    events, interval = made
    stream = arrange(events, interval)
    start, end, of = (data.draw(st.sampled_from(stream.events)) for _ in range(3))
    distance = data.draw(st.integers(0, 3))
    happened = said(run(stream, 14))
    first, last = happened.index((name(start), 5)), happened.index((name(end), 5 + distance))
    if first < last:
        between = sum(n == name(of) for n, _ in happened[first + 1 : last])
        assert stream.executions(start.key, end.key, of.key, distance) == between


# -- versions -----------------------------------------------------------------------------------


@settings(max_examples=50)
@given(st.integers(2, 9), st.integers(0, 30), st.integers(1, 30), st.booleans(), st.integers(0, 20))
def test_readers_find_older_versions(interval: int, start: int, later: int, carried: bool, other: int) -> None:
    """A value is defined again before its reader has come: copies in front of each definition keep what it was."""
    define = event("define", 0, start)
    read = event("read", 0, start + later - (interval if carried else 0))
    stream = arrange([define, read, event("work", 0, other)], interval)
    ago = stream.executions(define.key, read.key, define.key, int(carried))
    retained: list[Stmt] = [Copy(version - 1, version) for version in range(ago, 0, -1)]
    defining = replace(stream.event(define.key), carried=carried)
    stream = replace(stream, events=tuple(defining if e.key == define.key else e for e in stream.events))
    for trip in TRIPS:
        versions: dict[int, int | None] = {0: -1}  # what is carried into the loop
        made = pipeline(stream, keep=lambda e: retained if e.key == define.key else [])
        for stmt in executed(made, trip):
            if isinstance(stmt, Copy):
                versions[stmt.result] = versions.get(stmt.source)
            if isinstance(stmt, Let) and stmt.name == "define 0":
                versions[0] = iteration(stmt)
            if isinstance(stmt, Let) and stmt.name == "read 0":
                assert versions[ago] == iteration(stmt) - int(carried)


# -- what is where ------------------------------------------------------------------------------


def shown_block(block: tuple[Occurrence, ...]) -> str:
    """Events of a block: "a" happens, "(a)" while an iteration is left, "<a" once it has begun, "." leaves an empty
    group or nothing; "'" behind one in front of which older versions are kept."""
    words = []
    for one in block:
        name = "." if one.empty else one.event.key[0]
        name = f"({name})" if one.left else name
        words.append(("<" if one.begun else "") + name + ("'" if one.keeps else ""))
    return " ".join(words)


def test_blocks_say_what_is_in_prologue_steady_state_and_epilogue() -> None:
    stream = arrange([event("a", 0, 0), event("b", 0, 13), event("c", 0, 26)], 10)
    blocks = pipeline_blocks(stream)
    assert [shown_block(block) for block in blocks.prologue] == ["a . .", "(a)' b ."]
    assert shown_block(blocks.steady) == "a' b' c'"
    assert [shown_block(block) for block in blocks.epilogue] == [".' (b)' (c)'", ".' .' (c)'"]
    assert blocks.behind == ()


def test_what_lags_behind_the_last_issue_waits_for_its_first_iteration_and_ends_behind_the_loop() -> None:
    issue, retire = product(0, 0, 9, matters=False)
    blocks = pipeline_blocks(Stream((issue, replace(retire, stage=1)), 0, 10))
    assert shown_block(blocks.steady) == "issue' <retire'"
    assert [one.event.key for one in blocks.behind] == [("retire", 0)]


def test_a_wait_leaves_in_flight_what_was_issued_since() -> None:
    stream = arrange([*product(0, 0, 5), *product(1, 3, 9)], 10)
    assert stream.pending(stream.event(("retire", 0))) == (1, ((0, -1),))
    assert stream.pending(stream.event(("retire", 1))) == (0, ((1, -1), (SHARED, -1)))


def test_a_slot_is_read_until_the_wait_for_its_product_even_if_another_reads_it_after_the_scheduled_end() -> None:
    """The product is scheduled to end by cycle 6, its result is wanted and waited for in cycle 9; a sum reads in 7."""
    reading = event("issue", 1, 7)
    stream = arrange([*product(0, 0, 9), reading], 12)
    assert stream.last([("retire", 0), reading.key]) == ("retire", 0)
    assert stream.last([("issue", 0), reading.key]) == reading.key
