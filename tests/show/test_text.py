"""Promises of twill.show.text and its tables: every figure is there, and nothing unproven is called optimal."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.schedules import attention_schedule
from twill.graph.costed import Cooperation, Normalization
from twill.schedule.document import Schedule
from twill.show.text import print_schedule, schedule_text


def unproven() -> Schedule:
    """The schedule as a search that ran out of budget would leave it."""
    schedule = attention_schedule()
    certificate = schedule.certificate.model_copy(update={"optimal": False, "lower_bound": 1990})
    loop = schedule.loops[0].model_copy(update={"certificate": certificate})
    return schedule.model_copy(update={"certificate": certificate, "loops": (loop,)})


def test_the_text_is_as_recorded(golden: Callable[[str, str], None]) -> None:
    golden("show_attention_120.txt", schedule_text(attention_schedule(), 120))


@pytest.mark.parametrize("width", [80, 100, 200])
def test_no_line_is_wider_than_asked_or_ends_in_blanks(width: int) -> None:
    lines = schedule_text(attention_schedule(), width).splitlines()
    assert max(map(len, lines)) <= width
    assert all(line == line.rstrip() for line in lines)


def test_at_80_columns_no_table_is_cut() -> None:
    assert "…" not in schedule_text(attention_schedule(), 80)


def test_every_op_has_its_row() -> None:
    schedule = attention_schedule()
    words = [line.split() for line in schedule_text(schedule, 120).splitlines()]
    for op in schedule.ops:
        name = op.name if op.block < 0 else f"{op.name}.{op.block}"
        figures = [str(op.line), op.unit, f"{op.start:,}", str(op.stage), f"{op.row:,}"]
        assert [name, *figures] in [row[:6] for row in words]


def test_optimal_is_said_only_of_what_is_proven() -> None:
    assert "attention (full) on h100: proven optimal\n" in schedule_text(attention_schedule(), 120)
    text = schedule_text(unproven(), 120)
    assert "not proven optimal: I = 2048, proven lower bound 1990" in text
    assert "proven: I >= 1990" in text
    assert "every objective proven" not in text


def test_an_unproven_second_loop_is_named() -> None:
    schedule = attention_schedule()
    open_loop = unproven().loops[0].model_copy(update={"line": 44})
    text = schedule_text(schedule.model_copy(update={"loops": (schedule.loops[0], open_loop)}), 120)
    assert "not proven optimal: the loop at line 44" in text


def test_pins_and_normalization_limit_the_claim() -> None:
    scaled = Normalization(bound=300, cycles_per_unit=16.0, worst_error=0.04)
    schedule = attention_schedule().model_copy(update={"pins": ("qk.0=g0",), "normalization": scaled})
    text = schedule_text(schedule, 120)
    assert "proven optimal for these pins for the normalized costs" in text
    assert "1 unit = 16 cycles, worst error of a cost 4.0%" in text
    assert "pins: qk.0=g0" in text


def test_fused_instances_show_their_share() -> None:
    fused = Cooperation(dim="m", split=1, fuse=2)
    text = schedule_text(attention_schedule().model_copy(update={"cooperation": fused}), 120)
    assert "1,024 for each of 2 instances" in text


def test_standard_output_gets_no_colour_when_it_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_schedule(attention_schedule())
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "consumer 0" in out


def test_objectives_that_are_not_proven_are_not_said_to_be() -> None:
    schedule = attention_schedule()
    loops = tuple(
        loop.model_copy(
            update={"objective": loop.objective.model_copy(update={"proven": ("ii", "copies", "crossing")})}
        )
        for loop in schedule.loops
    )
    text = schedule_text(schedule.model_copy(update={"loops": loops}), 120)
    assert "attention (full) on h100: proven optimal in I, copies and crossings\n" in text
    assert "every objective proven" not in text
