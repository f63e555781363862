"""Promises of twill.show.gantt: proportions, names, iterations and legend of the picture."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rich.text import Text

from tests.schedules import attention_schedule
from twill.schedule.document import Schedule, ScheduledOp
from twill.show.gantt import ASCII, gantt
from twill.show.view import LoopView, views


def drawn(width: int, schedule: Schedule | None = None) -> list[str]:
    """The picture's lines in ASCII."""
    (view,) = views(schedule or attention_schedule())
    return [line.plain for line in gantt(view, width, glyphs=ASCII)]


def line_of(name: str, lines: list[str]) -> str:
    """The line of a row."""
    return next(line for line in lines if line.startswith(name))


def test_the_picture_is_as_recorded(golden: Callable[[str, str], None]) -> None:
    golden("gantt_attention_100.txt", "\n".join(drawn(100)) + "\n")


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, drawn(width))) <= width


def test_rows_are_all_units_then_all_warp_groups() -> None:
    lines = drawn(80)
    names = [line.split("  ")[0].strip() for line in lines[1:10]]
    assert [name.split(" ")[0] for name in names if name][:5] == ["tensor", "mufu", "tma", "alu", "fma"]
    assert [line[:10].strip() for line in lines[7:10]] == ["consumer 0", "consumer 1", "load"]


def test_a_full_unit_has_no_idle_cell_and_an_idle_one_many() -> None:
    lines = drawn(80)
    assert "." not in line_of("tensor", lines).split("%")[0].replace(".0", "").replace(".1", "")
    cells = line_of("tma", lines)[11:-5]
    assert abs(cells.count(".") / len(cells) - (1 - 912 / 2048)) < 0.03


def test_names_tell_row_block_and_iteration() -> None:
    line = line_of("tensor", drawn(120))
    assert "|qk.0 i -" in line and "|acc.0 i-1" in line and "|acc.1 i-1" in line
    # qk.1 starts at row 1998 of iteration i and comes in from the right edge as one of iteration i-1.
    assert line[11:].startswith("qk.1 i-1")


def test_short_bars_have_letters_that_the_legend_explains() -> None:
    lines = drawn(80)
    legend = " ".join(lines[10:])
    assert "=alpha.1" in legend
    letter = legend.split("=alpha.1")[0][-1]
    assert letter in line_of("consumer 1", lines)[11:]


def test_what_is_too_short_to_draw_is_listed() -> None:
    lines = drawn(80)
    assert "not drawn, under half a cell of 32 cycles: alpha.0 (24), l_i.0 (8), l_i.1 (8)" in " ".join(lines)


def test_a_bar_that_fills_the_interval_still_shows_where_it_begins() -> None:
    schedule = attention_schedule()
    loop = schedule.loops[0]

    def held(op: ScheduledOp) -> ScheduledOp:
        return op.model_copy(update={"hold": 2048, "start": 1024, "row": 1024}) if op.name == "k" else op

    instructions = (loop.graph.instructions[0].model_copy(update={"hold": 2048}), *loop.graph.instructions[1:])
    graph = loop.graph.model_copy(update={"instructions": instructions})
    changed = schedule.model_copy(
        update={
            "ops": tuple(held(op) for op in schedule.ops if op.name != "v"),
            "loops": (loop.model_copy(update={"graph": without_v(graph)}),),
        }
    )
    line = line_of("load", drawn(91, changed))
    assert line[11:].startswith("k i-1") and "|k i -" in line


def without_v(graph: object) -> object:
    """The graph without the second load."""
    from twill.graph.costed import CostedGraph

    assert isinstance(graph, CostedGraph)
    return graph.model_copy(
        update={
            "instructions": tuple(i for i in graph.instructions if i.name != "v"),
            "edges": tuple(e for e in graph.edges if 1 not in (e.src, e.dst)),
            "values": tuple(v for v in graph.values if v.producer != 1),
        }
    )


def test_colours_are_an_addition_only() -> None:
    view: LoopView = views(attention_schedule())[0]
    lines = gantt(view, 80)
    assert any(span.style for line in lines for span in line.spans)
    assert all(isinstance(line, Text) for line in lines)
    assert "▌" in "".join(line.plain for line in lines)
