"""Promises of `twill.tile.rewrite.pipeline`: how much is rewritten, and what stays to compare with."""

from __future__ import annotations

import pytest

from twill.codegen.emission import extract
from twill.tile.program import Loop, TileProgram
from twill.tile.rewrite.pipeline import EXTRACTED, PIPELINE, Allowed, Rewriting
from twill.tile.vocabulary import SLACK

pytestmark = pytest.mark.usefixtures("at_root")


def test_each_rewrite_is_run_in_order_and_can_be_looked_at() -> None:
    made = extract("examples/attention.py", "causal")
    assert tuple(made.behind) == (EXTRACTED, *(step.name for step in PIPELINE))
    assert made.program.original is made.behind[EXTRACTED]
    stages = list(made.behind.items())
    changing = {now for (_, old), (now, new) in zip(stages, stages[1:], strict=False) if old != new}
    assert changing == {"loop-fusion", "conditional-rescale"}


@pytest.mark.parametrize(("allowed", "strict", "left_out"), [
    (Allowed("masks"), False, {"loop-fusion"}),
    (Allowed("none"), False, {"loop-fusion", "uniform-factors", "vector-factors", "predicated-masks"}),
    (Allowed(conditional=False), False, {"conditional-rescale"}),
    (Allowed(), True, {"uniform-factors", "vector-factors", "conditional-rescale"}),
])  # fmt: skip
def test_what_is_not_allowed_is_left_out(allowed: Allowed, strict: bool, left_out: set[str]) -> None:
    program = extract("examples/attention.py", "full", strict=strict).behind[EXTRACTED]
    assert {step.name for step in PIPELINE if not step.applies(program, allowed)} == left_out


def counts(program: TileProgram) -> tuple[int, int]:
    """Loops, and values that are amended."""
    loops = [item for item in program.body if isinstance(item, Loop)]
    return len(loops), [op.kind for op in program.ops()].count("update")


@pytest.mark.parametrize(("rewriting", "loops", "updated"), [("none", 2, 0), ("masks", 2, 0), ("all", 1, 1)])
def test_causal_attention(rewriting: Rewriting, loops: int, updated: int) -> None:
    """Its masked loop has few iterations; only joined to the other one it is worth a guard."""
    program = extract("examples/attention.py", "causal", allowed=Allowed(rewriting, conditional=False)).program
    assert counts(program) == (loops, updated)
    assert (program.original is None) == (rewriting != "all")


def test_what_code_is_compared_with_is_as_written() -> None:
    made = extract("examples/attention_pointers.py", "full")
    assert made.rescale_report.conditional
    assert made.program.original is not None
    assert counts(made.program) == (1, 1)
    assert counts(made.program.original) == (1, 0)
    assert [op for op in made.program.ops() if SLACK in dict(op.attributes)]
    assert not [op for op in made.program.original.ops() if SLACK in dict(op.attributes)]
    alone = extract("examples/attention_pointers.py", "full", allowed=Allowed("none")).program
    assert alone.original is not None and counts(alone) == counts(alone.original)
    assert not [op for op in alone.original.ops() if SLACK in dict(op.attributes)]
    at_once = extract("examples/attention_pointers.py", "full", allowed=Allowed(conditional=False)).program
    assert not [op for op in at_once.ops() if SLACK in dict(op.attributes)]
