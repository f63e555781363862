"""Promises of the store in a file: what was put is there, for everybody who opens it."""

from __future__ import annotations

import pytest

from tests.kernels import H100
from tests.store_files import again, change
from tests.stores import asked_of, entry_of, graph_of, illegal, numbered, schedule_of
from twill.exc import InvalidSchedule
from twill.store.care import quarantined
from twill.store.sqlite import SqliteStore


def test_what_was_put_is_there_for_whoever_opens_the_file(store: SqliteStore) -> None:
    entry = store.put(numbered(1), graph_of(), asked=asked_of(1), machine=H100)
    other = again(store)
    assert store.get(entry.key) == other.get(entry.key) == entry
    assert other.get("0" * 64) is None
    other.close()


def test_the_graph_is_read_on_request(store: SqliteStore) -> None:
    entry = store.put(schedule_of(), graph_of(), asked=asked_of(0))
    assert store.get(entry.key, graph=False) == entry.model_copy(update={"graph": None})


def test_the_first_schedule_of_a_key_stays_but_for_its_graph(store: SqliteStore) -> None:
    first = store.put(schedule_of())
    slower = schedule_of().model_copy(update={"solve_seconds": 9.0})
    assert store.put(slower) == first
    assert store.put(slower, graph_of(), asked=asked_of(0)).schedule == slower
    assert store.put(schedule_of(), graph_of(), asked=asked_of(0)).schedule == slower
    assert store.put(schedule_of()).graph == graph_of()


def test_a_bad_schedule_is_refused(store: SqliteStore) -> None:
    with pytest.raises(InvalidSchedule, match="not stored: its schedule breaks the rules"):
        store.put(illegal(schedule_of()), graph_of(), asked=asked_of(0))
    with pytest.raises(InvalidSchedule, match="key"):
        store.put(schedule_of(), graph_of(), asked=asked_of(5))
    assert store.find() == ()


def test_a_machine_that_is_not_described_is_kept_beside(store: SqliteStore) -> None:
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
    store.put(mine, graph_of(), asked=asked_of(0), machine=machine)
    change(store, "UPDATE schedules SET checked = ''")  # so that the machine is needed to check it
    other = again(store)
    assert other.get(key) == with_schedule(entry_of(), mine).model_copy(update={"created": store.find()[0].created})
    change(store, "UPDATE schedules SET checked = ''")
    change(store, "UPDATE machines SET document = ?", b"{}")
    third = again(store)
    assert third.get(key) is None
    assert [bad.reason for bad in quarantined(third)] == ["its machine is not in the store"]
    other.close()
    third.close()


def test_lists_are_newest_first_by_kernel_and_machine(store: SqliteStore) -> None:
    for number in range(4):
        store.keep(entry_of(number), H100)
    store.keep(entry_of(name="layer_norm"), H100)
    assert [s.kernel for s in store.find()] == ["layer_norm", *["gemm"] * 4]
    page = store.find(kernel="gemm", machine="h100", limit=3)
    assert [s.key for s in page] == [entry_of(n).key for n in (3, 2, 1)]
    assert [s.key for s in store.find("gemm", limit=9, before=page[-1].number)] == [entry_of(0).key]
    assert store.find(machine="b200") == ()
    assert (page[0].ii, page[0].optimal, page[0].registers > 0, page[0].bytes > 1000) == (512, True, True, True)


def test_deletion_takes_the_artifacts_too(store: SqliteStore) -> None:
    store.keep(entry_of(), H100)
    store.put_artifact(entry_of().key, "a", b"1")
    assert store.delete(entry_of().key)
    assert not store.delete(entry_of().key)
    assert store.get(entry_of().key) is None
    assert store.get_artifact(entry_of().key, "a") is None


def test_an_artifact_replaces_one_of_its_name(store: SqliteStore) -> None:
    store.put_artifact("k", "a", b"1")
    store.put_artifact("k", "a", b"22")
    store.put_artifact("k", "b", b"")
    assert [store.get_artifact("k", name) for name in "abc"] == [b"22", b"", None]
