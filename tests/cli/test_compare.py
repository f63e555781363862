"""Promises of `twill compare` and of `twill solve --strategy`."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.conftest import ROOT
from tests.schedules import attention_schedule
from tests.show.test_text import unproven
from twill.cli import main
from twill.exc import BudgetExhausted, Infeasible, StrategyGaveUp
from twill.graph.dependence import DependenceGraph
from twill.machine.description import Machine
from twill.schedule.document import Schedule
from twill.solve import pipeline
from twill.solve.comparison import Comparison
from twill.solve.pipeline import SolveOptions

GEMM = str(ROOT / "examples" / "gemm.py")

Answers = dict[str, Schedule | Exception]
Play = Callable[[Answers], list[SolveOptions]]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Play:
    """Puts a solver that gives each strategy its answer in the place of the real one; returns what it was asked."""

    def put(answers: Answers) -> list[SolveOptions]:
        asked: list[SolveOptions] = []

        def solve(graph: DependenceGraph, machine: Machine, options: SolveOptions, *_: object) -> Schedule:
            asked.append(options)
            answer = answers[options.strategy]
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(pipeline, "solve", solve)
        return asked

    return put


def slower() -> Schedule:
    """A schedule of half the speed, proven in nothing."""
    made = unproven()
    return made.model_copy(update={"ii": 2 * attention_schedule().ii, "strategy": "none"})


def answers(**other: Schedule | Exception) -> Answers:
    """Joint's optimum, a paper that ran out of time, a heuristic that gave up, and no pipelining."""
    found: Answers = {
        "joint": attention_schedule(),
        "paper": BudgetExhausted("the budget of 2 s ended with no schedule"),
        "heuristic": StrategyGaveUp("heuristic", "gemm"),
        "none": slower(),
    }
    return found | other


def test_every_strategy_has_a_row(play: Play, capsys: pytest.CaptureFixture[str]) -> None:
    asked = play(answers())
    assert main(["compare", GEMM, "--budget", "2", "--seed", "7", "--blocks", "2", "--normalize", "90"]) == 0
    assert [o.strategy for o in asked] == ["joint", "paper", "heuristic", "none"]
    assert {(o.budget, o.seed, o.blocks, o.normalize) for o in asked} == {(2.0, 7, 2, 90)}
    out, err = capsys.readouterr()
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line[:1].isalpha()}
    assert rows["joint"][:6] == ["2,048", "4,111", "3", "408", "3", "all"]
    assert rows["none"][-1] == "2.00x" and rows["none"][5] == "no"
    assert "paper: the budget of 2 s ended with no schedule" in out
    assert "heuristic: the strategy heuristic found no schedule for gemm" in out
    assert err == ""


def test_json_is_the_comparison_and_nothing_else(play: Play, capsys: pytest.CaptureFixture[str]) -> None:
    play(answers())
    assert main(["compare", GEMM, "--machine", "b200", "--json"]) == 0
    out = capsys.readouterr().out
    found = Comparison.parse(out)
    assert (found.kernel, found.machine, found.budget_seconds) == ("gemm", "b200", 60.0)
    assert [row.speedup for row in found.rows] == [1.0, None, None, 2.0]
    assert out.count("\n") == 1


def test_a_joint_schedule_without_proof_exits_with_4(play: Play, capsys: pytest.CaptureFixture[str]) -> None:
    play(answers(joint=BudgetExhausted("the budget of 2 s ended", schedule=unproven())))
    assert main(["compare", GEMM]) == 4
    assert "joint: the budget of 2 s ended" in capsys.readouterr().out


def test_what_is_proven_infeasible_exits_with_3(play: Play, capsys: pytest.CaptureFixture[str]) -> None:
    asked = play(answers(joint=Infeasible("the unit tensor is busy 2048 cycles")))
    assert main(["compare", GEMM]) == 3
    assert len(asked) == 1
    assert capsys.readouterr().out == ""


def test_an_interrupt_ends_all_of_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object) -> Schedule:
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "solve", interrupted)
    assert main(["compare", GEMM]) == 130
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere.py",), "nowhere.py"),
        ((GEMM, "--machine", "h101"), "did you mean `h100`"),
        ((GEMM, "--spec", "nothing"), "nothing"),
        ((GEMM, "--const", "BLOCK_M"), "BLOCK_M"),
    ],
)
def test_bad_input_exits_with_2_and_says_what_instead(
    play: Play, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    asked = play(answers())
    assert main(["compare", *words]) == 2
    out, err = capsys.readouterr()
    assert out == "" and said in err and "instead: " in err and asked == []


def test_a_strategy_that_proves_nothing_exits_with_0_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", GEMM, "--machine", "h100", "--strategy", "none"]) == 0
    assert "not proven (strategy none)" in capsys.readouterr().out
    assert main(["solve", GEMM, "--machine", "h100", "--strategy", "heuristic", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["strategy"] == "heuristic" and made["certificate"]["optimal"] is False
    assert made["objective"]["proven"] == []


def test_a_strategy_that_finds_nothing_exits_with_4(play: Play, capsys: pytest.CaptureFixture[str]) -> None:
    play(answers())
    assert main(["solve", GEMM, "--machine", "h100", "--strategy", "heuristic"]) == 4
    out, err = capsys.readouterr()
    assert out == "" and "does not mean that there is none" in err


def test_fail_pins_with_a_strategy_that_does_not_follow_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", GEMM, "--machine", "h100", "--strategy", "none", "--pin", "acc.0=g1"]) == 2
    assert "the strategy none does not follow --pin" in capsys.readouterr().err
