"""Promises of `twill.runtime.workspace`: launches that may run at the same time have zeros of their own."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.fake_driver import FakeDriver, forget, install
from twill.runtime import workspace
from twill.runtime.workspace import CHUNK, PER_THREAD, STEP, Workspaces, Zeros, zeros


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    yield install(monkeypatch, FakeDriver([]))
    forget()


@pytest.mark.usefixtures("driver")
def test_launches_of_a_stream_have_the_same_zeros_and_others_have_not() -> None:
    one, other = Workspaces(4), Workspaces(4)
    found = [one.of(0, 0), one.of(0, 7), one.of(1, 7), other.of(0, 7)]
    assert len(set(found)) == 4
    assert found == [one.of(0, 0), one.of(0, 7), one.of(1, 7), other.of(0, 7)]


def test_each_launch_that_a_graph_captures_has_its_own(driver: FakeDriver) -> None:
    kernel = Workspaces(4)
    eager = kernel.of(0, 7)
    driver.capturing.add(7)
    captured = [kernel.of(0, 7) for _ in range(3)]
    driver.capturing.clear()
    assert len({eager, *captured}) == 4
    assert kernel.of(0, 7) == eager


@pytest.mark.usefixtures("driver")
def test_the_stream_of_each_thread_is_another_one() -> None:
    kernel, found = Workspaces(4), []
    thread = threading.Thread(target=lambda: found.append(kernel.of(0, PER_THREAD)))
    thread.start()
    thread.join()
    assert kernel.of(0, PER_THREAD) not in found


@pytest.mark.usefixtures("driver")
def test_the_default_stream_may_be_one_of_each_thread_too(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, found = Workspaces(4), []
    monkeypatch.setattr(workspace, "_DEFAULT_PER_THREAD", True)
    thread = threading.Thread(target=lambda: found.append(kernel.of(0, 0)))
    thread.start()
    thread.join()
    assert kernel.of(0, 0) not in found


def test_many_places_come_of_one_piece_of_memory(driver: FakeDriver) -> None:
    places = [zeros(0).take(4) for _ in range(CHUNK // STEP)]
    assert driver.allocated == [(0, CHUNK)]
    assert sorted(places) == list(range(places[0], places[0] + CHUNK, STEP))
    zeros(0).take(4)
    zeros(1).take(4)
    assert driver.allocated == [(0, CHUNK), (0, CHUNK), (1, CHUNK)]


def test_a_large_one_gets_memory_of_its_own(driver: FakeDriver) -> None:
    one = Zeros(0)
    assert one.take(2 * CHUNK) % STEP == 0
    assert driver.allocated == [(0, 2 * CHUNK)]


def test_memory_is_zero_before_it_is_given_out_whatever_is_captured_meanwhile(driver: FakeDriver) -> None:
    mode = driver.mode
    address = zeros(0).take(4)
    kinds = [call[0] for call in driver.calls]
    assert kinds == ["stream", "alloc", "set", "synchronize", "destroy"]
    (stream,) = [call[1] for call in driver.calls if call[0] == "synchronize"]
    assert ("set", address, 0, CHUNK, stream) in driver.calls
    assert driver.calls[1][2].name.endswith("RELAXED") and driver.mode == mode


def test_room_behind_the_zeros_grows_and_what_it_grew_from_is_nobody_elses(driver: FakeDriver) -> None:
    """Launches that are under way may still use the place before."""
    kernel = Workspaces(4)
    small = kernel.of(0, 7, 1000)
    assert kernel.of(0, 7, 10) == kernel.of(0, 7) == small
    large = kernel.of(0, 7, 3 * CHUNK)
    assert abs(large - small) > 1000
    assert kernel.of(0, 7, 1000) == kernel.of(0, 7, 3 * CHUNK) == large
    driver.capturing.add(7)
    assert kernel.of(0, 7, 1000) != large
