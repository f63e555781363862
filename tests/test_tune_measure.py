"""Promises of measured tuning: in turns, a wrong candidate never wins, gains are over the default."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fake_torch import fake_torch
from tests.test_trial_data import CASE, MANIFEST
from twill.exc import NothingToCompareWith
from twill.runtime.kernel import EmittedKernel
from twill.trial.data import Data, make_data
from twill.tune import measure as subject
from twill.tune.measure import Measured, measure


def test_the_gain_is_a_geometric_mean_and_the_wrong_do_not_win() -> None:
    found = Measured({"default": [1.0, 4.0], "a": [0.5, 2.0], "b": [0.1, 0.1]}, {"b": "wrong"})
    assert found.gain("a", "default") == pytest.approx(2.0)
    assert found.best("default") == "a"


def test_candidates_are_compared_before_they_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", fake_torch())
    values = {"good": 1.0, "bad": 3.0, "silent": None}

    def load(folder: Path) -> Any:
        return SimpleNamespace(manifest=MANIFEST, value=values[folder.name])

    def writes(value: float | None) -> Callable[[Any, Data], Callable[[], None]]:
        def launch_of(kernel: Any, data: Data, **_: Any) -> Callable[[], None]:
            written = value if value is not None else getattr(kernel, "value", None)

            def launch() -> None:
                for tensor in data.outputs.values() if written is not None else ():
                    tensor.fill_(written)

            return launch

        return launch_of

    timed: list[list[str]] = []

    def interleaved(launches: Any) -> dict[str, float]:
        timed.append(list(launches))
        return dict.fromkeys(launches, 2.0)

    monkeypatch.setattr(EmittedKernel, "load", load)
    monkeypatch.setattr(subject, "make_data", lambda manifest, case: make_data(manifest, case, device="cpu"))
    monkeypatch.setattr(subject, "emitted", writes(None))
    monkeypatch.setattr(subject, "original", writes(1.0))
    monkeypatch.setattr(subject, "interleaved", interleaved)
    cases = {name: [CASE, CASE] for name in values}
    found = measure({name: Path(name) for name in values}, cases, "good", None)
    assert timed == [["good"], ["good"]]
    assert found.times["good"] == [2.0, 2.0]
    assert set(found.wrong) == {"bad", "silent"}  # what nobody wrote is NaN
    with pytest.raises(NothingToCompareWith, match="the default of scale differs"):
        measure({name: Path(name) for name in values}, cases, "bad", None)
