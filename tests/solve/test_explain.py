"""`twill explain`: the answer to a question, or why nothing is better."""

from __future__ import annotations

import pytest

from tests.kernels import H100, example
from twill.exc import BadPin, BudgetExhausted, Infeasible
from twill.smt.explain import ExplainRequest
from twill.smt.pins import parse_pin
from twill.solve.explain import ExplainLimits, answer, explain, spelled
from twill.solve.pipeline import SolveOptions, solve

GEMM = example("gemm")
BEST = solve(GEMM, H100)


def told(
    *, ii: int | None = None, pins: tuple[str, ...] = (), copies: int | None = None, groups: int | None = None
) -> str:
    """The text about the GEMM."""
    return explain(GEMM, H100, SolveOptions(ii=ii, pins=pins), ExplainLimits(copies, groups))


def test_unasked_it_says_why_nothing_is_better() -> None:
    text = told()
    first, *paragraphs = text.split("\n\n")
    assert first == f"gemm on h100: I = {BEST.ii}, {BEST.copies} copies, {len(BEST.warp_groups)} warp groups"
    heads = [p.splitlines()[0] for p in paragraphs]
    assert heads == [
        f"I = {BEST.ii - 1} is impossible:",
        "The other cooperations:",
        f"I = {BEST.ii} with at most {BEST.copies - 1} copies is impossible:",
        f"I = {BEST.ii} with at most {len(BEST.warp_groups) - 1} warp groups is impossible:",
    ]
    assert f"acc (line 36) of 1 iteration later waits {BEST.ii} cycles for acc (line 36)" in paragraphs[0]
    assert len(paragraphs[1].splitlines()) == len(BEST.candidates)  # a headline, and all but the chosen one


def test_what_is_possible_is_said_to_be() -> None:
    assert told(copies=BEST.copies).splitlines()[-1] == f"I = {BEST.ii} with at most {BEST.copies} copies is possible."
    assert told(ii=BEST.ii + 10).splitlines()[-1] == f"I = {BEST.ii + 10} is possible."


def test_a_smaller_interval_is_impossible_for_every_cooperation() -> None:
    text = told(ii=BEST.ii - 1)
    assert f"I = {BEST.ii - 1} is impossible:" in text
    assert "The other cooperations:" in text
    assert all(c.verdict in text for c in BEST.candidates if c.cooperation != BEST.cooperation)


def test_a_pin_is_explained_with_the_lines_of_the_kernel() -> None:
    text = told(pins=("acc<b",))
    assert "with the pin acc<b is impossible:" in text
    assert "acc (line 36) waits" in text
    assert "for b (line 35)" in text


def test_one_copy_is_a_copy() -> None:
    pin = parse_pin("a<b")
    assert spelled(ExplainRequest(7)) == "I = 7"
    assert spelled(ExplainRequest(7, copies=1)) == "I = 7 with at most 1 copy"
    assert (
        spelled(ExplainRequest(7, 2, 3, (pin,)))
        == "I = 7 with at most 2 copies and at most 3 warp groups and the pin a<b"
    )


def test_an_answer_that_takes_too_long_is_not_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twill.solve.explain.SECONDS", 0.0)
    text = answer(BEST.loops[0].graph, H100, ExplainRequest(BEST.ii - 1))
    assert text == f"I = {BEST.ii - 1}: not decided within 0 s"


def test_explain_fail_for_a_pin_that_names_nothing() -> None:
    with pytest.raises(BadPin, match="names no instruction"):
        told(pins=("nothing@stage=0",))


def test_explain_fail_for_a_kernel_without_a_schedule_or_without_time() -> None:
    with pytest.raises(Infeasible):
        explain(GEMM, H100, SolveOptions(blocks=5))
    with pytest.raises(BudgetExhausted):
        explain(GEMM, H100, SolveOptions(resource_limit=100))
