"""Promises of the store in a file: many processes and threads at once, killed or forked, and a file that is damaged."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.conftest import ROOT
from tests.kernels import H100
from tests.stores import entry_of
from twill.exc import StoreUnavailable
from twill.store.maintenance import keys, verify
from twill.store.sqlite import SqliteStore


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
