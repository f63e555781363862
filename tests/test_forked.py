"""Questions that a copy of the process answers."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from twill.exc import BudgetExhausted, Infeasible, StrategyGaveUp, TwillError
from twill.forked import ForkedAnswer


def test_another_process_answers_while_this_one_works() -> None:
    with ForkedAnswer(os.getpid, 2) as asked:
        assert asked.answer() != os.getpid()
        assert asked.seconds > 0


def test_with_one_process_the_question_is_asked_when_the_answer_is_wanted() -> None:
    asked = list[int]()
    with ForkedAnswer(lambda: asked.append(1), 1) as forked:
        assert asked == []
        forked.answer()
    assert asked == [1]


@pytest.mark.parametrize(
    "error",
    [
        Infeasible("no schedule", file="k.py", line=3, hint="smaller tiles"),
        BudgetExhausted("ended", schedule=(1, 2), lower_bound=7),
        StrategyGaveUp("decoupled", "k"),  # cannot be made again of what it was made of
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_a_user_can_mend_is_raised_as_it_was(error: TwillError) -> None:
    def ask() -> None:
        raise error

    with ForkedAnswer(ask, 2) as forked, pytest.raises(type(error)) as raised:
        forked.answer()
    assert raised.value.describe() == error.describe()
    assert vars(raised.value) == vars(error)


def test_a_copy_that_dies_is_asked_for_nothing() -> None:
    here = os.getpid()

    def ask() -> str:
        if os.getpid() != here:
            os._exit(0)  # without an answer
        return "asked again"

    with ForkedAnswer(ask, 2) as forked:
        assert forked.answer() == "asked again"


def test_nobody_works_on_what_nobody_waits_for(tmp_path: Path) -> None:
    told = tmp_path / "pid"

    def ask() -> None:
        told.write_text(str(os.getpid()))
        time.sleep(600)

    with ForkedAnswer(ask, 2):
        while not (told.exists() and told.read_text()):
            time.sleep(0.01)
    with pytest.raises(ProcessLookupError):
        os.kill(int(told.read_text()), 0)


@pytest.mark.parametrize("processes", [1, 2])
def test_what_is_asked_may_be_told_when_the_copy_is_ready(tmp_path: Path, processes: int) -> None:
    with ForkedAnswer(lambda a, b: a + b, processes, (tmp_path / "ready").touch) as forked:
        forked.about(2, 3)
        assert forked.answer() == 5
    assert (tmp_path / "ready").exists() == (processes > 1)


def test_a_copy_that_is_told_nothing_ends() -> None:
    with ForkedAnswer(os.getpid, 2, os.getpid) as forked:
        copy = forked._copy
    assert copy is not None
    with pytest.raises(ProcessLookupError):
        os.kill(copy, 0)
