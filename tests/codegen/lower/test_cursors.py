"""Promises of `twill.codegen.lower.cursors`: every read of a loop looks at the slot of its own iteration, waits come
before
the first read and the release behind the last, and loops that share a ring agree on how far it has come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.streams import event, executed, iteration, pipeline
from twill.codegen.lower.cursors import Cursors, CursorUse
from twill.codegen.lower.ring_uses import RingReads, most_positions, ring_uses
from twill.codegen.lower.scalars import Iteration
from twill.codegen.lower.stream import EventKey, Stream, StreamEvent, arrange
from twill.codegen.warp.program import Advance, Aref, Consumed, Get, Let, Stmt

RING = Aref(0, "k", (0,), 3, 1, (0,), "tma", 64, 1, 4)
INTERVAL = 10


def reading(times: Sequence[int]) -> Stream:
    """A loop whose events read one ring at these times (cycles)."""
    return arrange([event("issue", number, time) for number, time in enumerate(times)], INTERVAL)


def last_of(stream: Stream) -> EventKey:
    return max(stream.events, key=lambda e: e.time).key


def with_uses(stream: Stream, uses: dict[EventKey, CursorUse]) -> list[Stmt]:
    """The loop with what its events do to the ring around their reads, which say the cursor that they read by."""

    def emit(e: StreamEvent, at: Iteration) -> list[Stmt]:
        use = uses[e.key]
        return [*use.before(), Let(f"{use.cursor}", at.number), *use.after()]

    return pipeline(stream, emit)


def reads_of(stream: Stream) -> RingReads:
    """All events of a loop read the ring."""
    return RingReads(RING.id, tuple(e.key for e in stream.events), last_of(stream))


def loops(cursors: Cursors, times: Sequence[Sequence[int]]) -> list[list[Stmt]]:
    """Loops of one warp group that read one ring, one after the other."""
    streams = [reading(each) for each in times]
    most = most_positions([(s, [reads_of(s)]) for s in streams])[RING.id, "get"]
    made = []
    for s in streams:
        uses = {key: cursors.use(use, (RING,), None) for key, use in ring_uses(s, reads_of(s), most).items()}
        made.append(with_uses(s, uses))
    return made


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 45), min_size=1, max_size=4, unique_by=lambda t: t % INTERVAL),
                  st.integers(0, 5)),
        min_size=1, max_size=3,
    )
)  # fmt: skip
def test_every_read_is_of_its_own_slot(made: list[tuple[list[int], int]]) -> None:
    cursors = Cursors(count())
    streams = loops(cursors, [times for times, _ in made])
    places: Counter[int] = Counter()  # cursor -> slots passed
    passed = given_back = waited = 0
    for stream, (times, trip) in zip(streams, made, strict=True):
        reads: Counter[int] = Counter()
        for stmt in executed(stream, trip):
            if isinstance(stmt, Get):
                assert places[stmt.cursor] == waited
                waited += 1
            if isinstance(stmt, Let):
                slot = places[int(stmt.name)]
                assert slot == passed + iteration(stmt)
                assert given_back <= slot < waited
                reads[slot] += 1
            if isinstance(stmt, Consumed):
                assert places[stmt.cursor] == given_back
                assert reads[given_back] == len(times), "given back before the last read"
                given_back += 1
            if isinstance(stmt, Advance):
                places[stmt.cursor] += 1
        passed += trip
        assert waited == given_back == passed
        assert {places[cursor.id] for cursor in cursors.cursors} == {passed}


def test_one_cursor_is_enough_for_reads_of_one_stage() -> None:
    cursors = Cursors(count())
    loops(cursors, [[0, 3, 6]])
    assert [cursor.name for cursor in cursors.cursors] == ["k_get"]


def test_reads_of_another_stage_have_a_cursor_of_their_own() -> None:
    cursors = Cursors(count())
    loops(cursors, [[0, 13]])
    assert [cursor.name for cursor in cursors.cursors] == ["k_get", "k_get1"]


def test_a_loop_moves_on_the_cursors_that_only_another_loop_needs() -> None:
    cursors = Cursors(count())
    one, two = loops(cursors, [[0], [0, 13]])
    for stream in (one, two):
        moved = Counter(stmt.cursor for stmt in executed(stream, 4) if isinstance(stmt, Advance))
        assert moved == {0: 4, 1: 4}


def test_the_producer_has_its_own_position() -> None:
    cursors = Cursors(count(7))
    assert (cursors.of(RING, "put"), cursors.of(RING, "get"), cursors.of(RING, "put")) == (7, 8, 7)
    assert [cursor.aref for cursor in cursors.cursors] == [RING.id, RING.id]


def test_only_the_first_read_waits_and_only_the_last_gives_back() -> None:
    cursors, stream = Cursors(count()), reading([0, 3, 6])
    uses = {key: cursors.use(use, (RING,), None) for key, use in ring_uses(stream, reads_of(stream), 1).items()}
    assert [(uses["issue", n].get, uses["issue", n].consumed) for n in range(3)] == [
        (True, False), (False, False), (False, True),
    ]  # fmt: skip
    assert uses["issue", 2].after() == [Consumed(0), Advance(0)]
    assert uses["issue", 1].before() == uses["issue", 1].after() == []
