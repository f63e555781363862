"""Pins: the grammar, what each form means, and what is refused."""

from __future__ import annotations

import pytest

from tests.graphs import edge, graph, instruction
from tests.kernels import H100, costed_example
from tests.strategies import make_machine
from twill.exc import BadPin
from twill.graph.costed import CostedGraph
from twill.smt.assignment import Assignment, read_assignment
from twill.smt.backend import Z3Session
from twill.smt.encoding import Encoding
from twill.smt.pins import Pin, assert_pins, parse_pin, select
from twill.smt.rules import assert_rules

MACHINE = make_machine(compute_groups=2)


def kernel() -> CostedGraph:
    """Two row blocks of x then y, after a shared load."""
    load = instruction(0, ("tma", 1), asynchronous=True, variable=True, contexts=("load",))
    ops = [load.model_copy(update={"name": "k", "line": 5})]
    for name, line, unit in (("x", 7, "alu"), ("y", 8, "tensor")):
        for block in (0, 1):
            made = instruction(len(ops), (unit, 2))
            ops.append(made.model_copy(update={"name": name, "line": line, "block": block}))
    return graph(tuple(ops), tuple(edge(a, b, 2) for a, b in ((0, 1), (0, 2), (1, 3), (2, 4))))


def with_pins(g: CostedGraph, ii: tuple[int, int], *texts: str) -> Assignment | None:
    """A schedule that respects the pins, or None."""
    pins = tuple(parse_pin(t) for t in texts)
    e = Encoding(g, MACHINE, Z3Session(), ii, pinned=True, named_slots=any(p.names_group for p in pins))
    assert_rules(e)
    assert_pins(e, pins)
    e.flush()
    answer = e.session.check(["(= s0 0)", "(= r0 0)"])  # the load comes first, so starts are not moved
    assert answer.outcome != "unknown"
    return read_assignment(e, answer.values) if answer.outcome == "sat" else None


# -- grammar ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "pin"),
    [
        ("acc@group=2", Pin("acc@group=2", ("acc", None), "group", 2)),
        ("acc.1@stage=0", Pin("acc.1@stage=0", ("acc", 1), "stage", 0)),
        ("line:97@start=1024", Pin("line:97@start=1024", ("line:97", None), "start", 1024)),
        ("line:97.0@group=1", Pin("line:97.0@group=1", ("line:97", 0), "group", 1)),
        ("p<acc", Pin("p<acc", ("p", None), "<", second=("acc", None))),
        ("p.0 < acc.1", Pin("p.0 < acc.1", ("p", 0), "<", second=("acc", 1))),
        ("m_ij~line:30", Pin("m_ij~line:30", ("m_ij", None), "~", second=("line:30", None))),
        ("_x9 !~ y", Pin("_x9 !~ y", ("_x9", None), "!~", second=("y", None))),
    ],
)
def test_every_form_is_parsed(text: str, pin: Pin) -> None:
    assert parse_pin(text) == pin


@pytest.mark.parametrize(
    "text",
    ["", "acc", "acc@", "acc@group", "acc@group=", "acc@group=x", "acc@group=-1", "acc@warp=1", "9@stage=1",
     "acc.@stage=1", "a>b", "a<", "<b", "a<b<c", "a==b", "a!b", "line:@stage=1", "line:x<y", "acc@stage=1 or 2",
     "acc@stage=1;y@stage=2"],
)  # fmt: skip
def test_parse_fail_says_what_a_pin_looks_like(text: str) -> None:
    with pytest.raises(BadPin, match="is not understood") as error:
        parse_pin(text)
    assert repr(text) in error.value.message
    for form in ("@group=K", "@stage=K", "@start=K", "A<B", "A~B", "A!~B"):
        assert form in error.value.hint
    assert error.value.exit_code == 2


def test_only_stage_and_start_speak_of_times() -> None:
    assert [t for t in ("a@group=1", "a@stage=1", "a@start=1", "a~b", "a<b") if parse_pin(t).names_time] == [
        "a@stage=1",
        "a@start=1",
    ]


def test_only_a_group_pin_speaks_of_a_numbered_warp_group() -> None:
    assert parse_pin("a@group=1").names_group
    assert not any(parse_pin(t).names_group for t in ("a@stage=1", "a@start=1", "a~b", "a!~b", "a<b"))


# -- what is named ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operand", "ids"),
    [(("x", None), [1, 2]), (("x", 1), [2]), (("line:8", None), [3, 4]), (("line:8", 0), [3]), (("k", None), [0])],
)
def test_a_name_or_line_means_every_row_block_or_one(operand: tuple[str, int | None], ids: list[int]) -> None:
    assert [i.id for i in select(kernel(), operand, "text")] == ids


@pytest.mark.parametrize("operand", [("z", None), ("x", 2), ("line:6", None), ("k", 0)])
def test_select_fail_names_the_instructions_that_exist(operand: tuple[str, int | None]) -> None:
    with pytest.raises(BadPin, match="names no instruction of the loop at line 10") as error:
        select(kernel(), operand, "the pin")
    assert error.value.hint == "one of k, x, y"


