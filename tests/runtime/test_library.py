"""Promises of the kernels of a process: looked up once, waited for within the budget, and no error whatever happens."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.manifests import CODE, KERNEL
from twill.exc import StoreUnavailable
from twill.runtime import library as module
from twill.runtime.artifact import NAME, artifact, refusal, to_text
from twill.runtime.helper import Helper
from twill.runtime.library import Inquiry, Library, Shelf, library, path_of
from twill.runtime.policy import settings
from twill.runtime.reasons import NOTES
from twill.runtime.request import Prepared, PrepareRequest
from twill.runtime.variant import Unsupported
from twill.store.sqlite import SqliteStore

PATIENCE = 20.0
REQUEST = PrepareRequest("k1", "gemm", "gemm.py", (), (), (), (), "module", "h200", True, 1.0, "off", "")


class Played(Helper):
    """A helper that answers at once, on the library's thread. A KeyError: it would not have been asked."""

    def __init__(self, **answers: Prepared) -> None:
        self.answers = answers
        self.asked: list[PrepareRequest] = []

    def ask(
        self, request: PrepareRequest, notify: Callable[[Prepared], None], launches: Callable[[], int] = lambda: 0
    ) -> None:
        self.asked.append(request)
        notify(self.answers[request.key])


@pytest.fixture(autouse=True)
def notes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is said for all kernels."""
    said: list[str] = []
    monkeypatch.setattr(NOTES, "report", said.append)
    yield said


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A store with the kernel "k1", and "k2", which was refused."""
    store = SqliteStore(tmp_path / "s")
    store.put_artifact("k1", NAME, artifact("k1", KERNEL.text(), CODE))
    store.put_artifact("k2", NAME, refusal("k2", "a scan"))
    store.put_artifact("k3", NAME, artifact("k1", KERNEL.text(), CODE))
    store.close()
    return str(tmp_path / "s")


def shelf_of(one: Library, key: str) -> Shelf:
    """What becomes of a look-up."""
    inquiry = one.find(lambda: key, PATIENCE)
    assert inquiry.over.is_set() and inquiry.shelf is not None, inquiry.failure
    return inquiry.shelf


def settled(one: Library, request: PrepareRequest) -> Shelf:
    """What becomes of a kernel that is to be prepared."""
    shelf = shelf_of(one, request.key)
    one.prepare(shelf, request)
    assert shelf.settled.wait(PATIENCE)
    return shelf


def test_a_stored_kernel_is_found_and_read_once(path: str) -> None:
    one = Library(path, "", Played())
    shelf = shelf_of(one, "k1")
    assert (shelf.state, shelf.reason, shelf.settled.is_set()) == ("ready", "", True)
    assert shelf.kernel is not None and shelf.kernel.cubin == CODE
    assert shelf_of(one, "k1") is shelf


def test_a_stored_refusal_is_final(path: str) -> None:
    shelf = shelf_of(Library(path, "", Played()), "k2")
    assert (shelf.state, shelf.reason, shelf.kernel) == ("refused", "a scan", None)
    assert shelf.settled.is_set()


def test_another_kernel_under_a_key_is_a_miss_that_is_told(path: str, notes: list[str]) -> None:
    assert shelf_of(Library(path, "", Played()), "k3").state == "missing"
    assert notes == ["the stored kernel is that of key k1"]


def test_without_a_store_everything_is_missing() -> None:
    shelf = shelf_of(Library(None, "", Played()), "k1")
    assert (shelf.state, shelf.settled.is_set()) == ("missing", False)


@pytest.mark.parametrize(
    ("error", "said"), [(Unsupported("a tuple"), "a tuple"), (OSError("oh"), "the look-up failed: OSError: oh")]
)
def test_a_key_that_cannot_be_made_is_a_failure_of_its_inquiry(error: Exception, said: str) -> None:
    def key() -> str:
        raise error

    inquiry = Library(None, "", Played()).find(key, PATIENCE)
    assert (inquiry.over.is_set(), inquiry.shelf, inquiry.failure) == (True, None, said)


def test_a_look_up_that_takes_longer_comes_later() -> None:
    one, go = Library(None, "", Played()), threading.Event()

    def slow() -> str:
        go.wait(PATIENCE)
        return "k1"

    inquiry = one.find(slow, 0.0)
    assert (inquiry.over.is_set(), inquiry.shelf) == (False, None)
    go.set()
    assert inquiry.over.wait(PATIENCE) and inquiry.shelf is not None


