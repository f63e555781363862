"""Promises of looking after the file: verify finds everything bad, gc makes it smaller, lists say what is there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernels import H100
from tests.store_files import change, plant
from tests.stores import entry_of, poisons
from twill.store.examine import mark
from twill.store.maintenance import artifact_names, collect, keys, quarantined, size, verify
from twill.store.rows import row_of
from twill.store.sqlite import SqliteStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    """Three entries, one with artifacts."""
    one = SqliteStore(tmp_path / "s")
    for entry in (entry_of(0), entry_of(1), entry_of(name="layer_norm")):
        one.keep(entry, H100)
    one.put_artifact(entry_of(1).key, "b.cu", b"2")
    one.put_artifact(entry_of(1).key, "a.cubin", b"1" * 1000)
    yield one
    one.close()


def test_keys_by_their_beginning_kernel_and_machine(store: SqliteStore) -> None:
    three = (entry_of(0).key, entry_of(1).key, entry_of(name="layer_norm").key)
    assert keys(store) == three
    assert keys(store, three[1][:10]) == (three[1],)
    assert keys(store, kernel="gemm") == three[:2]
    assert keys(store, machine="b200") == ()
    assert artifact_names(store, three[1]) == ("a.cubin", "b.cu")


def test_a_good_store_is_good(store: SqliteStore) -> None:
    findings = list(verify(store))
    assert [finding.reason for finding in findings] == [""] * 5
    assert [finding.what for finding in findings[3:]] == ["artifact a.cubin", "artifact b.cu"]


def test_verify_does_not_believe_marks(store: SqliteStore) -> None:
    poison = poisons()["illegal"]
    plant(store, poison)
    row = row_of(poison)
    forged = mark(
        poison.key, poison.machine_digest, poison.schedule_digest, str(row["graph_digest"]), digest_of(row["asked"])
    )
    change(store, "UPDATE schedules SET checked = ? WHERE key = ?", forged, poison.key)
    bad = [finding for finding in verify(store) if finding.reason]
    assert [finding.key for finding in bad] == [poison.key]
    assert "breaks the rules" in bad[0].reason
    assert store.get(poison.key) is None


def digest_of(data: object) -> str:
    """As `rows.sha256`."""
    from twill.store.rows import sha256

    assert isinstance(data, bytes)
    return sha256(data)


def test_verify_finds_changed_artifacts_and_lists(store: SqliteStore) -> None:
    change(store, "UPDATE artifacts SET data = ? WHERE name = 'b.cu'", b"3")
    change(store, "UPDATE schedules SET ii = 1 WHERE kernel = 'layer_norm'")
    bad = {finding.what: finding.reason for finding in verify(store) if finding.reason}
    assert bad == {
        "artifact b.cu": "its bytes do not have the hash they were stored with",
        "schedule": "what it is listed as is not what it is",
    }
    assert len(quarantined(store)) == 2
    assert [finding.reason for finding in verify(store)] == [""] * 3


def test_collect_removes_the_least_recently_used_to_the_limit(store: SqliteStore) -> None:
    change(store, "UPDATE schedules SET used = 5 WHERE key = ?", entry_of(0).key)
    one = store.find()[-1].bytes
    total = sum(summary.bytes for summary in store.find()) + 1001
    assert collect(store, total - 1) == one
    assert keys(store) == (entry_of(1).key, entry_of(name="layer_norm").key)


def test_collect_removes_what_was_not_used_for_days(store: SqliteStore) -> None:
    change(store, "UPDATE schedules SET used = 5 WHERE kernel = 'gemm'")
    change(store, "UPDATE artifacts SET used = 5 WHERE name = 'b.cu'")
    store.get(entry_of(1).key)  # is used now, though that is not written down yet
    collect(store, days=1.0)
    assert keys(store) == (entry_of(1).key, entry_of(name="layer_norm").key)
    assert artifact_names(store, entry_of(1).key) == ("a.cubin",)


def test_collect_empties_quarantine_and_gives_room_back(store: SqliteStore) -> None:
    for n in range(50):
        store.put_artifact("k", f"{n}", b"x" * 10_000)
    change(store, "UPDATE artifacts SET data = ? WHERE name = '7'", b"y")
    assert store.get_artifact("k", "7") is None
    before = size(store)
    assert before.quarantined == 1
    assert collect(store, 0) > 500_000
    after = size(store)
    assert (after.schedules, after.artifacts, after.quarantined, after.bytes) == (0, 0, 0, 0)
    assert after.file < before.file / 4
    assert store.machine("h100", H100.digest()) == H100
