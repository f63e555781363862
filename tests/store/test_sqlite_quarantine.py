"""Promises of the store in a file: nothing bad ever comes out, and what was found is kept beside."""

from __future__ import annotations

import logging
import sqlite3

import pytest

from tests.kernels import H100
from tests.store_files import change, plant, rehash
from tests.stores import asked_of, entry_of, graph_of, poisons, schedule_of
from twill.machine.description import Machine
from twill.store import sql as sqlite_module
from twill.store.examine import examine
from twill.store.interface import Entry
from twill.store.maintenance import quarantined
from twill.store.sqlite import SqliteStore

POISONS = tuple(name for name, entry in poisons().items() if entry.key == entry_of().key)


@pytest.mark.parametrize("which", POISONS)
def test_a_poisoned_entry_reads_as_a_miss_and_goes_into_quarantine(store: SqliteStore, which: str) -> None:
    store.keep(entry_of(), H100)
    plant(store, poisons()[which])
    key = entry_of().key
    assert store.get(key) is None
    assert store.find() == ()
    (bad,) = quarantined(store)
    assert (bad.key, bad.what) == (key, "schedule")
    assert bad.reason
    assert store.put(schedule_of(), graph_of(), asked=asked_of(0)) == store.get(key)


def test_what_is_kept_takes_the_place_of_a_bad_entry(store: SqliteStore) -> None:
    plant(store, poisons()["illegal"])
    assert store.keep(entry_of(), H100) == entry_of() == store.get(entry_of().key)
    assert len(quarantined(store)) == 1


@pytest.mark.parametrize("column", ["schedule", "graph", "asked", "created", "machine_digest", "head_digest"])
def test_changed_bytes_are_found_by_their_hash(store: SqliteStore, column: str) -> None:
    store.keep(entry_of(), H100)
    kind = "BLOB" if column in ("schedule", "graph", "asked") else "TEXT"
    change(
        store, f"UPDATE schedules SET {column} = cast(substr({column}, 1, 7) || ' ' || substr({column}, 9) AS {kind})"
    )
    assert store.get(entry_of().key) is None
    assert quarantined(store)[0].reason == "its bytes do not have the hash they were stored with"


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("schedule", b"{"),
        ("schedule", b"\xff\x00"),
        ("schedule", b'{"schema": "twill.schedule/9"}'),
        ("schedule", b"[" * 10_000),
        ("graph", b"[]"),
        ("asked", b"null"),
        ("schedule", "text, not bytes"),
        ("asked", 7),
    ],
)
def test_what_does_not_parse_goes_into_quarantine(store: SqliteStore, column: str, value: object) -> None:
    store.keep(entry_of(), H100)
    change(store, f"UPDATE schedules SET {column} = ?", value)
    rehash(store)
    assert store.get(entry_of().key) is None
    assert len(quarantined(store)) == 1


def test_a_mark_of_other_content_or_another_checker_does_not_count(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Entry] = []

    def watched(entry: Entry, machine: Machine) -> str:
        asked.append(entry)
        return examine(entry, machine)

    monkeypatch.setattr(sqlite_module, "examine", watched)
    store.keep(entry_of(), H100)
    assert store.get(entry_of().key) is not None
    assert asked == []  # what was put was examined then
    change(store, "UPDATE schedules SET checked = 'somebody''s'")
    assert store.get(entry_of().key, graph=False) is not None
    assert store.get(entry_of().key) is not None
    assert len(asked) == 1
    monkeypatch.setattr("twill.store.examine.checker", lambda: "a newer one")
    assert store.get(entry_of().key) is not None
    assert len(asked) == 2


def test_a_changed_artifact_goes_into_quarantine(store: SqliteStore) -> None:
    store.put_artifact("k", "a.cu", b"kernel")
    change(store, "UPDATE artifacts SET data = ?", b"Kernel")
    assert store.get_artifact("k", "a.cu") is None
    assert [(bad.key, bad.what, bad.bytes) for bad in quarantined(store)] == [("k", "artifact a.cu", 6)]
    assert store.get_artifact("k", "a.cu") is None
    assert len(quarantined(store)) == 1


def test_the_reason_is_logged_once(store: SqliteStore, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        plant(store, poisons()["illegal"])
        assert store.get(entry_of().key) is None
    assert len([r for r in caplog.records if r.levelno == logging.WARNING]) == 1
    assert "put into quarantine: its schedule breaks the rules" in caplog.text


def test_quarantine_is_bounded(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_module, "KEPT_IN_QUARANTINE", 2)
    for number in range(4):
        store.put_artifact("k", f"{number}", b"x")
    change(store, "UPDATE artifacts SET data = ?", b"y")
    assert [store.get_artifact("k", f"{number}") for number in range(4)] == [None] * 4
    assert [bad.what for bad in quarantined(store)] == ["artifact 3", "artifact 2"]


def test_a_bad_entry_in_a_file_that_cannot_be_written_is_a_miss_every_time(store: SqliteStore) -> None:
    plant(store, poisons()["illegal"])
    reader = SqliteStore(store.path, wait=0.05)
    writer = sqlite3.connect(store.path, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")  # nobody else can write
    assert reader.get(entry_of().key) is None
    assert reader.get(entry_of().key) is None
    writer.execute("ROLLBACK")
    writer.close()
    assert reader.get(entry_of().key) is None
    assert len(quarantined(reader)) == 1
    reader.close()