def test_a_slow_look_up_does_not_hold_the_others() -> None:
    one, go = Library(None, "", Played()), threading.Event()

    def slow() -> str:
        go.wait(PATIENCE)
        return "slow"

    waiting = [one.inquire(slow) for _ in range(module.THREADS - 1)]
    for number in range(5):
        assert shelf_of(one, f"k{number}").state == "missing"
    assert [inquiry.over.is_set() for inquiry in waiting] == [False] * len(waiting)
    go.set()
    assert all(inquiry.over.wait(PATIENCE) for inquiry in waiting)
    assert len(one.threads) <= module.THREADS


def test_a_task_that_fails_does_not_end_the_others(notes: list[str]) -> None:
    one = Library(None, "", Played())
    one.later(lambda: [][0])
    assert shelf_of(one, "k1").state == "missing"
    assert notes == ["a look-up failed: IndexError: list index out of range"]


def test_a_missing_kernel_is_prepared_once_and_its_notes_are_told(notes: list[str]) -> None:
    text = to_text(artifact("k1", KERNEL.text(), CODE))
    helper = Played(k1=Prepared("k1", "emitted", notes=("the service is down",), artifact=text))
    one = Library(None, "", helper)
    shelf = settled(one, REQUEST)
    assert (shelf.state, shelf.kernel is not None, notes) == ("ready", True, ["the service is down"])
    one.prepare(shelf, REQUEST)
    assert shelf_of(one, "k1") is shelf
    assert helper.asked == [REQUEST]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Prepared("k1", "unsupported", "gemm.py:3: a scan"), "gemm.py:3: a scan"),
        (Prepared("k1", "failed", "the process is gone"), "the process is gone"),
        (Prepared("k1", "emitted", artifact="{"), "the stored kernel is not whole"),
        (Prepared("k1", "emitted", artifact=to_text(artifact("k2", KERNEL.text(), CODE))), "that of key k2"),
    ],
)
def test_whatever_else_the_helper_says_is_a_refusal(answer: Prepared, reason: str) -> None:
    shelf = settled(Library(None, "", Played(k1=answer)), REQUEST)
    assert (shelf.state, shelf.kernel) == ("refused", None)
    assert reason in shelf.reason


def test_nobody_is_asked_for_what_nobody_can_have(tmp_path: Path) -> None:
    looked = PrepareRequest(**{**vars(REQUEST), "solve": False})
    for one in (Library(None, "", Played()), Library(str(tmp_path / "empty"), "", Played())):
        assert "no schedule is stored" in settled(one, looked).reason
    behind = Played(k1=Prepared("k1", "missing", "nobody has it"))
    assert settled(Library(None, "http://127.0.0.1:1", behind), looked).reason == "nobody has it"


def test_a_file_that_is_no_store_is_told_once_and_missing(tmp_path: Path, notes: list[str]) -> None:
    (tmp_path / "s").write_bytes(b"no database" * 1000)
    one = Library(str(tmp_path / "s"), "", Played())
    assert [shelf_of(one, key).state for key in ("k1", "k2")] == ["missing", "missing"]
    assert len(notes) == 1 and "is not a database" in notes[0]


def test_a_store_that_fails_under_way_is_a_miss(path: str, monkeypatch: pytest.MonkeyPatch, notes: list[str]) -> None:
    def fail(store: SqliteStore, key: str, name: str) -> bytes:
        raise StoreUnavailable(path, "the disk is gone")

    monkeypatch.setattr(SqliteStore, "get_artifact", fail)
    assert shelf_of(Library(path, "", Played()), "k1").state == "missing"
    assert len(notes) == 1 and "the disk is gone" in notes[0]


def test_threads_get_the_same_shelf(path: str) -> None:
    one = Library(path, "", Played())
    inquiries: list[Inquiry] = []
    group = [threading.Thread(target=lambda: inquiries.append(one.find(lambda: "k1", PATIENCE))) for _ in range(8)]
    for thread in group:
        thread.start()
    for thread in group:
        thread.join()
    assert len({id(inquiry.shelf) for inquiry in inquiries}) == 1


def test_there_is_one_library_for_a_store_and_service_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_libraries", {})
    here = library(settings(store="off", server="http://127.0.0.1:1"))
    assert library(settings(store="off", server="http://127.0.0.1:1")) is here
    assert library(settings(store="off", server="")) is not here
    monkeypatch.setattr(os, "getpid", lambda: -1)  # as in a process that was forked
    assert library(settings(store="off", server="http://127.0.0.1:1")) is not here


def test_the_store_is_the_one_that_is_named_or_the_environment_s(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (path_of("off"), path_of("/a/b")) == (None, "/a/b")
    assert path_of("") is None  # of tests
    monkeypatch.setenv("TWILL_STORE", "/c/d")
    assert path_of("") == "/c/d"
