"""Promises of `twill.codegen.passes.warp_votes`: where a multiplication by ones may be left out, and what the vote
looks like."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.golden_schedules import Example, kernel, lowered, machine
from tests.printed_programs import arguments, simple
from twill.codegen.passes.warp_votes import with_warp_votes
from twill.codegen.print.cuda.printer import print_cuda
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.expression import Local, Number, less
from twill.codegen.warp.layout import Accumulator, Along, Layout
from twill.codegen.warp.program import (
    WARP_VOTE,
    Commit,
    Compute,
    Copy,
    If,
    Multiply,
    Pipeline,
    Reg,
    SlotRef,
    Stmt,
    WaitGroups,
    WarpGroup,
    walk,
)
from twill.kernel.specialization import problem_of
from twill.tile.vocabulary import OFTEN_ONE

pytestmark = pytest.mark.usefixtures("at_root")

ACC, ALPHA, OTHER, NARROW, COLUMNS = range(5)
WIDE = Accumulator(64, 128)
LAYOUTS: dict[int, Layout] = {
    ACC: WIDE,
    ALPHA: Along(WIDE, 1),
    OTHER: WIDE,
    NARROW: Accumulator(64, 8),
    COLUMNS: Along(WIDE, 0),
}


def rescale(result: int = ACC, source: int = ACC, by: int = ALPHA, **attributes: int) -> Compute:
    axes = (-1, 0) if by == COLUMNS else (0, -1)
    return Compute("mul", (Reg(source), Reg(by, axes)), result, tuple(attributes.items()))


def often(result: int = ACC, source: int = ACC, by: int = ALPHA) -> Compute:
    return rescale(result, source, by, **{OFTEN_ONE: 1})


def loop(*steady: Stmt) -> Pipeline:
    return Pipeline("l", "k", Local("n"), 1, (steady,), steady, (steady,))


def product() -> tuple[Stmt, ...]:
    return Multiply(OTHER, SlotRef(0), SlotRef(1), False, False, 64, "bf16", True), Commit()


def votes(*steady: Stmt) -> int:
    """Votes in the steady state; there are none elsewhere, and nothing is marked any more."""
    (made,) = with_warp_votes((loop(*steady),), LAYOUTS)
    assert isinstance(made, Pipeline)
    for block in (*made.prologue, *made.epilogue):
        assert WARP_VOTE not in str(block)
    assert OFTEN_ONE not in str(made)
    return sum(WARP_VOTE in dict(stmt.attributes) for stmt in walk(made.steady) if isinstance(stmt, Compute))


def test_a_rescaled_accumulator_is_voted_on_in_the_steady_state_alone() -> None:
    assert votes(often()) == 1
    assert with_warp_votes((often(),), LAYOUTS) == (rescale(),)


def test_a_later_steady_state_votes_too_unless_the_one_before_it_leaves_products_in_flight() -> None:
    def later(*steady: Stmt) -> Pipeline:
        both = replace(loop(*steady), until=less(Number(3), Local("k")), later=(often(),))
        (made,) = with_warp_votes((both,), LAYOUTS)
        assert isinstance(made, Pipeline)
        return made

    assert later().later == (rescale(**{WARP_VOTE: 1}),)
    assert later(*product()).later == (rescale(),)


def test_a_guard_within_the_steady_state_is_part_of_it() -> None:
    assert votes(If(less(Local("k"), Number(3)), (often(),))) == 1


@pytest.mark.parametrize(
    "stmt",
    [
        rescale(),
        often(result=OTHER),
        often(NARROW, NARROW),
        often(by=COLUMNS),
        replace(often(), kind="add"),
        Copy(ACC, OTHER),
    ],
    ids=["not marked", "not in place", "four registers", "a factor for each column", "a sum", "no computation"],
)
def test_other_statements_stay_as_they_are(stmt: Stmt) -> None:
    assert votes(stmt) == 0


def test_there_is_no_branch_while_a_product_is_in_flight() -> None:
    assert votes(*product(), often(), WaitGroups(0, ())) == 0
    assert votes(*product(), WaitGroups(0, ()), often()) == 1
    assert votes(*product(), *product(), WaitGroups(1, ()), often(), WaitGroups(0, ())) == 0
    assert votes(often(), *product()) == 0  # of the iteration before
    assert votes(If(less(Local("k"), Number(3)), product()), often(), WaitGroups(0, ())) == 0


def test_a_vote_comes_behind_the_elementwise_work_that_does_not_need_it() -> None:
    cast = Compute("cast", (Reg(OTHER),), NARROW)
    (made,) = with_warp_votes((loop(often(), cast, Copy(OTHER, COLUMNS)),), LAYOUTS)
    assert isinstance(made, Pipeline)
    assert made.steady == (cast, Copy(OTHER, COLUMNS), rescale(**{WARP_VOTE: 1}))


@pytest.mark.parametrize(
    "after",
    [Copy(ACC, OTHER), Compute("add", (Reg(OTHER), Reg(OTHER)), ACC), Copy(NARROW, ALPHA), Commit()],
    ids=["reads the matrix", "writes the matrix", "writes the factor", "is no elementwise work"],
)
def test_a_vote_stays_in_front_of_what_needs_it(after: Stmt) -> None:
    (made,) = with_warp_votes((loop(often(), after, WaitGroups(0, ())),), LAYOUTS)
    assert isinstance(made, Pipeline)
    assert made.steady[1] == after


# -- what it looks like, and what it means -----------------------------------------------------------


def test_the_lanes_of_a_warp_branch_alike() -> None:
    fragments: list[tuple[str, str, Layout]] = [("acc", "f32", WIDE), ("alpha", "f32", Along(WIDE, 1))]
    text = print_cuda(simple("k", arguments(n="i32"), fragments, [rescale(**{WARP_VOTE: 1})])).text
    at = text.index("if (warp_any(alpha[0] != 1.0f || alpha[1] != 1.0f)) {")
    assert "acc[i] = (acc[i] * alpha[(i >> 1 & 1)]);" in text[at : at + 200]


def test_every_online_softmax_votes_once_a_loop_and_no_other_example_does() -> None:
    for file, spec, count in (
        ("attention", "full", 1),
        ("attention", "causal", 2),
        ("sliding_window_attention", "bf16", 2),  # an iteration with its mask, and one without
        ("gemm", "bf16", 0),
    ):
        example = Example(f"examples/{file}.py", spec)
        program = lowered(example)
        assert print_cuda(program, machine()).text.count("if (warp_any(") == count


def test_a_vote_about_what_is_not_multiplied_in_place_is_found() -> None:
    """The abstract machine leaves out what a warp may leave out."""
    example = Example("examples/attention.py", "full-d64")
    right = lowered(example)
    (group, stmt) = next(
        (g, s) for g in right.groups for s in g.stmts if isinstance(s, Compute) and WARP_VOTE in dict(s.attributes)
    )
    factor = next(o for o in stmt.operands if isinstance(o, Reg) and o.axes)
    acc = group.fragment(stmt.result)
    like = next(f for f in group.fragments if f != acc and (f.layout, f.element) == (acc.layout, acc.element))
    exchanged = replace(stmt, operands=(Reg(like.id), factor))
    bad = replace(right, groups=tuple(with_other(g, stmt, exchanged) for g in right.groups))
    assert verify(bad, problem_of(kernel(example).specialization), enough=1)


def with_other(group: WarpGroup, stmt: Stmt, other: Stmt) -> WarpGroup:
    """The group with another statement in place of one of its steady states."""

    def inside(each: Stmt) -> Stmt:
        if not isinstance(each, Pipeline):
            return each
        return replace(each, steady=tuple(other if s is stmt else s for s in each.steady))

    return replace(group, body=tuple(map(inside, group.body)))
