"""Promises of comparisons: as near to the reference as Triton, bit-identical again, and NaN is never near."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.fake_torch import fake_torch
from tests.trial.test_data import CASE, MANIFEST
from twill.trial import check
from twill.trial.bench import BenchTimes
from twill.trial.check import Checked
from twill.trial.compare import Difference, differences, repeats
from twill.trial.data import Data, make_data
from twill.trial.timing import interleaved


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> Data:
    monkeypatch.setitem(sys.modules, "torch", fake_torch())
    return make_data(MANIFEST, CASE, device="cpu")


def writes(data: Data, *values: float) -> Callable[[], None]:
    """A launch that writes one value everywhere, the next one each time."""
    left = list(values)

    def launch() -> None:
        value = left.pop(0) if len(left) > 1 else left[0]
        for name in ("x", "index", "sum"):
            data.tensor(name).fill_(value)

    return launch


@pytest.mark.parametrize(
    ("emitted", "original", "ok"),
    [
        (1.19e-3, 1e-3, True),
        (1.21e-3, 1e-3, False),
        (9e-7, 1e-8, True),  # both are float32's own rounding
        (float("nan"), 1e-3, False),
        (float("nan"), None, False),
        (0.01, None, True),
        (0.03, None, False),
        (0.01, float("nan"), True),
    ],
)
def test_an_error_is_held_to_tritons(emitted: float, original: float | None, ok: bool) -> None:
    assert Difference("c", emitted, original).ok is ok


def test_errors_are_relative_and_of_both_kernels(data: Data) -> None:
    wanted = data.tensor("x").clone()
    wanted.fill_(2.0)
    (found,) = differences(data, writes(data, 2.5), writes(data, 1.0), {"x": wanted})
    assert (found.emitted, found.original) == (0.25, 0.5)
    (alone,) = differences(data, lambda: None, None, {"x": wanted})
    assert alone.original is None and not alone.ok  # nothing was written: NaN


def test_a_launch_that_differs_is_counted_but_sums_in_any_order_are_not(data: Data) -> None:
    assert repeats(data, writes(data, 1.0), 5) == {"x": 0, "index": 0}
    assert repeats(data, writes(data, 1.0, 2.0, 1.0), 5) == {"x": 1, "index": 1}


def test_launches_are_timed_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    times = {"a": iter([3.0, 1.0, 2.0]), "b": iter([9.0, 7.0, 8.0])}

    def played(launch: Any, seconds: float) -> float:
        order.append(launch)
        return next(times[launch])

    monkeypatch.setattr("twill.trial.timing.milliseconds", played)
    assert interleaved({"a": "a", "b": "b"}, rounds=3, seconds=0) == {"a": 2.0, "b": 8.0}  # type: ignore[dict-item]
    assert all(set(order[i : i + 2]) == {"a", "b"} for i in (0, 2, 4))


def test_sizes_without_a_reference_are_held_to_what_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = CASE, type(CASE)({"n": 64}, (9,), {}, {})
    asked: list[tuple[Any, bool, float]] = []

    def one(k: Any, t: Any, p: Any, case: Any, launches: int, referenced: bool, allowed: float) -> Checked:
        asked.append((case, referenced, allowed))
        found = Difference("x", 0.001, 0.002 if referenced else None)
        return Checked(case, (found,), not referenced, launches, {}, (), "", allowed)

    clock = iter([0.0, 1.0, 99.0])
    monkeypatch.setattr(check, "_one", one)
    monkeypatch.setattr("twill.trial.check.time.monotonic", lambda: next(clock))
    found = list(check.check(None, None, None, [large, small], seconds=60.0))  # type: ignore[arg-type]
    assert asked == [(small, True, 0.0), (large, False, 2.2 * 0.002)]
    assert [one.ok for one in found] == [True, True]


def test_a_size_is_good_if_nothing_is_wrong_with_it() -> None:
    near = (Difference("x", 0.001, 0.001),)
    assert Checked(CASE, near, False, 9, {"x": 0}, ()).ok
    assert not Checked(CASE, near, False, 9, {"x": 1}, ()).ok
    assert not Checked(CASE, near, False, 9, {"x": 0}, ("a",)).ok
    assert not Checked(CASE, (Difference("x", 0.01, None),), True, 9, {}, (), allowed=0.005).ok


def test_speedup() -> None:
    assert BenchTimes(CASE, 2.0, 3.0, "", 1.0, 1.0).speedup == 1.5
