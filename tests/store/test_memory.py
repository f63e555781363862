"""Promises of the store in memory."""

from __future__ import annotations

import threading

import pytest

from tests.kernels import H100
from tests.stores import asked_of, entry_of, graph_of, illegal, numbered, schedule_of
from twill.exc import InvalidSchedule, UnknownMachine
from twill.store.memory import MemoryStore


def filled(count: int, limit: int = 100) -> MemoryStore:
    """A store with that many entries put into it."""
    store = MemoryStore(limit)
    for number in range(count):
        store.hold(entry_of(number))
    return store


def test_what_was_put_is_found_under_its_key() -> None:
    store = MemoryStore()
    entry = store.put(numbered(1), graph_of(), asked=asked_of(1), machine=H100)
    assert store.get(entry.key) is entry
    assert (entry.schedule, entry.graph, entry.asked) == (numbered(1), graph_of(), asked_of(1))
    assert store.get("0" * 64) is None


def test_the_described_machine_is_found_by_its_name() -> None:
    assert MemoryStore().put(schedule_of()).machine == "h100"


def test_the_first_schedule_of_a_key_stays() -> None:
    store = MemoryStore()
    first = store.put(schedule_of(), graph_of(), asked=asked_of(0))
    assert store.put(schedule_of().model_copy(update={"solve_seconds": 9.0}), graph_of()) is first


def test_an_entry_with_its_graph_replaces_one_without() -> None:
    store = MemoryStore()
    store.put(schedule_of())
    assert store.put(schedule_of(), graph_of(), asked=asked_of(0)).graph == graph_of()
    assert store.get(schedule_of().key) == store.put(schedule_of())


def test_a_bad_schedule_is_refused() -> None:
    with pytest.raises(InvalidSchedule, match="breaks the rules"):
        MemoryStore().put(illegal(schedule_of()))


def test_a_schedule_for_an_unknown_machine_is_refused() -> None:
    with pytest.raises(UnknownMachine):
        MemoryStore().put(schedule_of().model_copy(update={"machine": "nowhere"}))


def test_the_least_recently_used_gives_way() -> None:
    store = filled(3, limit=3)
    assert store.get(entry_of(0).key)
    store.hold(entry_of(3))
    assert [store.get(entry_of(n).key) is not None for n in range(4)] == [True, False, True, True]


def test_an_entry_read_without_its_graph_does_not_pass_for_a_whole_one() -> None:
    store = MemoryStore()
    store.hold(entry_of().model_copy(update={"graph": None}), whole=False)
    assert store.get(entry_of().key) is None
    assert store.get(entry_of().key, graph=False) is not None
    store.hold(entry_of())
    store.hold(entry_of().model_copy(update={"graph": None}), whole=False)
    assert store.get(entry_of().key) == entry_of()


def test_lists_are_newest_first_and_go_on_where_they_ended() -> None:
    store = filled(5)
    page = store.find(limit=2)
    assert [summary.key for summary in page] == [entry_of(4).key, entry_of(3).key]
    assert [s.key for s in store.find(limit=9, before=page[-1].number)] == [entry_of(n).key for n in (2, 1, 0)]


def test_lists_are_by_kernel_and_machine() -> None:
    store = filled(2)
    store.hold(entry_of(name="layer_norm"))
    assert [s.kernel for s in store.find(kernel="layer_norm")] == ["layer_norm"]
    assert [s.kernel for s in store.find(machine="b200")] == []
    assert len(store.find(kernel="gemm", machine="h100")) == 2


def test_deletion_takes_the_artifacts_too() -> None:
    store = filled(1)
    store.put_artifact(entry_of(0).key, "a.cu", b"x")
    assert store.delete(entry_of(0).key)
    assert not store.delete(entry_of(0).key)
    assert store.get_artifact(entry_of(0).key, "a.cu") is None


def test_artifacts_give_way_by_their_bytes() -> None:
    store = MemoryStore(artifact_bytes=10)
    store.put_artifact("k", "a", b"12345")
    store.put_artifact("k", "b", b"12345")
    assert store.get_artifact("k", "a") == b"12345"
    store.put_artifact("k", "c", b"1")
    assert [store.get_artifact("k", name) for name in "abc"] == [b"12345", None, b"1"]
    store.put_artifact("k", "a", b"1")
    assert store.artifact_bytes == 2
    store.put_artifact("k", "huge", b"x" * 11)
    assert store.get_artifact("k", "huge") is None


def test_many_threads_lose_nothing() -> None:
    store, entries = MemoryStore(), [entry_of(n) for n in range(40)]
    missing: list[str] = []

    def work(mine: int) -> None:
        for entry in entries[mine::4]:
            store.hold(entry)
            if store.get(entry.key) is not entry:
                missing.append(entry.key)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert missing == []
    assert len(store.find(limit=100)) == 40


def test_a_closed_store_is_empty() -> None:
    store = filled(1)
    store.close()
    assert store.get(entry_of(0).key) is None
