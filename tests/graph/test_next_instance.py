"""Promises of `twill.graph.next_instance`: instances are fused where their numbers go on from one to the next."""

from __future__ import annotations

import pytest

from tests.fused_programs import told


def fusable(kernel: str, how: str) -> set[str]:
    return {dim.name for dim in told(kernel, how).dims if dim.fusable}


@pytest.mark.parametrize("how", ["rows", "twice the rows", "rows by parts"])
def test_row_numbers_of_the_whole_tensor_go_on(how: str) -> None:
    assert "m" in fusable("numbered", how)


@pytest.mark.parametrize("how", ["rows of a tile", "parts of rows of a tile", "instances", "rows that overlap"])
def test_numbers_that_begin_anew_in_every_instance_do_not(how: str) -> None:
    assert "m" not in fusable("numbered", how)


def test_what_is_the_same_for_all_instances_is_done_once() -> None:
    assert "m" in fusable("counting", "once for all")


@pytest.mark.parametrize("how", ["added", "each its own"])
def test_what_each_instance_does_beside_its_rows_is_not(how: str) -> None:
    assert "m" not in fusable("counting", how)
