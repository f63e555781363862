"""Promises of `twill.tile.rewrite.loop_fusion`: loops that do the same become one that computes the same."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.tile_programs import Programs
from twill.graph.extract import extract
from twill.tile.interpret.sequential import run
from twill.tile.program import Loop, TileProgram, walk
from twill.tile.rewrite import loop_fusion
from twill.tile.rewrite.pipeline import Allowed
from twill.tile.scalars import Scalars

FILE = str(ROOT / "tests" / "join_kernels.py")
SIG = ("X=*fp32:16", "Y=*fp32:16", "scale=fp32", "split=i32", "end=i32")
BLOCK = 16
SIZES = [(0, 0), (0, 1), (0, 33), (1, 16), (1, 17), (2, 40), (3, 48), (3, 49), (1, 96), (4, 20), (2, 0)]


@cache
def made(kernel: str) -> TileProgram:
    return extract(f"{FILE}::{kernel}", sig=SIG, const=(f"BLOCK={BLOCK}",))[0]


def loops(program: TileProgram) -> list[Loop]:
    return [item for item in program.body if isinstance(item, Loop)]


def kinds(program: TileProgram) -> list[str]:
    return [op.kind for op in program.ops()]


def result(program: TileProgram, split: int, end: int) -> np.ndarray:
    memory = np.random.default_rng(1).standard_normal(512).astype(np.float32)
    tensors = {"X": memory, "Y": np.zeros(2 * BLOCK, np.float32)}
    run(program, (1,), tensors, {"scale": 0.7, "split": split, "end": end})
    return tensors["Y"]


@pytest.mark.parametrize(
    ("kernel", "before", "updated"),
    [("masked_last", 2, 1), ("masked_first", 2, 1), ("three", 3, 2), ("returns_early", 2, 1)],
)
def test_loops_that_go_on_are_one_loop_with_a_guard(kernel: str, before: int, updated: int) -> None:
    program = made(kernel)
    assert program.original is not None
    assert len(loops(program.original)) == before
    assert len(loops(program)) == 1
    assert kinds(program).count("update") == updated


@pytest.mark.parametrize("kernel", ["masked_last", "masked_first", "three", "returns_early"])
@pytest.mark.parametrize(("split", "end"), SIZES)
def test_it_computes_the_same_bits_at_any_trip_counts(kernel: str, split: int, end: int) -> None:
    program = made(kernel)
    assert program.original is not None
    np.testing.assert_array_equal(result(program, split, end), result(program.original, split, end))


def test_loops_under_different_conditions_stay_apart() -> None:
    assert len(loops(made("other_condition"))) == 2


def test_a_loop_that_ends_before_it_begins_is_not_seen() -> None:
    """Bounds that may cross are the smaller and the larger of both."""
    assert {"max", "min"} & set(kinds(made("masked_last")))


def test_a_quotient_of_a_grid_index_is_not_negative() -> None:
    """So the fused loop begins at 0, not at the smaller of both."""
    program = made("quotient")
    assert len(loops(program)) == 1
    assert "min" not in kinds(program)


def test_an_operation_that_a_loop_lacks_changes_nothing_there() -> None:
    """The factor is 1 where the second loop has scaled already: a scalar, chosen once an iteration."""
    program = made("masked_last")
    (loop,) = loops(program)
    chosen = [op for op in walk(loop.body) if op.kind == "select" and not program.type_of(op.results[0]).shape]
    assert len(chosen) == 1
    assert all(op.kind != "update" or program.type_of(op.results[0]).shape for op in walk(loop.body))


def test_arguments_keep_their_numbers() -> None:
    program = made("three")
    assert program.original is not None
    assert program.arguments == program.original.arguments


@pytest.mark.parametrize(
    "kernel",
    ["other_function", "other_tensor", "gap", "no_whole_steps", "other_steps", "read_between", "begins_anew",
     "read_unmasked_too", "masked_load", "loaded_factors"],
)  # fmt: skip
def test_loops_that_are_not_alike_stay(kernel: str) -> None:
    assert len(loops(made(kernel))) == 2


def test_as_written_there_are_both_loops() -> None:
    program, _ = extract(f"{FILE}::masked_last", sig=SIG, const=(f"BLOCK={BLOCK}",), allowed=Allowed("none"))
    assert len(loops(program)) == 2
    assert program.original is None


def test_causal_attention_is_the_graph_of_full_attention(at_root: Path) -> None:
    """The mask costs its steady state nothing."""
    (causal, full) = (extract("examples/attention.py", spec)[1] for spec in ("causal", "full"))
    assert [region.kind for region in causal.regions] == ["straight", "loop", "straight"]
    for one, other in zip(causal.regions, full.regions, strict=True):
        assert [(n.kind, n.counts, n.mma) for n in one.nodes] == [(n.kind, n.counts, n.mma) for n in other.nodes]
        assert one.edges == other.edges


def test_loops_that_are_not_alike_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty loops from 0 have 435 runs; no run is tried of which two neighbours could not be one."""
    p = Programs()
    sums = p.constant(0.0, (16,), "f32")
    for _ in range(30):
        with p.loop(p.argument("n"), [sums]) as loop:
            loop.yields = [p.op("add", loop.carried[0], p.load("x", (16,), "f32", at=(loop.i * 16,)))]
        sums = loop.results[0]
    p.store("y", sums)
    tried: list[int] = []
    could_join = loop_fusion._could_join

    def counted(program: TileProgram, scalars: Scalars, run: Sequence[Loop]) -> object:
        tried.append(len(run))
        return could_join(program, scalars, run)

    monkeypatch.setattr(loop_fusion, "_could_join", counted)
    program = p.done()
    assert loop_fusion.fuse_loops(program) is program and tried == [2] * 29
