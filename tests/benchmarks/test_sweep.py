"""Promises of the sweep of GEMM shapes: 60 of them, members that have names of their own, tables that count right."""

from __future__ import annotations

import pytest

from benchmarks.sweep_members import KERNELS
from benchmarks.sweep_problems import shapes
from benchmarks.sweep_table import against, tables


@pytest.mark.parametrize("multiple", [8, 16])
def test_there_are_sixty_shapes_whose_rows_are_whole_16_bytes(multiple: int) -> None:
    found = shapes(multiple)
    assert len(found) == len(set(found)) == 60
    assert all(n % multiple == k % multiple == 0 for _, (_, n, k) in found)


def test_every_member_has_a_folder_of_its_own() -> None:
    for kernel in KERNELS.values():
        names = [tiles.name for tiles in kernel.members]
        assert len(set(names)) == len(names)


def row(group: str, family: float, **others: float) -> dict[str, object]:
    us = {"family": family, "64x64x64s/2": 20.0, **{name.replace("_", " "): time for name, time in others.items()}}
    return {"gpu": "G", "type": "bf16", "group": group, "shape": [1024, 1024, 1024], "us": us, "chosen": "64x64x64s/2"}


def test_a_table_has_geometric_means_and_the_least_row_of_each_peer() -> None:
    rows = [row("square", 20.0, cuBLAS=40.0, Triton_a=30.0), row("long K", 20.0, cuBLAS=10.0), row("long K", 10.0)]
    assert against(rows[0]) == {"cuBLAS": 2.0, "Triton": 1.5, "fastest member": 1.0}
    summary = tables([rows]).split("\n\n")[0].splitlines()
    assert summary[-1] == "| G | bf16 | all | 3 | 1.000 | 0.500 | 1 | 1.500 | 1.500 | 0 | 1.260 | 1.000 |"
    assert summary[-2] == "| G | bf16 | long K | 2 | 0.500 | 0.500 | 1 |  |  | 0 | 1.414 | 1.000 |"
