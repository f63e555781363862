"""Runs that were made are not made again, and are those of the same launch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from twill.codegen.verify.abstract.inputs import CheckedLaunch
from twill.codegen.verify.abstract.remembered import Remembered, launch_key

LAUNCH = CheckedLaunch((2, 1), {"x": np.arange(8, dtype=np.float32), "n": np.arange(2, dtype=np.int32)}, {"a": 1})


def test_a_key_tells_apart_whatever_a_run_depends_on() -> None:
    x = LAUNCH.arrays["x"]
    others = [
        replace(LAUNCH, grid=(1, 2)),
        replace(LAUNCH, scalars={"a": 1.0}),
        replace(LAUNCH, scalars={"b": 1}),
        replace(LAUNCH, arrays={**LAUNCH.arrays, "x": np.where(x == 0, np.float32(-0.0), x)}),
        replace(LAUNCH, arrays={**LAUNCH.arrays, "x": x.view(np.int32)}),
        replace(LAUNCH, arrays={"x": x[:4], "n": np.concatenate([x[4:].view(np.int32), LAUNCH.arrays["n"]])}),
        replace(LAUNCH, arrays={"x": LAUNCH.arrays["n"], "n": x}),
    ]
    assert len({launch_key(one) for one in (LAUNCH, *others)}) == 1 + len(others)
    copied = replace(
        LAUNCH, arrays={name: array.copy() for name, array in LAUNCH.arrays.items()}, text="another", ctas=2
    )
    assert launch_key(copied) == launch_key(LAUNCH)


def test_what_was_made_is_given_again_until_there_is_no_room() -> None:
    remembered, made = Remembered(limit=100), list[str]()

    def get(name: str) -> float:
        def make() -> dict[str, np.ndarray]:
            made.append(name)
            return {"x": np.full(10, len(made), np.float32)}

        return float(remembered(name, make)["x"][0])

    assert [get(name) for name in "abab"] == [1, 2, 1, 2]
    assert [get(name) for name in "acb"] == [1, 3, 4] and made == ["a", "b", "c", "b"]
    assert remembered.size() == 80


def test_nobody_writes_into_what_is_remembered() -> None:
    found = Remembered()("a", lambda: {"x": np.zeros(2)})
    with pytest.raises(ValueError, match="read-only"):
        found["x"][0] = 1
