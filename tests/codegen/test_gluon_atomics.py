"""A tile that is added to global memory, by one copy, as Gluon: attention backward, whose row blocks add to dQ."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.codegen.test_gluon import WIDEST
from tests.golden_schedules import examples, schedule
from tests.kernels import H100
from tests.module_edits import edited
from twill.codegen.compile.gluon import triton
from twill.codegen.compile.gluon.read_back import differences
from twill.codegen.emission import Extracted, extract
from twill.codegen.gluon import MOST_LOCAL, GluonEmission, emit_gluon
from twill.exc import ExecutionDiffers, NoGluon
from twill.tile.rewrite.pipeline import Allowed
from twill.trial.gluon import checked

pytestmark = pytest.mark.usefixtures("at_root")
LINES = 275  # two groups whose order of products differs


@cache
def extracted() -> Extracted:
    return extract("examples/attention_backward.py", "full", (), (), Allowed(conditional=False))


@cache
def emitted() -> GluonEmission:
    found = schedule(next(one for one in examples() if one.name == "attention_backward_full"))
    return emit_gluon(extracted(), H100, lambda *_: found)


def test_what_triton_makes_of_it_computes_what_the_kernel_says(golden: Callable[[str, str], None]) -> None:
    made = emitted()
    text = made.module.text
    golden("gluon_attention_backward.txt", text)
    assert len(text.splitlines()) <= LINES and max(map(len, text.splitlines())) <= WIDEST
    assert made.compiled.local <= MOST_LOCAL and not made.compiled.waits
    assert "equal to the tile program, nothing found" in checked(made, extracted().specialization)


def test_a_tile_that_is_stored_and_not_added_is_told_by_reading_back(tmp_path: Path) -> None:
    wrong = edited(emitted(), "tma_add(dq_desc", "tma_store(dq_desc", tmp_path)
    found = differences(wrong.module.text, wrong.compiled.ptx, wrong.module.facts)
    said = ("atomic add out of shared memory", "copy out of shared memory")
    assert [(one.expected, one.found) for one in found] == [said]


@pytest.mark.parametrize(
    "edit",
    [
        ("tma_add(dq_desc, [step * 64 + N_CTX * pid_1, 0]", "tma_add(dq_desc, [step * 64 + N_CTX * pid_1, 64]"),
        ("load_slice(LSE_desc, [pid_1, step * 64]", "load_slice(LSE_desc, [pid_1, 0]"),
    ],
    ids=["the other columns", "the first rows"],
)
def test_a_tile_in_another_place_is_found(edit: tuple[str, str], tmp_path: Path) -> None:
    with pytest.raises(ExecutionDiffers):
        checked(edited(emitted(), *edit, tmp_path), extracted().specialization)


def test_a_triton_that_adds_no_tiles_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton, "_version", lambda: "3.7.1")
    with pytest.raises(NoGluon, match="copies that add tiles to global memory"):
        emit_gluon(extracted(), H100, lambda *_: pytest.fail("something is solved"))
