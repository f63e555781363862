"""Large loops, in small: a proven I or a proven gap, and a schedule that the checker accepts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.scale import Row, cells, main, measure, write
from benchmarks.scale_graphs import SUBJECTS, Subject, generated
from tests.kernels import H100, costed_example
from tests.smt.test_search import document
from twill.graph.unroll import unrolled
from twill.schedule.checker.check import check
from twill.smt.limits import Limits
from twill.smt.search import Search
from twill.zlp.bounds import lower_bounds

TINY = Subject("tiny", "h100", "gemm:bf16 unrolled twice", lambda m: unrolled(costed_example("gemm", None, m), 2))


def row(**changed: object) -> Row:
    """A row of a loop without a schedule."""
    found: dict[str, object] = {
        "name": "x", "machine": "h100", "how": "made up", "instructions": 50, "budget": 10.0, "seconds": 1.0,
        "total": 10.0, "lower_bound": 90, "objective": None, "infeasible": False,
    }  # fmt: skip
    return Row(**(found | changed))  # type: ignore[arg-type]


def test_a_loop_that_is_solved_has_no_gap() -> None:
    found = measure(TINY, 60.0, 60.0)
    assert found.objective is not None
    assert (found.gap, found.lower_bound) == (0.0, found.objective.ii)


def test_the_gap_is_of_what_was_found() -> None:
    objective = measure(TINY, 60.0, 60.0).objective
    assert objective is not None
    found = row(objective=objective.model_copy(update={"ii": 100, "proven": ()}))
    assert found.gap == pytest.approx(0.1)
    assert cells(found)[3:6] == ["100", "90", "10.0 %"]


@pytest.mark.parametrize(("infeasible", "said"), [(True, "none exists"), (False, "none found")])
def test_no_schedule_is_said_to_be_none(infeasible: bool, said: str) -> None:
    assert said in cells(row(infeasible=infeasible))
    assert row(infeasible=infeasible).gap is None


def test_results_are_a_document_and_a_page(tmp_path: Path) -> None:
    out = tmp_path / "scale.json"
    write([row()], 1, out)
    assert json.loads(out.read_text(encoding="utf-8"))["rows"][0]["lower_bound"] == 90
    assert "| x | h100 | 50 | none found | 90 |" in out.with_suffix(".md").read_text(encoding="utf-8")


def test_subjects_are_of_about_50_and_100_instructions() -> None:
    counts = [len(s.graph()[0].instructions) for s in SUBJECTS]
    assert min(counts) >= 30
    assert counts.count(100) >= 4
    assert sum(45 <= n <= 60 for n in counts) >= 4


def test_a_generated_loop_is_the_same_for_the_same_seed() -> None:
    assert generated(H100, 20, 4) == generated(H100, 20, 4)
    assert generated(H100, 20, 4) != generated(H100, 20, 5)


@pytest.mark.parametrize("times", [2, 4])
def test_unrolled_attention_repeats_the_schedule_of_the_loop(times: int) -> None:
    """Two copies fit shared memory, with I proven; four do not, whatever the interval."""
    g = unrolled(costed_example("attention", "full", H100, split=2), times)
    search = Search(g, H100, lower_bounds(g, H100))
    search.advance()
    if times == 4:
        assert search.state == "infeasible"
        return
    assert search.state == "found"
    assert search.best is not None
    assert search.best.ii == search.lower == 2 * 2048
    assert "unrolling" in {step.solver for step in search.steps}
    search._questions.limits = Limits(seconds=0.0).counting()
    outcome = search.finish()
    assert outcome.objective is not None
    assert outcome.objective.proven[0] == "ii"
    assert check(document(g, H100, outcome), H100) == ()


def test_fail_for_a_loop_that_there_is_none_of(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "nothing"]) == 2
    assert "nothing" in capsys.readouterr().err
