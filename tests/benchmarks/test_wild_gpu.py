"""Promises of `benchmarks.wild_gpu` that need no GPU: lines name their kernels, and files of no package are found."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from benchmarks.wild_gpu import END, asked, gather, home
from benchmarks.wild_launch import Error, by_roundings, odd_rows, shape_of

ANSWERS = f"""
for line in open(0):
    name = line.strip().rpartition("/")[2]
    if name == "lost":
        print("Traceback, and what follows it")
        break
    print("a warning without a name")
    print("ok  ", name)
    print({END!r} + "right", flush=True)
"""


def test_every_line_names_its_kernel_and_an_end_of_the_process_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-u", "-c", ANSWERS]
    with subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        ends = [asked(worker, Path("/made") / name) for name in ("one", "two", "lost")]
    assert ends == ["right", "right", "its process ended"]
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5 and [line.split(":")[0].split()[-1] for line in lines] == [
        "one",
        "one",
        "two",
        "two",
        "lost",
    ]


def test_files_of_one_name_that_are_in_no_package_have_folders_of_their_own(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    given = {}
    for number in (0, 1):
        file = tmp_path / str(number) / "ops.py"
        made = kept / f"kernel.{number}"
        file.parent.mkdir()
        made.mkdir(parents=True)
        file.write_text(f"number = {number}")
        given[number] = {"file": str(file), "alone": True}
        (made / "launches.json").write_text(json.dumps(given[number]))
    gather(kept)
    assert [(home(kept, given[number]) / "ops.py").read_text() for number in (0, 1)] == ["number = 0", "number = 1"]


CHAOTIC = """kernel k spec flags file k.py
argument %0 x: ptr:bf16
argument %1 y: ptr:bf16
argument %2 z: ptr:bf16
%3 = constant value=0: i32  # line 8
%4 = constant value=100: i32  # line 8
%5 = constant value=1: i32  # line 8
%6 = constant value=3.9: 256 f32  # line 9
%7 = constant value=1.0: 256 f32  # line 9
%8 = tile_load: 256 bf16 at x [256 from 0 by 1] pad 0.0 plain  # line 6
%9 = cast %8: 256 f32  # line 7
for %10 in range(%3, %4, %5)  # line 8
  carry %11 from %9: 256 f32
  %12 = mul %11 %6: 256 f32  # line 9
  %13 = sub %7 %11: 256 f32  # line 9
  %14 = mul %12 %13: 256 f32  # line 9
  yield %14 -> %15
%16 = cast %15: 256 bf16  # line 10
tile_store %16 at y [256 from 0 by 1] pad 0.0 plain  # line 10
tile_store %8 at z [256 from 0 by 1] pad 0.0 plain  # line 11
"""


def test_outputs_that_roundings_move_are_told_from_the_data_that_were_compared(tmp_path: Path) -> None:
    """p -> 3.9 p (1 - p), a hundred times, beside a copy; no iteration of it moves zeros."""
    (tmp_path / "tile.txt").write_text(CHAOTIC)
    for x, moved in ((torch.rand(256), {"y"}), (torch.zeros(256), set())):
        held = {name: x.to(torch.bfloat16) for name in "xyz"}
        made = SimpleNamespace(grid=(1,), scalars={}, shapes=dict.fromkeys("xyz", (256,)))
        data = SimpleNamespace(tensor=held.__getitem__, counted_from_zero=held.__getitem__)
        launch: Any = SimpleNamespace(made=made, filled=lambda data=data: data)
        assert set(by_roundings(launch, tmp_path, 4)) == moved


def test_a_tensor_with_a_descriptor_has_its_shape() -> None:
    launch = {"elements": {"a": 96, "b": 96, "c": 0}, "scalars": {"a.shape.0": 12, "a.shape.1": 8, "M": 12}}
    assert [shape_of(name, launch) for name in "abc"] == [(12, 8), (96,), (1,)]


def test_a_launch_with_rows_that_no_descriptor_has_is_named() -> None:
    arguments = [SimpleNamespace(name="a", kind="descriptor", element="f16"), SimpleNamespace(name="n", kind="number")]
    kernel: Any = SimpleNamespace(manifest=SimpleNamespace(arguments=arguments))
    assert not odd_rows(kernel, {"a": (3, 8)})
    assert "`a`" in odd_rows(kernel, {"a": (8, 3)})


def test_errors_are_held_against_tritons_over_draws_of_data() -> None:
    """One bad draw of a chaotic output says little; a ratio that all draws have does."""
    once = Error((0.01,) * 11 + (0.05,), (0.01,) * 12, (1.0,) * 12)
    always = Error((0.013, 0.014) * 6, (0.01,) * 12, (1.0,) * 12)
    assert (round(once.ratio, 2), round(always.ratio, 2)) == (1.14, 1.35)
    assert once.right and not always.right
    assert Error(always.exact, always.theirs, (1e-3,) * 12).right  # it is the tile program as it is
    assert not Error((0.5,) * 12, (0.5,) * 12, (1.0,) * 12).right  # nothing converges
    assert Error((0.0, math.inf), (0.0, math.inf), (0.0, 0.0)).ratio == 1
