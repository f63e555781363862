"""Lazy running maxima: where they are right and where not, and that nothing changes but rounding."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.lazy_programs import KEYS, ROWS, Softmax
from tests.tile_programs import Programs, attention, gemm
from twill.tile.interpret.sequential import run
from twill.tile.program import Op, TileProgram
from twill.tile.rewrite.conditional_rescale import GROWTH, RescaleReport, rescale_conditionally, rescaling
from twill.tile.vocabulary import OFTEN_ONE, SLACK

TRIPS = (0, 1, 2, 5)


def slacks(program: TileProgram) -> list[Any]:
    return [value for op in program.ops() for name, value in op.attributes if name == SLACK]


def marked(program: TileProgram) -> list[str]:
    return [op.name for op in program.ops() if dict(op.attributes).get(OFTEN_ONE)]


def why(found: RescaleReport) -> str:
    ((_, objection),) = found.immediate
    return objection.why


# -- where it is right -------------------------------------------------------------------------------


def masked(p: Programs, value: int) -> int:
    """P with zeros where X is positive: 0 follows every scale."""
    shape = p.values[value].type.shape
    zero = p.constant(0.0, shape, "f32")
    return p.op("select", p.op("compare", value, zero, element="i1", predicate="gt"), value, zero)


def less_a_half(p: Programs, value: int) -> int:
    """P - P / 2, as one operation."""
    return p.op("fma", value, p.constant(0.5, p.values[value].type.shape, "f32"), value, minus="product")


RIGHT = {
    "a difference in P": (Softmax(p=less_a_half), GROWTH),
    "plain": (Softmax(), GROWTH),
    "base e": (Softmax(base="exp"), GROWTH * math.log(2)),
    "sums from 1": (Softmax(l_init=1.0), GROWTH),
    "maximum from a number": (Softmax(m_init=-1e6), GROWTH),
    "operands the other way round": (Softmax(swapped=True), GROWTH),
    "zeros in P": (Softmax(p=masked), GROWTH),
    "P in f16": (Softmax(narrow="f16"), GROWTH),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_maximum_that_is_only_a_shift_is_lazy(name: str) -> None:
    kernel, slack = RIGHT[name]
    found = rescaling(kernel.program())
    assert [shift.maximum.name for shift in found.conditional] == ["m_new"] and not found.immediate
    assert slacks(found.program) == [pytest.approx(slack)]
    assert marked(found.program) == ["acc"]


def test_people_are_told_what_became_of_a_maximum() -> None:
    (conditional,) = rescaling(Softmax().program()).said()
    (retained,) = rescaling(Softmax(peeks=True).program()).said()
    assert conditional.endswith("`m_new` moves only when it has to")
    assert "`m_new` moves at once: it is stored (line" in retained


def test_the_shift_stands_first_whatever_the_order_was() -> None:
    for swapped in (False, True):
        found = rescaling(Softmax(swapped=swapped).program())
        (op,) = (op for op in found.program.ops() if op.kind == "max")
        assert op.operands[0] == found.conditional[0].carry.argument


def test_two_loops_hand_a_lazy_maximum_on() -> None:
    found = rescaling(Softmax(loops=2).program())
    assert (
        len(found.conditional) == 2 and slacks(found.program) == [GROWTH] * 2 and marked(found.program) == ["acc"] * 2
    )
    assert len(rescaling(attention(causal=True)).conditional) == 1


def test_it_is_done_once() -> None:
    once = rescale_conditionally(Softmax(loops=2).program())
    assert rescale_conditionally(once) == once


# -- where it is not ---------------------------------------------------------------------------------


def doubled(p: Programs, value: int) -> int:
    return p.op("add", value, value)


def plus_one(p: Programs, value: int) -> int:
    """P + 1 scales with nothing."""
    return p.op("add", value, p.constant(1.0, p.values[value].type.shape, "f32"))


def squared(p: Programs, value: int) -> int:
    return p.op("mul", value, value)


def shuffled(p: Programs, value: int) -> int:
    """P of one row in another."""
    shape = p.values[value].type.shape
    return p.op("add", value, p.row(p.reduce(value, 0, "add"), shape[0]))


WRONG = {
    "the maximum is stored": (Softmax(peeks=True), "it is stored"),
    "acc is not rescaled": (Softmax(rescales=False), "another shift"),
    "l is rescaled twice": (Softmax(l_factor=squared), "another shift"),
    "P is summed with a constant": (Softmax(p=plus_one), "another shift"),
    "rows are mixed": (Softmax(p=shuffled), "rows"),
    "P in f8": (Softmax(narrow="f8e4m3"), "converted to f8e4m3"),
    "scaled P in f16": (Softmax(p=doubled, narrow="f16"), "converted to f16"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_maximum_that_is_more_than_a_shift_moves_at_once(name: str) -> None:
    kernel, reason = WRONG[name]
    program = kernel.program()
    found = rescaling(program)
    assert not found.conditional and not slacks(found.program)
    if kernel.rescales:
        assert reason in why(found)
        assert marked(found.program) == ["acc"]  # exact where it is 1, whoever reads the maximum
    else:
        assert found == RescaleReport(program)  # nothing to leave out


def test_a_loop_that_passes_it_on_must_correct_for_it() -> None:
    """The first loop's sums are dropped in the second one, its maximum is not."""
    two = Softmax(loops=2).program()
    first, second = (item for item in two.body if not isinstance(item, Op))
    zero_sum = first.carried[1].init
    late = replace(second, carried=(second.carried[0], replace(second.carried[1], init=zero_sum), second.carried[2]))
    with_zero = replace(two, body=tuple(late if item is second else item for item in two.body))
    assert len(rescaling(with_zero).conditional) == 2  # 0 follows every scale
    one = Programs()
    one.values, one.ops = list(two.values), 1000
    number = one.constant(1.0, (ROWS,), "f32")
    late = replace(second, carried=(second.carried[0], replace(second.carried[1], init=number), second.carried[2]))
    constant = one.frames[0].items[0]
    with_one = replace(
        two, values=tuple(one.values), body=(constant, *(late if item is second else item for item in two.body))
    )
    assert not rescaling(with_one).conditional


