"""Tile programs compute what Triton's kernels do: a thousand kernels written at random, on awkward values."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.generated.holding import hold
from tests.generated.programs import programs
from tests.generated.writer import Program


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("generated")


@settings(
    max_examples=1000, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)  # fmt: skip
@given(program=programs())
def test_tile_programs_compute_what_triton_does(program: Program, directory: Path) -> None:
    hold(program, directory)
