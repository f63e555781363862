"""Promises of the store in a file: it stays below its limit, and the least recently used gives way."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.kernels import H100
from tests.store_files import change
from tests.stores import entry_of
from twill.exc import StoreUnavailable
from twill.store.maintenance import keys
from twill.store.sqlite import SqliteStore


def test_the_least_recently_used_gives_way_when_the_limit_is_reached(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s", limit=100_000)
    store.put_artifact("k", "old", b"x" * 30_000)
    store.put_artifact("k", "used", b"x" * 30_000)
    store.put_artifact("k", "newer", b"x" * 30_000)
    assert store.get_artifact("k", "old")  # now "used" is the least recently used
    store.put_artifact("k", "new", b"x" * 30_000)
    assert [bool(store.get_artifact("k", name)) for name in ("old", "used", "newer", "new")] == [
        True,
        False,
        True,
        True,
    ]
    store.close()


def test_schedules_and_artifacts_share_the_limit(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s", limit=40_000)
    for number in range(8):
        store.keep(entry_of(number), H100)
    assert 0 < len(keys(store)) < 5
    assert store.get(entry_of(7).key) is not None
    store.put_artifact("k", "large", b"x" * 36_000)
    assert keys(store) == ()
    with sqlite3.connect(store.path) as connection:
        counted = dict(connection.execute("SELECT name, bytes FROM totals"))
        assert counted["schedules"] == 0
        assert counted["artifacts"] == 36_000
    connection.close()
    store.close()


def test_what_could_never_be_kept_is_refused(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s", limit=1000)
    with pytest.raises(StoreUnavailable, match="too large for its limit of 1000"):
        store.put_artifact("k", "a", b"x" * 1000)
    with pytest.raises(StoreUnavailable, match="too large"):
        store.keep(entry_of(), H100)
    store.close()


def test_look_ups_are_written_down_together_and_at_the_end(store: SqliteStore) -> None:
    store.keep(entry_of(), H100)
    change(store, "UPDATE schedules SET used = 1")
    store.get(entry_of().key)
    with sqlite3.connect(store.path) as connection:
        assert connection.execute("SELECT used FROM schedules").fetchone() == (1.0,)
        store.close()
        assert connection.execute("SELECT used FROM schedules").fetchone()[0] > 1e9
    connection.close()
