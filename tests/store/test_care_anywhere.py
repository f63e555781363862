"""Promises of looking after a store, in SQLite and in PostgreSQL alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels import H100
from tests.postgres import server
from tests.stores import entry_of
from twill.cli import main
from twill.store.maintenance import artifact_names, collect, keys, quarantined, size, verify
from twill.store.objects import LARGE, Objects
from twill.store.postgres import PostgresStore
from twill.store.sql import SqlStore


def test_what_is_there_is_told_by_key_and_kernel(anywhere: SqlStore) -> None:
    for entry in (entry_of(0), entry_of(1), entry_of(name="layer_norm")):
        anywhere.keep(entry, H100)
    anywhere.put_artifact(entry_of(1).key, "b.cu", b"2")
    assert keys(anywhere, kernel="gemm") == (entry_of(0).key, entry_of(1).key)
    assert keys(anywhere, entry_of(1).key[:10]) == (entry_of(1).key,)
    assert artifact_names(anywhere, entry_of(1).key) == ("b.cu",)
    listed = size(anywhere)
    assert (listed.schedules, listed.artifacts, listed.quarantined) == (3, 1, 0) and min(listed.bytes, listed.file) > 0


def test_what_is_bad_is_found_and_what_is_old_is_removed_unless_it_is_pinned(anywhere: SqlStore) -> None:
    for number in range(3):
        anywhere.keep(entry_of(number), H100)
    anywhere.put_artifact(entry_of(0).key, "a", b"good")
    assert [finding.reason for finding in verify(anywhere)] == [""] * 4
    with anywhere.writing() as c:
        c.execute("UPDATE artifacts SET data = ?", (b"evil",))
        c.execute("UPDATE schedules SET used = 0 WHERE key <> ?", (entry_of(2).key,))
    assert [finding.what for finding in verify(anywhere) if finding.reason] == ["artifact a"]
    assert [bad.what for bad in quarantined(anywhere)] == ["artifact a"]
    anywhere.pin(entry_of(1).key)
    assert collect(anywhere, days=1) > 0
    assert set(keys(anywhere)) == {entry_of(1).key, entry_of(2).key} and quarantined(anywhere) == ()


def test_the_command_looks_after_the_store_of_a_service(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, objects = server().fresh(), f"file://{tmp_path}/objects"
    store = PostgresStore(url, Objects(objects))
    store.keep(entry_of(), H100)
    store.put_artifact(entry_of().key, "notes.txt", b"x" * (LARGE + 1))
    assert main(["store", "verify", "--store", url]) == 6  # it cannot look into what is elsewhere
    monkeypatch.setenv("TWILL_OBJECTS", objects)
    assert main(["store", "verify", "--store", url]) == 0
    assert main(["store", "export", str(tmp_path / "all"), "--store", url]) == 0
    assert main(["store", "rm", entry_of().key[:12], "--store", url]) == 0
    assert main(["store", "import", str(tmp_path / "all"), "--store", url]) == 0
    assert store.get(entry_of().key) is not None
    assert store.get_artifact(entry_of().key, "notes.txt") == b"x" * (LARGE + 1)
    assert "database postgres at 127.0.0.1" in capsys.readouterr().out
    store.close()
