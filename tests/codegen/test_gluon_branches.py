"""Modules of Gluon of loops whose iterations take one of two ways: what both have stands once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests.codegen.test_gluon import MOST_LINES, WIDEST
from tests.golden_schedules import examples, schedule
from tests.kernels import H100
from tests.module_edits import edited
from twill.codegen.emission import Extracted, extract
from twill.codegen.gluon import MOST_LOCAL, GluonEmission, emit_gluon
from twill.codegen.print.gluon.in_flight import products_in_flight
from twill.codegen.print.gluon.loops import left_in_flight
from twill.codegen.print.gluon.module import print_gluon
from twill.codegen.print.gluon.states import joined_sides
from twill.codegen.print.gluon.variables import needed_at_once
from twill.codegen.warp.program import If, Pipeline, Reduce, Stmt, WaitGroups, WarpGroup, with_blocks
from twill.exc import ExecutionDiffers, NotInGluon
from twill.tile.rewrite.pipeline import Allowed
from twill.trial.gluon import checked

pytestmark = pytest.mark.usefixtures("at_root")


@cache
def extracted() -> Extracted:
    return extract("examples/sliding_window_attention.py", "bf16", (), (), Allowed(conditional=False))


@cache
def emitted() -> GluonEmission:
    found = schedule(next(one for one in examples() if one.name == "sliding_window_attention_bf16"))
    return emit_gluon(extracted(), H100, lambda *_: found)


def branch() -> If:
    """The one of an iteration: with a mask, and without."""
    stmts = emitted().program.groups[0].stmts
    (loop,) = (stmt for stmt in stmts if isinstance(stmt, Pipeline))
    (found,) = loop.steady
    assert isinstance(found, If)
    return found


def test_a_window_that_slides_is_masked_under_a_condition(golden: Callable[[str, str], None]) -> None:
    made = emitted()
    text = made.module.text
    golden("gluon_sliding_window_attention.txt", text)
    assert len(text.splitlines()) <= MOST_LINES and max(map(len, text.splitlines())) <= WIDEST
    assert made.compiled.local <= MOST_LOCAL and not made.compiled.waits
    assert "equal to the tile program, nothing found" in checked(made, extracted().specialization)


@pytest.mark.parametrize("edit", [("if masked:", "if not masked:"), ("- 127 < 0) |", "- 126 < 0) &")])
def test_a_mask_that_is_left_out_is_found(edit: tuple[str, str], tmp_path: Path) -> None:
    with pytest.raises(ExecutionDiffers, match="o_desc differs"):
        checked(edited(emitted(), *edit, tmp_path), extracted().specialization)


def test_products_that_both_sides_wait_for_are_in_flight_behind_neither() -> None:
    found = branch()
    assert left_in_flight((found,)) == frozenset()
    waits = [stmt for stmt in found.body if isinstance(stmt, WaitGroups)]
    without = replace(found, body=tuple(stmt for stmt in found.body if stmt not in waits[-1:]))
    assert left_in_flight((without,)) == frozenset()  # the first wait names what it leaves, too
    assert left_in_flight((replace(found, body=tuple(stmt for stmt in found.body if stmt not in waits)),))


def test_a_product_that_one_side_alone_waits_for_is_refused() -> None:
    right = emitted()

    def waiting_less(block: tuple[Stmt, ...], side: bool = False) -> tuple[Stmt, ...]:
        made: list[Stmt] = []
        for stmt in block:
            if isinstance(stmt, If) and stmt.otherwise:
                made.append(replace(stmt, body=waiting_less(stmt.body, side=True)))
            elif not (side and isinstance(stmt, WaitGroups)):
                made.append(with_blocks(stmt, waiting_less))
        return tuple(made)

    groups = tuple(replace(group, body=waiting_less(group.body)) for group in right.program.groups)
    with pytest.raises(NotInGluon, match="waited for"):
        print_gluon(replace(right.program, groups=groups), extracted().specialization, right.schedule)


def test_sides_are_joined_only_where_what_moves_reads_and_changes_nothing_in_between() -> None:
    found = branch()
    joined = joined_sides(found, lambda one, other: True)
    assert joined is not None and joined.second == "masked"
    (inner,) = (stmt for stmt in joined.block if isinstance(stmt, If))
    assert {*inner.body} | {*found.otherwise} >= {*found.body} and not inner.otherwise
    assert joined_sides(found, lambda one, other: False) is None
    assert joined_sides(replace(found, otherwise=found.otherwise[1:]), lambda one, other: True) is None  # a wait
    reduced = next(at for at, stmt in enumerate(found.body) if isinstance(stmt, Reduce))
    twice = (*found.body[: reduced + 1], inner.body[-1], *found.body[reduced + 1 :])  # masked, reduced, masked again
    assert joined_sides(replace(found, body=twice), lambda one, other: True) is None


def test_fragments_are_one_variable_only_where_none_is_needed_behind_the_other() -> None:
    group: WarpGroup = emitted().program.groups[0]
    conflicts = needed_at_once(group, products_in_flight(group))
    names = {fragment.id: fragment.name for fragment in group.fragments}
    of = {name: number for number, name in names.items()}
    accumulator, sums = of["acc_0"], of["l_i_0"]
    assert sums in conflicts[accumulator] and accumulator in conflicts[sums]
    assert all(one not in others for one, others in conflicts.items())
    text = emitted().module.text
    assert "qk = 1.0 / (gl.exp2(qk * " in text and "qk_2" not in text and "div" not in text.split("def ")[2]
