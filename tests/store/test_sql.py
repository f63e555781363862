"""Promises of the store in SQLite and in PostgreSQL: what was put is there, for everybody who opens it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.kernels import H100
from tests.stores import asked_of, entry_of, graph_of, illegal, numbered, schedule_of
from twill.exc import InvalidSchedule
from twill.store.interface import Entry
from twill.store.sql import SqlStore
from twill.store.validation import file


def change(store: SqlStore, statement: str, *values: object) -> None:
    """Write into the tables behind the store's back."""
    with store.writing() as c:
        c.execute(statement, values)


def test_what_was_put_is_there_for_whoever_opens_it(anywhere: SqlStore, opened: Callable[[], SqlStore]) -> None:
    entry = anywhere.put(numbered(1), graph_of(), asked=asked_of(1), machine=H100)
    other = opened()
    assert anywhere.get(entry.key) == other.get(entry.key) == entry
    assert other.get("0" * 64) is None


def test_the_graph_is_read_on_request(anywhere: SqlStore) -> None:
    entry = anywhere.put(schedule_of(), graph_of(), asked=asked_of(0))
    assert anywhere.get(entry.key, graph=False) == entry.model_copy(update={"graph": None})


def test_the_first_schedule_of_a_key_stays_but_for_its_graph(anywhere: SqlStore) -> None:
    first = anywhere.put(schedule_of())
    slower = schedule_of().model_copy(update={"solve_seconds": 9.0})
    assert anywhere.put(slower) == first
    assert anywhere.put(slower, graph_of(), asked=asked_of(0)).schedule == slower
    assert anywhere.put(schedule_of(), graph_of(), asked=asked_of(0)).schedule == slower
    assert anywhere.put(schedule_of()).graph == graph_of()


def test_a_bad_schedule_is_refused(anywhere: SqlStore) -> None:
    with pytest.raises(InvalidSchedule, match="not stored: its schedule breaks the rules"):
        anywhere.put(illegal(schedule_of()), graph_of(), asked=asked_of(0))
    with pytest.raises(InvalidSchedule, match="key"):
        anywhere.put(schedule_of(), graph_of(), asked=asked_of(5))
    assert anywhere.find() == ()


def test_a_machine_that_is_not_described_is_kept_beside(anywhere: SqlStore, opened: Callable[[], SqlStore]) -> None:
    from tests.stores import with_schedule
    from twill.schedule.key import schedule_key

    machine = H100.model_copy(update={"name": "mine", "title": "Mine"})
    digest = machine.digest()
    schedule = schedule_of()
    loop = schedule.loops[0]
    graph = loop.graph.model_copy(update={"machine": "mine", "machine_digest": digest})
    key = schedule_key(graph_of(), digest)
    mine = schedule.model_copy(
        update={
            "machine": "mine",
            "machine_digest": digest,
            "key": key,
            "loops": (loop.model_copy(update={"graph": graph}),),
        }
    )
    anywhere.put(mine, graph_of(), asked=asked_of(0), machine=machine)
    change(anywhere, "UPDATE schedules SET checked = ''")  # so that the machine is needed to check it
    other = opened()
    assert other.get(key) == with_schedule(entry_of(), mine).model_copy(update={"created": anywhere.find()[0].created})
    change(anywhere, "UPDATE schedules SET checked = ''")
    change(anywhere, f"UPDATE {anywhere.machines_table} SET document = ?", b"{}")
    third = opened()
    assert third.get(key) is None
    with third.reading() as c:
        assert c.execute("SELECT reason FROM quarantine").fetchall() == [("its machine is not in the store",)]


def test_lists_are_newest_first_by_kernel_and_machine(anywhere: SqlStore) -> None:
    for number in range(4):
        anywhere.keep(entry_of(number), H100)
    anywhere.keep(entry_of(name="layer_norm"), H100)
    assert [s.kernel for s in anywhere.find()] == ["layer_norm", *["gemm"] * 4]
    page = anywhere.find(kernel="gemm", machine="h100", limit=3)
    assert [s.key for s in page] == [entry_of(n).key for n in (3, 2, 1)]
    assert [s.key for s in anywhere.find("gemm", limit=9, before=page[-1].number)] == [entry_of(0).key]
    assert anywhere.find(machine="b200") == ()
    assert (page[0].ii, page[0].optimal, page[0].registers > 0, page[0].bytes > 1000) == (512, True, True, True)


