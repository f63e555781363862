"""Promises of `twill.tile.rewrite.predicate`: masks that most iterations do not need are made in those that do."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.tile.rewrite.test_loop_fusion import BLOCK, FILE, SIG, kinds, result
from twill.graph.extract import extract
from twill.tile.program import TileProgram
from twill.tile.rewrite.pipeline import Allowed


@cache
def made(kernel: str) -> TileProgram:
    return extract(f"{FILE}::{kernel}", sig=SIG, const=(f"BLOCK={BLOCK}",))[0]


@pytest.mark.parametrize("kernel", ["ragged", "masked_out"])
def test_a_mask_at_the_ends_of_a_range_is_put_under_a_guard(kernel: str) -> None:
    program = made(kernel)
    assert kinds(program).count("update") == 1
    assert program.original is not None
    assert "update" not in kinds(program.original)


@pytest.mark.parametrize("kernel", ["ragged", "masked_out"])
@pytest.mark.parametrize(
    ("split", "end"), [(0, 0), (0, 5), (9, 16), (8, 19), (10, 16), (2, 33), (16, 64), (-40, 80), (17, 80), (70, 64)]
)
def test_the_result_is_the_same_wherever_the_ends_are(kernel: str, split: int, end: int) -> None:
    program = made(kernel)
    assert program.original is not None
    np.testing.assert_array_equal(result(program, split, end), result(program.original, split, end))


@pytest.mark.parametrize("kernel", [
    "same_mask", "read_beside_the_mask", "short", "split_off", "floats_decide", "other_numbers",
])  # fmt: skip
def test_other_masks_stay(kernel: str) -> None:
    assert "update" not in kinds(made(kernel))


@pytest.mark.parametrize(
    ("name", "spec"),
    [("attention_backward", "causal"), ("sliding_window_attention", "bf16"), ("attention_pointers", "full"),
     ("layer_norm", "bf16")],
)  # fmt: skip
def test_no_steady_state_of_the_examples_masks(name: str, spec: str, at_root: Path) -> None:
    _, graph = extract(f"examples/{name}.py", spec)
    loops = [region for region in graph.regions if region.kind == "loop"]
    assert not [count for region in loops for n in region.nodes for count in n.counts if "select" in count.operation]


def test_as_written_they_do(at_root: Path) -> None:
    _, graph = extract("examples/sliding_window_attention.py", allowed=Allowed("none"))
    counted = {count.operation for region in graph.regions for n in region.nodes for count in n.counts}
    assert {"select.f32", "compare.i32"} <= counted
