"""Promises about architectures."""

from __future__ import annotations

import pytest

from twill.runtime.device import runs_on


@pytest.mark.parametrize(
    ("arch", "capability", "runs"),
    [
        ("sm_90a", (9, 0), True),
        ("sm_90a", (10, 0), False),
        ("sm_90a", (9, 1), False),
        ("sm_90", (9, 1), True),
        ("sm_90", (8, 9), False),
        ("sm_100a", (10, 0), True),
        ("sm_100a", (10, 3), False),
        ("sm_100f", (10, 3), True),
        ("sm_120a", (12, 0), True),
        ("compute_90", (9, 0), False),
    ],
)
def test_a_cubin_runs_where_its_architecture_says(arch: str, capability: tuple[int, int], runs: bool) -> None:
    assert runs_on(arch, capability) is runs
