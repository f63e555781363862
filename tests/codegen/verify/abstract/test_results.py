"""Promises of comparing results: as exact as what the kernel rounds in between allows."""

from __future__ import annotations

import numpy as np
import pytest

from tests.golden_schedules import Example, kernel
from twill.codegen.verify.abstract.results import different, rounded_before

pytestmark = pytest.mark.usefixtures("at_root")


@pytest.mark.parametrize(
    ("file", "spec", "rounded"),
    [
        ("layer_norm", "bf16", {"Y"}),
        ("attention", "causal", {"o_desc"}),  # P is rounded for its product, but not for the sums in LSE
        ("attention_backward", "full", {"dq_desc", "dk_desc", "dv_desc"}),  # dQ is added up in memory
        ("gemm", "bf16", {"c_desc"}),
    ],
)
def test_what_is_rounded_on_its_way(file: str, spec: str, rounded: set[str]) -> None:
    assert rounded_before(kernel(Example(f"examples/{file}.py", spec)).program) == rounded


def test_what_nothing_rounds_differs_by_the_order_of_additions_alone() -> None:
    theirs = np.linspace(1.0, 2.0, 100, dtype=np.float32)
    ours = theirs * np.float32(1 + 3e-4)
    assert not different(ours, theirs, "f32").any()
    assert different(ours, theirs, "f32", rounded=False).all()
    assert not different(theirs * np.float32(1 + 1e-6), theirs, "f32", rounded=False).any()


def test_narrow_floats_are_compared_by_their_own_digits() -> None:
    theirs = np.ones(4, np.float32)
    assert not different(theirs * np.float32(1 + 2**-7), theirs, "bf16", rounded=False).any()
    assert different(theirs * np.float32(1 + 2**-4), theirs, "bf16").all()
