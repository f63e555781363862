"""Promises of twill.show.view: rows say what occupies them, and a document that lies is not drawn."""

from __future__ import annotations

import pytest

from tests.schedules import attention_schedule
from twill.exc import InvalidSchedule
from twill.machine.file import load_machine
from twill.schedule.checker.check import check
from twill.schedule.document import Schedule
from twill.show.view import Bar, telling_names, views


def test_the_schedule_these_tests_draw_is_valid() -> None:
    assert check(attention_schedule(), load_machine("h100")) == ()


def test_units_come_busiest_first_and_groups_in_their_order() -> None:
    (view,) = views(attention_schedule())
    assert [(row.name, row.busy) for row in view.units] == [
        ("tensor", 2048), ("mufu", 1032), ("tma", 912), ("alu", 388), ("fma", 386),
    ]  # fmt: skip
    assert [row.name for _, row in view.groups] == ["consumer 0", "consumer 1", "load"]
    assert [item.op.start for item in view.items] == sorted(item.op.start for item in view.items)


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (10, 30, [(10, 30, True)]),
        (110, 130, [(10, 30, True)]),
        (90, 120, [(90, 100, True), (0, 20, False)]),
        (90, 190, [(90, 100, True), (0, 90, False)]),
        (0, 100, [(0, 100, True)]),
        (50, 50, []),
        (50, 400, [(50, 100, True), (0, 50, False)]),
    ],
)
def test_a_bar_wraps_into_the_steady_state(start: int, end: int, expected: list[tuple[int, int, bool]]) -> None:
    item = views(attention_schedule())[0].items[0]
    assert list(Bar(item, start, end).wrapped(100)) == expected


def test_ops_of_one_variable_are_told_apart() -> None:
    ops = attention_schedule().ops[:5]
    same = [op.model_copy(update={"name": "p", "block": 0}) for op in ops]
    same[0] = same[0].model_copy(update={"op": "mul exp2"})
    same[1] = same[1].model_copy(update={"op": "mul sub"})
    same[2] = same[2].model_copy(update={"op": "add sub"})
    same[3] = same[3].model_copy(update={"op": "cast", "id": 30})
    same[4] = same[4].model_copy(update={"op": "cast", "id": 40})
    assert list(telling_names(same).values()) == ["p:exp2", "p:mul+sub", "p:add+sub", "p#30", "p#40"]


def test_row_blocks_share_a_name() -> None:
    (view,) = views(attention_schedule())
    assert {item.label for item in view.items if item.op.line == 22} == {"qk.0", "qk.1"}
    assert {item.name for item in view.items if item.op.line == 22} == {"qk"}


def spoiled(what: str) -> Schedule:
    """A document that contradicts itself."""
    schedule = attention_schedule()
    first, loop = schedule.ops[0], schedule.loops[0]
    changes: dict[str, dict[str, int | str]] = {
        "loop": {"loop": 7}, "group": {"warp_group": 9}, "start": {"start": 5}, "unit": {"unit": "alu"},
        "id": {"id": 77}, "twice": {"id": 1},
    }  # fmt: skip
    if what in changes:
        return schedule.model_copy(update={"ops": (first.model_copy(update=changes[what]), *schedule.ops[1:])})
    if what == "missing":
        return schedule.model_copy(update={"ops": schedule.ops[1:]})
    if what == "no loops":
        return schedule.model_copy(update={"loops": ()})
    if what == "edge":
        edges = (loop.graph.edges[0].model_copy(update={"src": 99}),)
        graph = loop.graph.model_copy(update={"edges": edges})
        return schedule.model_copy(update={"loops": (loop.model_copy(update={"graph": graph}),)})
    figures = {"ii": {"ii": 0}, "short": {"length": 10}, "endless": {"length": 10**12}}[what]
    return schedule.model_copy(update={"loops": (loop.model_copy(update=figures),)})


@pytest.mark.parametrize(
    "what",
    ["loop", "group", "start", "unit", "id", "twice", "missing", "no loops", "edge", "ii", "short", "endless"],
)
def test_what_contradicts_itself_is_refused(what: str) -> None:
    with pytest.raises(InvalidSchedule, match="contradicts itself"):
        views(spoiled(what))
