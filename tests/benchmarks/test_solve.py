"""The solve benchmark measures what it says, keeps what it has, and never turns a budget into a time."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import solve as command
from benchmarks.solve import UnknownExample, main, measure, subjects
from benchmarks.solve_measure import Asked, Comparison, Solved, Times, compare, phases_of
from benchmarks.solve_report import Results, Row, as_json, as_markdown, compare_cells, solve_seconds, write
from benchmarks.solve_row import Plan, Subject, measure_apart, measure_row
from tests.conftest import ROOT
from tests.smt.test_paper import two_steps
from tests.strategies import make_machine
from twill.machine.file import load_machine
from twill.schedule.document import SolverStep

TINY = Subject("gemm", str(ROOT / "examples" / "gemm.py"), None)


def plan(**changed: object) -> Plan:
    """One run of the GEMM without comparisons."""
    options: dict[str, object] = {"subjects": (TINY,), "machines": (load_machine("h100"),), "repeat": 1}
    options |= {"budget": 60.0, "units": (), "paper": False}
    return Plan(**(options | changed))  # type: ignore[arg-type]


def row(seconds: float = 1.0) -> Row:
    """A refused row."""
    return Row("gemm", "bf16", "h100", 0, 0.1, Solved("refused", "no loop", Times((seconds,)), None, 1, {}), ())


def results(*rows: Row, interrupted: bool = False) -> Results:
    """Results of a made-up run."""
    environment = dict.fromkeys(("python", "z3", "triton", "pyscipopt", "cpu", "cores", "load", "system"), "?")
    return Results("2026-01-01T00:00:00+00:00", environment, 5, 60.0, interrupted, rows)


def silent(_: str) -> None:
    """Progress that nobody watches."""


def test_both_encodings_answer_the_same_two_questions() -> None:
    found = compare(two_steps(crossing=3), make_machine(), None, 2, 60, True, silent)
    assert (found.ii, found.copies, found.length) == (4, 3, 11)
    for form in (found.compact, found.boolean):
        assert [a.outcome for a in form] == ["sat", "unsat"]
    assert all(len(a.times.seconds) == 2 for a in (*found.compact, *found.boolean))
    assert found.finished
    assert found.paper is not None
    assert (found.paper.ii, found.paper.length) == (6, 11)


def test_a_budget_that_ends_is_not_a_time() -> None:
    yes, open_ = Asked("sat", Times((1.5, 2.0, 1.0))), Asked("unknown", Times((60.1,)))
    comparison = Comparison(300, 0.04, "", 128, 2, 250, (yes, yes), (yes, open_))
    assert not comparison.finished
    cells = compare_cells(row(), comparison, 60.0, paper=False)
    assert cells[-1] == "1.50 (1.00-2.00) / not finished in 60 s"


def test_a_solve_that_does_not_finish_gives_its_bound_and_no_time() -> None:
    assert solve_seconds(Solved("budget", "", Times((60.2,)), None, 1163, {})) == "not finished in 60 s, I >= 1163"


def test_a_normalization_that_is_too_coarse_is_reported() -> None:
    found = compare(two_steps(crossing=3), make_machine(), 1, 1, 60, False, silent)
    assert "too coarse" in found.reason
    assert not found.finished
    assert found.boolean == ()


def test_phases_add_up_to_the_whole_time() -> None:
    questions = (("bound", 0.0), ("feasible", 1.0), ("feasible without avoidable crossing", 0.5), ("length <= 9", 2.0))
    steps = tuple(
        SolverStep(ii=4, ii_to=4, copies=1, question=q, verdict="feasible", solver="z3", seconds=s)
        for q, s in questions
    )
    phases = phases_of(steps, 5.0)
    assert phases == {"ii": 1.5, "copies": 0.0, "crossing": 0.0, "length": 2.0, "registers": 0.0, "other": 1.5}


def test_the_median_run_and_its_neighbour() -> None:
    times = Times((3.0, 1.0, 2.0, 9.0))
    assert times.median == 2.5
    assert times.seconds[times.typical] in (2.0, 3.0)


def test_one_example_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "results" / "solve.json"
    flags = ["--machines", "h100", "--examples", "gemm:bf16", "--repeat", "2", "--units", "100", "--out", str(out)]
    assert main(flags) == 0
    document = json.loads(out.read_text(encoding="utf-8"))
    (only,) = document["rows"]
    assert only["status"] == "optimal"
    assert only["objective"]["ii"] == only["lower_bound"]
    assert len(only["solve_seconds"]) == 2
    assert [a["outcome"] for a in only["comparisons"][0]["boolean"]] == ["sat", "unsat"]
    assert set(document["environment"]) >= {"python", "z3", "triton", "cpu"}
    assert "gemm" in out.with_suffix(".md").read_text(encoding="utf-8")
    assert "gemm" in capsys.readouterr().out


def test_an_interrupted_run_keeps_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = iter((row(),))

    def interrupted(*_: object) -> Row:
        for one in made:
            return one
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "measure_apart", interrupted)
    out = tmp_path / "solve.json"
    retained = measure(plan(subjects=(TINY, TINY)), Console(quiet=True), lambda partial: write(partial, out))
    assert retained.interrupted
    document = json.loads(out.read_text(encoding="utf-8"))
    assert document["interrupted"]
    assert len(document["rows"]) == 1


def test_ctrl_c_ends_the_process_of_a_row() -> None:
    seen: list[str] = []

    def interrupt(what: str) -> None:
        seen.append(what)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure_apart(plan(repeat=1000), TINY, load_machine("h100"), interrupt)
    assert seen
    assert multiprocessing.active_children() == []


def test_a_process_that_dies_has_a_row_that_says_so() -> None:
    class Deadly(str):
        """Cannot be unpickled, so the process that gets it dies."""

        def __reduce__(self) -> tuple[object, ...]:
            return os._exit, (7,)

    found = measure_apart(plan(), Subject("gemm", Deadly("x"), None), load_machine("h100"), silent)
    assert found.solved.status == "refused"
    assert "code 7" in found.solved.message


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "solve.json"
    write(results(row()), out)
    before = out.read_text(encoding="utf-8")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write(results(row(), row()), out)
    assert out.read_text(encoding="utf-8") == before
    assert {path.name for path in tmp_path.iterdir()} == {"solve.json", "solve.md"}


def test_a_kernel_that_is_refused_has_a_row_that_says_why() -> None:
    found = measure_row(plan(), Subject("gone", "gone.py", None), load_machine("h100"), silent)
    assert found.solved.status == "refused"
    assert "gone" in as_markdown(results(found))
    assert as_json(results(found))["rows"]


def test_an_interrupted_page_says_so() -> None:
    assert "interrupted" in as_markdown(results(row(), interrupted=True))
    assert "interrupted" not in as_markdown(results(row()))


def test_examples_are_named_with_or_without_their_specialization() -> None:
    every = subjects("", ROOT / "examples")
    assert {s.name for s in every} >= {"attention", "gemm"}
    attention = subjects("attention", ROOT / "examples")
    assert {s.spec for s in attention} >= {"full", "causal"}
    assert [s.spec for s in subjects("attention:causal", ROOT / "examples")] == ["causal"]


@pytest.mark.parametrize(("wanted", "hint"), [("atention", "gemm"), ("attention:ful", ":causal")])
def test_an_unknown_example_is_refused(wanted: str, hint: str) -> None:
    with pytest.raises(UnknownExample, match=wanted) as caught:
        subjects(wanted, ROOT / "examples")
    assert hint in caught.value.hint


@pytest.mark.parametrize("flags", [["--machines", "h1000"], ["--examples", "nothing"]])
def test_bad_names_end_with_exit_code_2(flags: list[str]) -> None:
    assert main(flags) == 2


@pytest.mark.parametrize("flags", [["--repeat", "0"], ["--budget", "-1"], ["--units", "fine"], ["--budget", "inf"]])
def test_bad_numbers_end_with_exit_code_2(flags: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(flags)
    assert caught.value.code == 2
