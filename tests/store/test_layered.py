"""Promises of the levels together: each keeps what the next one found; what fails is no error and no long wait."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kernels import H100
from tests.services import dead_address, drip, entry_answer, playing, refusal, silence
from tests.store.test_http import BAD
from tests.stores import asked_of, entry_of, graph_of, poisons, schedule_of
from twill.store.client import Client
from twill.store.http import HttpStore
from twill.store.layered import LayeredStore
from twill.store.memory import MemoryStore
from twill.store.sqlite import SqliteStore

KEY = entry_of().key


def soon(condition: Callable[[], bool]) -> bool:
    """Whether a condition comes true within a few seconds."""
    end = time.monotonic() + 5
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def layers(path: Path | None = None, address: str = "", budget: float | None = 5.0) -> LayeredStore:
    """A store of those levels."""
    http = HttpStore(Client(address, seconds=0.5, tries=1)) if address else None
    store = LayeredStore(MemoryStore(), SqliteStore(path) if path else None, http, budget=budget)
    store.know(H100)
    return store


def test_what_the_file_has_is_kept_in_memory(tmp_path: Path) -> None:
    store = layers(tmp_path / "s")
    assert store.sqlite is not None
    store.sqlite.keep(entry_of(), H100)
    assert store.get(KEY, graph=False) == entry_of().model_copy(update={"graph": None})
    assert store.memory.get(KEY, graph=False) is not None
    assert store.get(KEY) == entry_of() == store.memory.get(KEY)
    store.close()


def test_what_the_service_has_is_kept_in_file_and_memory(tmp_path: Path) -> None:
    with playing(entry_answer(entry_of())) as service:
        store = layers(tmp_path / "s", service.address)
        assert store.get(KEY) == entry_of()
        assert store.get(KEY) == entry_of()
        assert len(service.seen) == 1
        store.close()
    offline = layers(tmp_path / "s")
    assert offline.get(KEY) == entry_of()
    offline.close()


def test_a_put_is_in_file_and_memory(tmp_path: Path) -> None:
    store = layers(tmp_path / "s")
    entry = store.put(schedule_of(), graph_of(), asked=asked_of(0), machine=H100)
    assert store.memory.get(KEY) == entry
    assert store.sqlite is not None
    assert store.sqlite.get(KEY) == entry
    assert [summary.key for summary in store.find()] == [KEY]
    store.put_artifact(KEY, "a", b"1")
    store.memory.artifacts.clear()
    assert [store.get_artifact(KEY, "a") for _ in range(2)] == [b"1", b"1"]
    assert store.memory.get_artifact(KEY, "a") == b"1"
    assert store.delete(KEY)
    assert store.get(KEY) is None
    assert store.get_artifact(KEY, "a") is None
    assert not store.delete(KEY)
    store.close()


def test_memory_alone_is_a_store() -> None:
    store = layers()
    entry = store.put(schedule_of())
    assert store.get(KEY) == entry
    assert len(store.find()) == 1
    assert store.get_artifact(KEY, "a") is None
    assert store.delete(KEY)
    store.close()


def test_a_file_that_is_damaged_is_a_miss_and_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = layers(tmp_path / "s")
    assert store.sqlite is not None
    store.put_artifact(KEY, "a", b"1")
    with sqlite3.connect(tmp_path / "s") as connection:
        connection.execute("DROP TABLE schedules")
    connection.close()
    assert [store.get(KEY) for _ in range(2)] == [None, None]
    assert len(caplog.records) == 1
    entry = store.put(schedule_of(), graph_of(), asked=asked_of(0))
    assert store.get(KEY) == entry  # memory has it
    store.close()


@pytest.mark.parametrize("which", BAD)
def test_a_bad_service_is_a_miss_for_every_look_up(
    which: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with playing(BAD[which]) as service:
        store = layers(tmp_path / "s", service.address)
        assert [store.get(KEY) for _ in range(3)] == [None] * 3
        assert store.find() == ()
        store.close()
    assert len([r for r in caplog.records if r.levelno >= logging.WARNING]) == 1


@pytest.mark.parametrize("reply", [silence, drip])
def test_a_slow_service_delays_look_ups_once_and_by_the_budget(
    reply: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    with playing(reply) as service:
        store = layers(address=service.address, budget=0.05)
        begun = time.monotonic()
        assert store.get(KEY) is None
        first = time.monotonic()
        assert 0.05 <= first - begun < 0.5
        assert [store.get(f"{n:064}") for n in range(50)] == [None] * 50
        assert time.monotonic() - first < 0.5  # fifty waits would be 2.5 s
        assert [r.message for r in caplog.records] == [f"the service {service.address} did not answer within 0.05 s"]
        assert soon(lambda: not store.fetching)
        store.close()


def test_what_comes_too_late_is_there_the_next_time(tmp_path: Path) -> None:
    def late(*given: object) -> None:
        time.sleep(0.2)
        entry_answer(entry_of())(*given)  # type: ignore[arg-type]

    with playing(late) as service:
        store = layers(tmp_path / "s", service.address, budget=0.01)
        assert store.get(KEY) is None
        assert soon(lambda: store.get(KEY) is not None)
        assert store.get(KEY) == entry_of()
        assert len(service.seen) == 1
        store.close()


def test_a_miss_is_not_asked_for_again_for_a_while() -> None:
    now = [0.0]
    with playing(refusal(404)) as service:
        http = HttpStore(Client(service.address))
        store = LayeredStore(MemoryStore(), None, http, budget=5.0, clock=lambda: now[0])
        assert [store.get(KEY) for _ in range(3)] == [None] * 3
        assert len(service.seen) == 1
        now[0] += 61
        assert store.get(KEY) is None
        assert len(service.seen) == 2
        store.close()


def test_fetches_at_a_time_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twill.store.layered.FETCHES", 2)
    with playing(silence) as service:
        store = layers(address=service.address, budget=0.01)
        assert [store.get(f"{n:064}") for n in range(9)] == [None] * 9
        assert len(store.fetching) == 2
        assert soon(lambda: not store.fetching)
        store.close()


def test_a_mistake_in_the_background_is_a_miss_and_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = layers(address=dead_address())
    monkeypatch.setattr(store.http, "get", lambda key: 1 / 0)
    assert store.get(KEY) is None
    assert "a look-up at the service failed: ZeroDivisionError" in caplog.text
    store.close()


def test_nothing_is_kept_after_the_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def late(*given: object) -> None:
        time.sleep(0.2)
        entry_answer(entry_of())(*given)  # type: ignore[arg-type]

    with playing(late) as service:
        store = layers(tmp_path / "s", service.address, budget=0.0)
        assert store.get(KEY) is None
        store.closed = True
        assert soon(lambda: not store.fetching)
        assert store.memory.get(KEY) is None
        store.close()


def test_a_poisoned_file_falls_through_to_the_service(tmp_path: Path) -> None:
    from tests.store_files import plant

    with playing(entry_answer(entry_of())) as service:
        store = layers(tmp_path / "s", service.address)
        assert store.sqlite is not None
        plant(store.sqlite, poisons()["illegal"])
        assert store.get(KEY) == entry_of()
        assert store.sqlite.get(KEY) == entry_of()
        store.close()
