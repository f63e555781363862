"""Promises of measured tuning: in turns, a wrong candidate never wins, gains are over the default."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fake_torch import fake_torch
from tests.trial.test_data import CASE, MANIFEST
from twill.exc import NothingToCompareWith
from twill.runtime.kernel import EmittedKernel
from twill.trial.data import Data, make_data
from twill.tune import measure as subject
from twill.tune.measure import CandidateTimes, measure


def test_the_gain_is_a_geometric_mean_and_the_wrong_do_not_win() -> None:
    found = CandidateTimes({"default": [1.0, 4.0], "a": [0.5, 2.0], "b": [0.1, 0.1]}, {"b": "wrong"})
    assert found.gain("a", "default") == pytest.approx(2.0)
    assert found.best("default") == "a"


VALUES = {"good": 1.0, "bad": 3.0, "silent": None}
CASES = {name: [CASE, CASE] for name in VALUES}
FOLDERS = {name: Path(name) for name in VALUES}


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What was timed together; candidates write VALUES, the Triton kernel 1."""
    monkeypatch.setitem(sys.modules, "torch", fake_torch())
    found: list[list[str]] = []

    def load(folder: Path) -> Any:
        return SimpleNamespace(manifest=replace(MANIFEST, spec=folder.name), value=VALUES[folder.name])

    def interleaved(launches: Any) -> dict[str, float]:
        found.append(list(launches))
        return dict.fromkeys(launches, 2.0)

    monkeypatch.setattr(EmittedKernel, "load", load)
    monkeypatch.setattr(subject, "make_data", lambda manifest, case: make_data(manifest, case, device="cpu"))
    monkeypatch.setattr(subject, "emitted", lambda kernel, data: writer(data, kernel.value))
    monkeypatch.setattr(subject, "original", lambda kernel, data, **_: writer(data, 1.0))
    monkeypatch.setattr(subject, "interleaved", interleaved)
    return found


def writer(data: Data, value: float | None) -> Callable[[], None]:
    """A launch that writes `value` everywhere, or nothing."""

    def launch() -> None:
        for tensor in data.outputs.values() if value is not None else ():
            tensor.fill_(value)

    return launch


def triton_with(*specs: str) -> Callable[..., Callable[[], None]]:
    """A Triton kernel that can be launched with the tiles of these candidates."""

    def launch_of(kernel: Any, data: Data, **_: Any) -> Callable[[], None]:
        if data.manifest.spec not in specs:
            raise TypeError("192 is no power of two")
        return writer(data, 1.0)

    return launch_of


def test_candidates_are_compared_before_they_are_timed(timed: list[list[str]]) -> None:
    found = measure(FOLDERS, CASES, "good", None)
    assert timed == [["good"], ["good"]]
    assert found.times["good"] == [2.0, 2.0]
    assert set(found.wrong) == {"bad", "silent"}  # what nobody wrote is NaN
    with pytest.raises(NothingToCompareWith, match="the default of scale differs"):
        measure(FOLDERS, CASES, "bad", None)


def test_a_default_that_triton_cannot_spell_is_compared_with_tiles_that_it_can(
    timed: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "original", triton_with("silent"))
    assert set(measure(FOLDERS, CASES, "good", None).wrong) == {"bad", "silent"}
    monkeypatch.setattr(subject, "original", triton_with())
    with pytest.raises(NothingToCompareWith, match="every candidate's tiles .TypeError: 192 is no power of two"):
        measure(FOLDERS, CASES, "good", None)