def test_deletion_takes_the_artifacts_too(anywhere: SqlStore) -> None:
    anywhere.keep(entry_of(), H100)
    anywhere.put_artifact(entry_of().key, "a", b"1")
    assert anywhere.delete(entry_of().key)
    assert not anywhere.delete(entry_of().key)
    assert anywhere.get(entry_of().key) is None
    assert anywhere.get_artifact(entry_of().key, "a") is None


def test_an_artifact_replaces_one_of_its_name(anywhere: SqlStore) -> None:
    anywhere.put_artifact("k", "a", b"1")
    anywhere.put_artifact("k", "a", b"22")
    anywhere.put_artifact("k", "b", b"")
    assert [anywhere.get_artifact("k", name) for name in "abc"] == [b"22", b"", None]


def test_what_is_damaged_is_set_aside_and_reads_as_a_miss(anywhere: SqlStore, opened: Callable[[], SqlStore]) -> None:
    for number in range(2):
        anywhere.keep(entry_of(number), H100)
    change(anywhere, "UPDATE schedules SET schedule = ? WHERE key = ?", b"{}", entry_of(0).key)
    assert anywhere.get(entry_of(0).key) is None and opened().get(entry_of(1).key) == entry_of(1)
    anywhere.put_artifact("k", "a", b"good")
    change(anywhere, "UPDATE artifacts SET data = ?", b"evil")
    assert anywhere.get_artifact("k", "a") is None
    with anywhere.reading() as c:
        assert c.execute("SELECT what FROM quarantine ORDER BY number").fetchall() == [("schedule",), ("artifact a",)]
    anywhere.keep(entry_of(0), H100)
    assert anywhere.get(entry_of(0).key) == entry_of(0)


def test_there_is_what_would_be_read(anywhere: SqlStore) -> None:
    for number in range(3):
        anywhere.keep(entry_of(number), H100)
    change(anywhere, "UPDATE schedules SET schedule = ? WHERE key = ?", b"{}", entry_of(0).key)
    change(anywhere, "UPDATE schedules SET checked = ? WHERE key = ?", "another checker", entry_of(1).key)
    assert [anywhere.has(entry_of(number).key) for number in range(4)] == [False, True, True, False]
    assert [anywhere.get(entry_of(number).key) is not None for number in range(4)] == [False, True, True, False]


def test_many_who_put_one_key_at_once_have_one_entry(anywhere: SqlStore) -> None:
    def by(writer: int, number: int) -> Entry:
        schedule = numbered(number).model_copy(update={"solve_seconds": float(writer)})
        return file(schedule, graph_of(), asked_of(number), H100)[0]

    together, keys = threading.Barrier(4), range(12)
    asked = {(writer, number): by(writer, number) for writer in range(4) for number in keys}

    def write(writer: int) -> list[Entry]:
        found = []
        for number in keys:
            together.wait()
            found.append(anywhere.keep(asked[writer, number], H100))
        return found

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(write, range(4)))
    assert found == found[:1] * 4


def test_the_least_recently_used_gives_way_but_not_what_is_pinned(opened: Callable[..., SqlStore]) -> None:
    store = opened()
    store.keep(entry_of(0), H100)
    (one,) = store.find()
    small = opened(limit=int(one.bytes * 2.5))
    assert small.pin(entry_of(0).key) and not small.pin("0" * 64)
    for number in range(1, 4):
        small.keep(entry_of(number), H100)
    left = {summary.key for summary in small.find()}
    assert {entry_of(0).key, entry_of(3).key} <= left and entry_of(1).key not in left
    assert small.pinned() == {entry_of(0).key}
    assert small.pin(entry_of(0).key, False) and small.pinned() == frozenset()
    small.pin(entry_of(0).key)
    assert small.delete(entry_of(0).key) and small.pinned() == frozenset()
