"""Tile programs compute what Triton's kernels do: a thousand kernels written at random, on awkward values."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.generated.holding import hold
from tests.generated.programs import programs
from tests.generated.writer import Program

PARTS, EACH = 4, 250  # so that all cores share them


@pytest.mark.parametrize("part", range(PARTS))
def test_tile_programs_compute_what_triton_does(part: int, tmp_path: Path) -> None:
    """The same kernels in every run; one that differs is printed with its tile program."""
    written: list[Program] = []

    @seed(part)
    @settings(
        max_examples=EACH, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(program=programs())
    def write(program: Program) -> None:
        written.append(program)

    write()
    assert len(written) >= EACH
    hold(written, tmp_path)