@pytest.mark.parametrize(
    "kernel", [Softmax(nan=True), Softmax(depth=8)], ids=["NaN goes on", "too few columns to be worth a vote"]
)
def test_what_is_left_alone(kernel: Softmax) -> None:
    program = kernel.program()
    assert rescaling(program) == RescaleReport(program)


def test_a_kernel_without_a_running_maximum_is_as_it_was() -> None:
    assert rescaling(gemm()) == RescaleReport(gemm())


# -- what it computes --------------------------------------------------------------------------------


def inputs(what: str, trips: int, loops: int, seed: int) -> dict[str, np.ndarray]:
    """Scores whose maxima stay, creep, jump, fall, are missing at first, or missing at all."""
    chance = np.random.default_rng(seed)
    tensors: dict[str, np.ndarray] = {}
    for number in range(loops):
        columns = np.arange(1024) / KEYS + number * trips
        x = chance.standard_normal((ROWS, 1024)) * {"huge": 300.0}.get(what, 3.0)
        x += {"creeps": 3.0, "climbs": 7.9, "jumps": 40.0, "falls": -9.0}.get(what, 0.0) * columns
        if what == "late" and number == 0:
            x[::3, : KEYS * max(trips - 1, 1)] = -np.inf
        if what == "never":
            x[5] = -np.inf
        tensors[f"X{number}"] = x.astype(np.float32).reshape(-1)
        tensors[f"V{number}"] = np.round(chance.standard_normal(1024 * 1024)).astype(np.float32)
    return tensors


def outputs(program: TileProgram, trips: int, given: dict[str, np.ndarray], depth: int) -> dict[str, np.ndarray]:
    tensors = {**given, **{name: np.full(ROWS * 1024, np.nan, np.float32) for name in ("O", "LSE", "M")}}
    run(program, (1,), tensors, {"trips": trips})
    return {"O": tensors["O"].reshape(ROWS, 1024)[:, :depth], "LSE": tensors["LSE"][:ROWS]}


@pytest.mark.parametrize("what", ["stays", "creeps", "climbs", "jumps", "falls", "huge", "late", "never"])
@pytest.mark.parametrize("base", ["exp2", "exp"])
def test_values_differ_by_rounding_alone(what: str, base: str) -> None:
    for loops in (1, 2):
        kernel = Softmax(base=base, loops=loops, depth=40, narrow="f32")
        eager, conditional = kernel.program(), rescale_conditionally(kernel.program())
        assert slacks(conditional)
        for trips in TRIPS:
            given = inputs(what, trips, loops, trips)
            wanted, found = (outputs(p, trips, given, kernel.depth) for p in (eager, conditional))
            for name in wanted:
                np.testing.assert_allclose(found[name], wanted[name], rtol=3e-5, atol=3e-5, equal_nan=True)


def test_a_lazy_maximum_stays_behind_by_no_more_than_its_slack_and_moves_at_once_from_infinity() -> None:
    """Seen through a store of the maximum: that kernel is not lazy, so it is made so by force."""
    kernel = Softmax(peeks=True, depth=40)
    (op,) = (op for op in kernel.program().ops() if op.kind == "max")
    forced = replace(op, attributes=(*op.attributes, (SLACK, GROWTH)))
    eager = kernel.program()
    loop = next(item for item in eager.body if not isinstance(item, Op))
    body = tuple(forced if item == op else item for item in loop.body)
    conditional = replace(eager, body=tuple(replace(loop, body=body) if item is loop else item for item in eager.body))
    moved = 0
    for what in ("stays", "creeps", "climbs", "jumps", "late"):
        given = inputs(what, 5, 1, 1)
        true, behind = ({**given, "M": np.zeros(1024 * ROWS, np.float32)} for _ in range(2))
        for tensors, program in ((true, eager), (behind, conditional)):
            rest = {name: np.zeros(ROWS * 1024, np.float32) for name in ("O", "LSE")}
            run(program, (1,), {**rest, **tensors}, {"trips": 5})
        gap = true["M"][:ROWS] - behind["M"][:ROWS]
        assert gap.min() >= 0 and gap.max() <= GROWTH
        moved += int((gap > 0).sum())
    assert moved
