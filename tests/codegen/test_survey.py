"""The survey of seeded faults: each is looked at once, and a record that ended early is gone on with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import survey
from tests.survey import CLEAN, FOUND, MISSED, OPEN, SAME, Line, digest, rest, run, settled, table
from tests.survey_command import append, commands, read, taken
from tests.tool_survey import Line as ToolLine
from tests.warp_programs import gemm
from twill.codegen.warp.program import WarpProgram

EVERY, KINDS = 2, ("dropped Get", "extra Advance", "slot 0 always", "wrong full_count")


def programs() -> dict[str, WarpProgram]:
    return {"gemm": gemm(2, 1)}


@pytest.fixture(scope="module")
def lines() -> list[Line]:
    return list(run(programs(), [], 1, 600.0, EVERY, KINDS))


def test_every_nth_fault_gets_a_verdict(lines: list[Line]) -> None:
    last = settled(lines)
    assert [line.verdict for line in last if line.kind == CLEAN] == [SAME]
    numbers = sorted(line.number for line in last if line.kind != CLEAN)
    assert numbers == taken(survey.STATE.faults["gemm"], EVERY, KINDS) and len(numbers) > 5
    assert not [line for line in last if line.verdict in (OPEN, MISSED)], list(rest(last))
    assert all(line.rule for line in last if line.verdict == FOUND)


def test_a_record_is_gone_on_with(lines: list[Line]) -> None:
    faults = [line for line in settled(lines) if line.kind != CLEAN]
    doubtful = replace(faults[1], verdict=OPEN)
    more = list(run(programs(), [*faults[2:], doubtful], 1, 600.0, EVERY, KINDS))
    assert {line.number for line in more} == {-1, faults[0].number, faults[1].number}


def test_several_processes_say_the_same(lines: list[Line]) -> None:
    def verdicts(found: list[Line]) -> set[tuple[int, str]]:
        return {(line.number, line.verdict) for line in settled(found)}

    assert verdicts(list(run(programs(), [], 2, 600.0, EVERY, KINDS))) == verdicts(lines)


def test_a_record_of_another_program_says_nothing(lines: list[Line]) -> None:
    faults = [replace(line, program=digest(gemm(1, 0))) for line in settled(lines)]
    assert len(settled(run(programs(), faults, 1, 600.0, 4 * EVERY, KINDS))) > 2


def test_no_fault_is_tried_after_the_end() -> None:
    assert [line.kind for line in run(programs(), [], 1, 0.0, EVERY)] == [CLEAN]


def test_the_table_counts_faults_that_were_found_among_those_that_are_some() -> None:
    verdicts = [FOUND, FOUND, FOUND, MISSED, SAME]
    made = [Line("gemm", number, "", "dropped Get", verdict) for number, verdict in enumerate(verdicts)]
    assert "| dropped Get | 5 | 1 | 0 | 0 | 0 | 3 | 75.0 % |" in table(made)
    assert any(said.startswith("gemm 3: dropped Get") for said in rest(made))


class Fault(NamedTuple):
    kind: str


def test_a_sample_has_the_first_of_every_class_and_each_nth_behind_it() -> None:
    made = [Fault(kind) for kind in "aaabaab"]
    assert taken(made, 1, ()) == [0, 1, 2, 3, 4, 5, 6]
    assert taken(made, 2, ()) == [0, 2, 3, 5]
    assert taken(made, 9, ()) == [0, 3]
    assert taken(made, 1, ["b"]) == [3, 6]


@pytest.mark.parametrize(
    "line", [Line("gemm", 1, "", "dropped Get", FOUND), ToolLine("gemm", 1, "a", "order", "values")]
)
def test_both_surveys_keep_records_of_one_form(line: Line | ToolLine, tmp_path: Path) -> None:
    record = tmp_path / "record"
    append(record, [line, line])
    with record.open("a", encoding="utf-8") as broken:
        broken.write('{"example": "ge')
    assert read([record, tmp_path / "none"], type(line)) == [line, line]


def test_both_surveys_have_the_same_words() -> None:
    parser, mine = commands("What it is.", "corpus")
    mine["run"].add_argument("--execute", type=int, default=1)
    given = parser.parse_args(["run", "PROGRAMS", "RECORD", "--every", "4", "--kind", "dropped Get", "--execute", "0"])
    assert (given.every, given.kind, given.execute, given.before) == (4, ["dropped Get"], 0, [])
    assert parser.parse_args(["table", "a", "b"]).record == [Path("a"), Path("b")]
    assert parser.parse_args(["corpus"]).command == "corpus"
