"""Promises of the store in a file: what was put is there, for everybody, and nothing bad ever comes out."""

from __future__ import annotations

import logging
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.kernels import H100
from tests.stores import asked_of, entry_of, graph_of, illegal, numbered, poisons, schedule_of
from twill.exc import InvalidSchedule, StoreUnavailable
from twill.machine import Machine
from twill.store import sqlite as sqlite_module
from twill.store.care import keys, quarantined, verify
from twill.store.examine import examine
from twill.store.interface import Entry
from twill.store.rows import head_of, row_of, sha256
from twill.store.sqlite import SqliteStore

POISONS = tuple(name for name, entry in poisons().items() if entry.key == entry_of().key)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    """An empty store."""
    one = SqliteStore(tmp_path / "deep" / "store.sqlite3")
    yield one
    one.close()


def again(store: SqliteStore) -> SqliteStore:
    """The same file, as another process opens it."""
    return SqliteStore(store.path)


def change(store: SqliteStore, statement: str, *values: object) -> None:
    """Write into the file behind the store's back."""
    connection = sqlite3.connect(store.path)
    with connection:
        connection.execute(statement, values)
    connection.close()


def plant(store: SqliteStore, entry: Entry) -> None:
    """Write an entry into the file as it is, with hashes that fit, but without a mark that it was examined."""
    row = row_of(entry) | {"checked": "", "key": entry_of().key}
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    change(store, f"INSERT OR REPLACE INTO schedules ({names}) VALUES ({marks})", *row.values())


def rehash(store: SqliteStore) -> None:
    """Make every hash of the one entry fit what is in its row, as somebody who means harm would."""
    connection = sqlite3.connect(store.path)
    row = connection.execute("SELECT key, machine_digest, created, schedule, graph, asked FROM schedules").fetchone()
    key, machine, created, schedule, graph, asked = (part if isinstance(part, bytes) else str(part) for part in row)
    texts = [part if isinstance(part, bytes) else part.encode() for part in (schedule, graph, asked)]
    digests = (sha256(texts[0]), sha256(texts[1]))
    head = head_of(texts[2], (str(key), str(machine), str(created), *digests))
    with connection:
        connection.execute(
            "UPDATE schedules SET schedule_digest = ?, graph_digest = ?, head_digest = ?", (*digests, head)
        )
    connection.close()


# -- what is put is there -----------------------------------------------------------------------


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
    from twill.key import schedule_key

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


# -- nothing bad comes out ----------------------------------------------------------------------


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


# -- what gives way -----------------------------------------------------------------------------


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


# -- many at once -------------------------------------------------------------------------------


def samples(tmp_path: Path) -> Path:
    """A file of entries for `store_worker`."""
    path = tmp_path / "samples"
    path.write_text(entry_of().canonical() + "\n", encoding="utf-8")
    return path


def worker(what: str, store: Path, sample_file: Path, first: int, count: int) -> subprocess.Popen[str]:
    """A process that works on a store."""
    words = [sys.executable, "-m", "tests.store_worker", what, str(store), str(sample_file), str(first), str(count)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def test_processes_that_begin_and_write_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    path, sample_file = tmp_path / "s", samples(tmp_path)
    processes = [worker("mixed", path, sample_file, seed, 40) for seed in range(4)]
    assert [process.communicate()[0] for process in processes] == [""] * 4
    assert [process.returncode for process in processes] == [0] * 4
    store = SqliteStore(path)
    assert len(keys(store)) == 20
    assert [finding for finding in verify(store) if finding.reason] == []
    store.close()


def test_kill_at_any_moment_leaves_every_entry_that_was_acknowledged(tmp_path: Path) -> None:
    path, sample_file = tmp_path / "s", samples(tmp_path)
    chance = random.Random(7)
    acknowledged: list[str] = []
    for attempt in range(4):
        process = worker("write", path, sample_file, attempt * 10_000, 10_000)
        assert process.stdout is not None
        acknowledged.append(process.stdout.readline().strip())  # it is writing now
        time.sleep(chance.uniform(0.0, 0.1))
        os.kill(process.pid, signal.SIGKILL)
        acknowledged += [
            line.strip() for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")
        ]
        process.wait()
        process.stdout.close()
        store = SqliteStore(path)
        assert [key for key in acknowledged if store.get(key, graph=False) is None] == []
        assert [key for key in acknowledged if store.get_artifact(key, "a.cu") != key.encode() * 100] == []
        store.close()
    store = SqliteStore(path)
    assert [finding for finding in verify(store) if finding.reason] == []
    store.close()


def test_threads_share_a_store(store: SqliteStore) -> None:
    wrong: list[str] = []

    def work(mine: int) -> None:
        for number in range(mine, 24, 4):
            store.keep(entry_of(number), H100)
            if store.get(entry_of(number).key) != entry_of(number):
                wrong.append(entry_of(number).key)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(keys(store)) == 24


def test_a_fork_uses_connections_of_its_own(store: SqliteStore) -> None:
    store.keep(entry_of(0), H100)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            store.keep(entry_of(1), H100)
            code = 0 if store.get(entry_of(0).key) is not None and len(store.database.strangers) == 1 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(keys(store)) == 2


def test_a_file_damaged_anywhere_gives_what_was_put_or_nothing(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    store = SqliteStore(whole)
    for number in range(2):
        store.keep(entry_of(number), H100)
        store.put_artifact(entry_of(number).key, "a", b"x" * 5000)
    store.close()
    data = whole.read_bytes()
    chance = random.Random(11)
    outcomes: set[str] = set()
    for attempt in range(60):
        damaged = bytearray(data)
        for _ in range(chance.choice((1, 3, 20))):
            place = chance.randrange(len(damaged))
            if chance.random() < 0.5:
                damaged[place] ^= 1 << chance.randrange(8)
            else:
                damaged[place : place + 64] = chance.randbytes(len(damaged[place : place + 64]))
        path = tmp_path / f"{attempt}"
        path.write_bytes(damaged)
        try:
            one = SqliteStore(path, wait=0.1)
            for number in range(2):
                found = one.get(entry_of(number).key)
                assert found in (None, entry_of(number))
                assert one.get_artifact(entry_of(number).key, "a") in (None, b"x" * 5000)
                outcomes.add("miss" if found is None else "hit")
            one.find()
            list(verify(one))
            one.close()
        except StoreUnavailable:
            outcomes.add("refused")
    assert outcomes == {"hit", "miss", "refused"}
