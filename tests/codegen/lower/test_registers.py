"""Promises of `twill.codegen.lower.registers`: accumulators stay where they are, and old versions are kept while
needed."""

from __future__ import annotations

from functools import cache

from tests.kernels import H100
from tests.lowered import planned, registers_of, scheduled
from tests.streams import event
from tests.tile_programs import Programs, attention, gemm
from twill.codegen.lower.plan import LoweringPlan
from twill.codegen.lower.registers import Registers
from twill.codegen.lower.stream import Made, Stream, arrange
from twill.codegen.lower.task import Source
from twill.codegen.lower.values import Overwritten, Reading, Values, ages
from twill.codegen.lowering import lower
from twill.codegen.warp.layout import Accumulator, Uniform
from twill.codegen.warp.program import Copy
from twill.graph.extract import extract

DEFINE, READ, OTHER = ("issue", 0), ("issue", 1), ("issue", 2)


@cache
def plan() -> LoweringPlan:
    return planned(gemm()).plan


def step(plan: LoweringPlan, name: str) -> int:
    return next(i for i, s in enumerate(plan.flat.steps) if s.op.name == name)


def registers() -> tuple[Registers, Made]:
    """The variables of a group, and the value of the product."""
    return registers_of(plan(), 0), (step(plan(), "acc"), -1)


# -- variables ----------------------------------------------------------------------------------


def test_a_value_has_one_variable_with_the_name_and_layout_of_the_kernel() -> None:
    made, acc = registers()
    fragment = made.fragment(made.of(acc))
    assert made.of(acc) == fragment.id
    assert (fragment.name, fragment.element, fragment.layout) == ("acc", "f32", Accumulator(128, 128))


def test_names_are_told_apart() -> None:
    made, _ = registers()
    numbers = [made.new("x", "f32", Uniform()) for _ in range(3)]
    assert [made.fragment(number).name for number in numbers] == ["x", "x_2", "x_3"]
    assert made.fragment(made.new("", "f32", Uniform())).name == "t"


def test_united_values_are_one_variable() -> None:
    made, acc = registers()
    other = (step(plan(), "c"), -1)
    made.values.unite(other, acc)
    made.values.unite(acc, other)
    assert made.of(other) == made.of(acc)


def test_a_product_stays_in_its_accumulator() -> None:
    """acc = dot(p, v, acc * alpha): the rescaled accumulator and the product are one variable."""
    rings = planned(attention(), 2)
    plan = rings.plan
    task = next(t for t in plan.tasks.values() if t.node.kind == "mma" and t.node.name == "acc" and t.block == 0)
    made = registers_of(plan, task.groups[0])
    scaled = plan.source(plan.flat.steps[task.steps[-1]].operands[2], task.block)
    assert scaled is not None and scaled.step != task.steps[-1]
    assert made.of((task.steps[-1], task.block)) == made.of((scaled.step, scaled.block))


def test_an_addend_that_others_read_is_not_overwritten() -> None:
    p = Programs()
    zeros = p.constant(0.0, (64, 64), "f32")
    with p.loop(p.argument("trips"), [zeros, zeros]) as k:
        a, b = p.load("A", (64, 64), at=(0, k.i * 64), name="a"), p.load("B", (64, 64), at=(k.i * 64, 0), name="b")
        first = p.op("mul", p.dot(a, b, name="first"), p.constant(2.0, (64, 64), "f32"), name="twice")
        k.yields = [p.dot(a, b, first, name="second"), p.op("add", k.carried[1], first, name="sum")]
    for number, result in enumerate(k.results):
        p.store(f"C{number}", p.op("cast", result, element="f16"), at=(0, 0))
    plan = planned(p.done()).plan
    task = next(t for t in plan.tasks.values() if t.node.name == "second")
    made = registers_of(plan, task.groups[0])
    assert made.of((step(plan, "second"), -1)) != made.of((step(plan, "twice"), -1))


# -- versions -----------------------------------------------------------------------------------


def found(stream: Stream, distance: int = 0) -> tuple[Registers, int, int]:
    """The registers, the variable of a value, and the one in which its reader finds it."""
    made, acc = registers()
    variable = made.of(acc)
    reading = Reading(READ, Source(acc[0], acc[1], distance, -1))
    by = ages(stream, made.values, [reading], {acc: [DEFINE]}, {acc: DEFINE})
    assert not isinstance(by, Overwritten)
    return made, variable, made.version(variable, by[READ, acc, distance])


def test_a_reader_before_the_next_definition_finds_the_variable_itself() -> None:
    made, variable, read = found(arrange([event("issue", 0, 0), event("issue", 1, 9)], 10))
    assert read == variable
    assert made.keep(variable) == []


def test_a_later_reader_finds_what_was_kept() -> None:
    made, variable, read = found(arrange([event("issue", 0, 0), event("issue", 1, 25)], 10))
    assert read not in (variable, made.version(variable, 1))
    assert made.keep(variable) == [Copy(made.version(variable, 1), read), Copy(variable, made.version(variable, 1))]
    assert made.fragment(read).layout == made.fragment(variable).layout


def test_the_value_of_an_earlier_iteration_is_older() -> None:
    made, variable, read = found(arrange([event("issue", 0, 0), event("issue", 1, 5)], 10), distance=1)
    assert read == made.version(variable, 1) != variable


def test_a_value_from_before_the_loop_has_no_versions() -> None:
    acc = (step(plan(), "acc"), -1)
    reading = Reading(READ, Source(acc[0], acc[1], 0, -1))
    stream = arrange([event("issue", 1, 5)], 10)
    assert ages(stream, Values(plan()), [reading], {}, {}) == {(READ, acc, 0): 0}


def test_a_reader_of_what_was_overwritten_in_place_is_named() -> None:
    stream = arrange([event("issue", 0, 0), event("issue", 2, 3), event("issue", 1, 6)], 10)
    acc = (step(plan(), "acc"), -1)
    reading = Reading(READ, Source(acc[0], acc[1], 0, -1))
    assert ages(stream, Values(plan()), [reading], {acc: [DEFINE, OTHER]}, {acc: DEFINE}) == Overwritten(acc)


def test_what_threads_make_of_a_sum_of_mmas_for_the_next_one_is_in_its_place() -> None:
    """A test for NaN in front of the last one: the model of registers counts one matrix for all of them."""
    program = extract("tests/part_kernels.py", "tf32x3")[0]
    made = lower(program, scheduled(program, 2), H100)
    matrices = [
        sum(f.layout == Accumulator(64, 128) and f.element == "f32" for f in group.fragments) for group in made.groups
    ]
    assert sorted(matrices)[-2:] == [2, 2]  # the sum of the parts, and what the loop carries


def test_versions_between_the_one_that_is_read_and_the_newest_are_kept() -> None:
    made, acc = registers()
    variable = made.of(acc)
    older = made.version(variable, 2)
    before = made.version(variable, 1)
    assert made.keep(variable) == [Copy(before, older), Copy(variable, before)]


def test_a_version_that_nobody_asked_for_is_kept_for_the_one_behind_it() -> None:
    made, acc = registers()
    variable = made.of(acc)
    made.version(variable, 2)
    assert len(made.keep(variable)) == 2
