"""The survey of seeded faults: each is looked at once, and a record that ended early is gone on with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests import survey
from tests.survey import CLEAN, FOUND, MISSED, OPEN, SAME, Line, digest, rest, run, settled, table
from tests.warp_programs import gemm
from twill.codegen.warp.program import WarpProgram

EVERY = 20


def programs() -> dict[str, WarpProgram]:
    return {"gemm": gemm(2, 1)}


@pytest.fixture(scope="module")
def lines() -> list[Line]:
    return list(run(programs(), [], 1, 600.0, EVERY))


def test_every_nth_fault_gets_a_verdict(lines: list[Line]) -> None:
    last = settled(lines)
    assert [line.verdict for line in last if line.kind == CLEAN] == [SAME]
    numbers = sorted(line.number for line in last if line.kind != CLEAN)
    assert numbers == list(range(0, len(survey.STATE.faults["gemm"]), EVERY)) and len(numbers) > 5
    assert not [line for line in last if line.verdict in (OPEN, MISSED)], list(rest(last))
    assert all(line.rule for line in last if line.verdict == FOUND)


def test_a_record_is_gone_on_with(lines: list[Line]) -> None:
    faults = [line for line in settled(lines) if line.kind != CLEAN]
    doubtful = replace(faults[1], verdict=OPEN)
    more = list(run(programs(), [*faults[2:], doubtful], 1, 600.0, EVERY))
    assert {line.number for line in more} == {-1, faults[0].number, faults[1].number}


def test_a_record_of_another_program_says_nothing(lines: list[Line]) -> None:
    faults = [replace(line, program=digest(gemm(1, 0))) for line in settled(lines)]
    assert len(settled(run(programs(), faults, 1, 600.0, 4 * EVERY))) > 2


def test_no_fault_is_tried_after_the_end() -> None:
    assert [line.kind for line in run(programs(), [], 1, 0.0, EVERY)] == [CLEAN]


def test_the_table_counts_faults_that_were_found_among_those_that_are_some() -> None:
    verdicts = [FOUND, FOUND, FOUND, MISSED, SAME]
    made = [Line("gemm", number, "", "dropped Get", verdict) for number, verdict in enumerate(verdicts)]
    assert "| dropped Get | 5 | 1 | 0 | 0 | 0 | 3 | 75.0 % |" in table(made)
    assert any(said.startswith("gemm 3: dropped Get") for said in rest(made))
