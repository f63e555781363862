"""Promises of `twill.codegen.passes.partial_reductions`: lanes meet behind the loop, where that is linear; and what
is done to parts is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.golden_schedules import Example, kernel, lowered, machine
from tests.lowered import scheduled
from twill.codegen.emission import extract
from twill.codegen.lowering import lower
from twill.codegen.passes.partial_reductions import with_partial_sums
from twill.codegen.print.cuda.printer import print_cuda
from twill.codegen.verify.abstract.operands import operand_violations
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.expression import Local, Number, less
from twill.codegen.warp.layout import Accumulator, Along
from twill.codegen.warp.program import Compute, Copy, Fragment, If, Pipeline, Reduce, Reg, Stmt, WarpProgram, walk
from twill.kernel.specialization import problem_of
from twill.tile.rewrite.pipeline import Allowed

pytestmark = pytest.mark.usefixtures("at_root")

P, ALPHA, SUM, SCALED, PART, OUT, M = range(7)
WIDE = Accumulator(64, 128)
ROWS = Along(WIDE, 1)
PARTS = replace(ROWS, parts=True)

TOTAL = Reduce(P, PART, 1, "add")
SCALE = Compute("mul", (Reg(SUM), Reg(ALPHA)), SCALED)
ADD = Compute("add", (Reg(SCALED), Reg(PART)), SUM)
AFTER = Compute("log2", (Reg(SUM),), OUT)
LAST = replace(AFTER, operands=(Reg(M),))


def fragments() -> list[Fragment]:
    names = ("p", "alpha", "l", "scaled", "part", "out", "m")
    return [Fragment(i, name, "f32", WIDE if i == P else ROWS) for i, name in enumerate(names)]


def loop(*steady: Stmt) -> Pipeline:
    return Pipeline("l", "k", Local("n"), 1, (steady,), steady, ((If(less(Local("n"), Number(1)), steady),),))


def all_on(carried: int) -> tuple[Stmt, ...]:
    """SCALE, TOTAL, ADD with another vector that is carried."""
    return replace(SCALE, operands=(Reg(carried), Reg(ALPHA))), TOTAL, replace(ADD, result=carried)


def changed(*body: Stmt) -> tuple[tuple[Stmt, ...], list[Fragment]]:
    known = fragments()

    def new(name: str, element: str, layout: object) -> int:
        known.append(Fragment(len(known), name, element, layout))  # type: ignore[arg-type]
        return len(known) - 1

    return with_partial_sums(body, known, new), known


def test_a_carried_sum_of_rows_is_kept_in_parts() -> None:
    (before, inside, after, last), known = changed(loop(SCALE, TOTAL, ADD), AFTER)
    parts = len(known) - 1
    assert (known[parts].name, known[parts].layout) == ("l_parts", PARTS)
    assert known[SCALED].layout == known[PART].layout == PARTS and known[SUM].layout == known[ALPHA].layout == ROWS
    assert isinstance(before, Compute) and before.operands == (Reg(SUM), Number(0.25, "f32")) and before.result == parts
    assert isinstance(after, Reduce) and (after.operand, after.result, after.combine) == (parts, SUM, "add")
    assert last == AFTER
    stmts = [stmt for stmt in walk((inside,)) if isinstance(stmt, Compute)]
    assert len(stmts) == 6 and not any(stmt.result == SUM or Reg(SUM) in stmt.operands for stmt in stmts)


def test_both_ways_of_a_branch_are_kept_in_parts() -> None:
    steady = (SCALE, TOTAL, If(less(Local("k"), Number(1)), (ADD,), (ADD,)))
    (_, inside, _, _), known = changed(Pipeline("l", "k", Local("n"), 0, (), steady, ()), AFTER)
    written = [stmt.result for stmt in walk((inside,)) if isinstance(stmt, Compute) and stmt.kind == "add"]
    assert written == [len(known) - 1] * 2


@pytest.mark.parametrize(
    "steady",
    [
        (SCALE, TOTAL, ADD, Copy(SUM, M), Compute("max", (Reg(M), Reg(ALPHA)), M)),
        (SCALE, replace(TOTAL, combine="max"), ADD),
        (SCALE, TOTAL, replace(ADD, operands=(Reg(ALPHA), Reg(PART)))),
        (SCALE, TOTAL, Compute("mul", (Reg(SCALED), Reg(PART)), SUM)),
        (SCALE, TOTAL, ADD, Compute("mul", (Reg(P), Reg(SUM, (0, -1))), P)),
        (SCALE, TOTAL, ADD, replace(ADD, operands=(Reg(SUM), Number(1.0)))),
    ],
    ids=["a maximum of it", "a maximum", "plus what all lanes have", "times a sum", "spread over a matrix", "plus 1"],
)
def test_what_is_not_linear_in_sums_is_left_alone(steady: tuple[Stmt, ...]) -> None:
    body = (loop(*steady), AFTER, replace(AFTER, operands=(Reg(ALPHA),)))
    assert changed(*body) == (body, fragments())


def test_sums_that_go_from_loop_to_loop_meet_behind_the_last() -> None:
    start = Compute("add", (Number(0.0), Number(0.0)), SUM)
    handed = (Copy(SUM, M), loop(*all_on(M)))
    (_, before, first, copy, second, after, last), known = changed(start, loop(SCALE, TOTAL, ADD), *handed, LAST)
    one, other = len(known) - 2, len(known) - 1
    assert isinstance(before, Compute) and before.operands[0] == Reg(SUM) and before.result == one
    assert copy == Copy(one, other) and last == LAST
    assert isinstance(after, Reduce) and (after.operand, after.result) == (other, M)
    assert known[one].layout == known[other].layout == PARTS
    assert not {stmt.result for stmt in walk((first, second)) if isinstance(stmt, Compute)} & {SUM, M}


def test_sums_that_are_used_between_loops_are_left_alone() -> None:
    used = Compute("max", (Reg(SUM), Reg(ALPHA)), OUT)
    body = (loop(SCALE, TOTAL, ADD), used, loop(SCALE, TOTAL, ADD), AFTER)
    assert changed(*body) == (body, fragments())


# -- what it means -----------------------------------------------------------------------------------


def full() -> WarpProgram:
    example = Example("examples/attention.py", "full-d64")
    return lowered(example)


def test_the_steady_state_of_attention_has_no_meeting_of_lanes_for_its_sums() -> None:
    program = full()
    text = print_cuda(program, machine()).text
    steady = text[text.index("steady state") : text.index("epilogue 0")]
    assert steady.count("other = shuffle_xor(") == 2  # of the maximum
    assert text.count("other = shuffle_xor(") == 2 + 2 + 2  # prologue, steady state, behind the loop


def test_sums_go_from_loop_to_loop_in_parts_if_there_are_registers() -> None:
    written = extract("examples/attention.py", "causal", allowed=Allowed("masks")).program
    apart = scheduled(written, 2)
    program, tight = (lower(written, apart, machine(), hold) for hold in (True, False))
    assert [len([f for f in g.fragments if f.name.endswith("_parts")]) for g in program.groups] == [2, 2, 0]
    assert not any(f.name.endswith("_parts") for g in tight.groups for f in g.fragments)
    assert not any(isinstance(s, Reduce) for s in between_loops(program.groups[0].body))


def between_loops(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """What stands behind the first loop and in front of the last."""
    first, *_, last = (place for place, stmt in enumerate(body) if isinstance(stmt, Pipeline))
    return body[first + 1 : last]


def test_parts_that_are_not_joined_are_found() -> None:
    right = full()
    group = right.groups[0]
    fused = next(s for s in group.body if isinstance(s, Reduce) and s.note)
    forgotten = replace(group, body=tuple(s for s in group.body if s is not fused))
    bad = replace(right, groups=(forgotten, *right.groups[1:]))
    example = Example("examples/attention.py", "full-d64")
    assert verify(bad, problem_of(kernel(example).specialization), enough=1)


def said(program: WarpProgram, was: Stmt, now: Stmt) -> list[str]:
    group = program.groups[0]
    other = replace(group, body=tuple(now if stmt is was else stmt for stmt in group.body))
    return [violation.message for violation in operand_violations(program, other)]


def test_only_sums_know_what_to_do_with_parts() -> None:
    program = full()
    group = program.groups[0]
    assert [*operand_violations(program, group)] == []
    divided = next(s for s in group.body if isinstance(s, Compute) and s.note)
    fused = next(s for s in group.body if isinstance(s, Reduce) and s.note)
    whole = fused.result
    for was, now in (
        (divided, replace(divided, operands=(Reg(whole), Number(0.5, "f32")))),
        (divided, replace(divided, kind="add")),
        (fused, replace(fused, combine="max")),
        (fused, Copy(fused.operand, whole)),
        (fused, Compute("exp2", (Reg(fused.operand),), whole)),
    ):
        assert len(said(program, was, now)) == 1