def test_pin_fail_for_a_group_that_cannot_issue_it() -> None:
    with pytest.raises(BadPin, match=r"warp group 2, which cannot issue x") as error:
        with_pins(kernel(), (8, 8), "x@group=2")
    assert error.value.hint == "one of warp groups 0, 1"
    assert error.value.line == 7


def test_pins_name_the_variables_of_the_kernel() -> None:
    g = costed_example("attention", "full", split=2)
    assert [(i.name, i.block) for i in select(g, ("qk", None), "")] == [("qk", 0), ("qk", 1)]
    e = Encoding(g, H100, Z3Session(), (2048, 2048))
    with pytest.raises(BadPin, match="'softmax@stage=1'") as error:
        assert_pins(e, (parse_pin("softmax@stage=1"),))
    assert error.value.hint == "one of acc, alpha, k, l_i, m_ij, p, qk, v"


# -- what it means ------------------------------------------------------------------------------


@pytest.mark.parametrize("ii", [(8, 8), (8, 11)])
def test_group(ii: tuple[int, int]) -> None:
    a = with_pins(kernel(), ii, "x.0@group=1", "x.1@group=0")
    assert a is not None
    assert (a.slot[1], a.slot[2]) == (1, 0)
    every = with_pins(kernel(), ii, "x@group=1")
    assert every is not None
    assert every.slot[1] == every.slot[2] == 1


@pytest.mark.parametrize("ii", [(8, 8), (8, 11)])
def test_stage(ii: tuple[int, int]) -> None:
    a = with_pins(kernel(), ii, "y@stage=2", "x.1@stage=1")
    assert a is not None
    assert [t // a.ii for t in (a.start[2], a.start[3], a.start[4])] == [1, 2, 2]
    assert with_pins(kernel(), ii, "y.0@stage=0", "x.0@stage=1") is None


@pytest.mark.parametrize("ii", [(8, 8), (8, 11), (5, 5)])
def test_start(ii: tuple[int, int]) -> None:
    a = with_pins(kernel(), ii, "x.0@start=13", "y.0@start=19")
    assert a is not None
    assert (a.start[1], a.start[3]) == (13, 19)
    assert with_pins(kernel(), ii, "x.0@start=1") is None  # the load takes two cycles


def test_times_count_from_the_earliest_start() -> None:
    assert with_pins(kernel(), (8, 8), "k@start=0") is not None
    late = Encoding(kernel(), MACHINE, Z3Session(), (8, 8), pinned=True)
    assert_rules(late)
    assert_pins(late, (parse_pin("k@stage=1"), parse_pin("y.0@start=30")))
    late.flush()
    assert late.session.check().outcome == "unsat"  # the load comes before everything else
    assert not late.rotates
    free = Encoding(kernel(), MACHINE, Z3Session(), (8, 8), pinned=True)
    assert_pins(free, (parse_pin("x<y"),))
    assert free.rotates


@pytest.mark.parametrize("ii", [(8, 8), (8, 11)])
def test_order_within_one_iteration_and_row_block(ii: tuple[int, int]) -> None:
    a = with_pins(kernel(), ii, "y.1<x.0")
    assert a is not None
    assert a.start[4] < a.start[1]
    assert with_pins(kernel(), ii, "y<x") is None  # within each block x comes first
    assert with_pins(kernel(), ii, "x<y") is not None
    assert with_pins(kernel(), ii, "x.0<x.1", "x.1<x.0") is None
    assert with_pins(kernel(), ii, "x.0@start=17", "y.1@start=17") is not None
    assert with_pins(kernel(), ii, "x.0@start=17", "y.1@start=17", "x.0<y.1") is None  # before, not with


@pytest.mark.parametrize("ii", [(8, 8), (8, 11)])
def test_together_and_apart(ii: tuple[int, int]) -> None:
    together = with_pins(kernel(), ii, "x~y", "x.0 ~ x.1")
    assert together is not None
    assert len({together.slot[v] for v in (1, 2, 3, 4)}) == 1
    apart = with_pins(kernel(), ii, "x!~y")
    assert apart is not None
    assert apart.slot[1] != apart.slot[3]
    assert apart.slot[2] != apart.slot[4]
    assert with_pins(kernel(), ii, "x.0~y.0", "x.0!~y.0") is None
    assert with_pins(kernel(), ii, "k~x") is None  # no context issues both


def test_both_sides_with_blocks_are_compared_across_blocks() -> None:
    a = with_pins(kernel(), (8, 8), "x.0!~y.1")
    assert a is not None
    assert a.slot[1] != a.slot[4]


@pytest.mark.parametrize("text", ["x<x", "x.0<x.0", "k~k", "y!~y"])
def test_pin_fail_for_an_instruction_compared_with_itself(text: str) -> None:
    with pytest.raises(BadPin, match="compares an instruction with itself"):
        with_pins(kernel(), (8, 8), text)


def test_row_blocks_of_one_name_are_compared_where_they_are_named() -> None:
    assert with_pins(kernel(), (8, 8), "x.0<x.1") is not None
    assert with_pins(kernel(), (8, 8), "x.1<x.0") is not None
