"""Promises of the launches that are made up: floats small and large where a maximum is taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.golden_schedules import Example, lowered
from tests.kernels import H100
from tests.lowered import scheduled
from tests.tile_programs import Programs
from tests.warp_programs import gemm
from twill.codegen.emission import extract
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract.coverage import choose
from twill.codegen.verify.abstract.derive import derived_problem
from twill.codegen.verify.abstract.guards import said
from twill.codegen.verify.abstract.inputs import (
    CheckedLaunch,
    has_maximum,
    launch,
    launches,
    most_iterations,
    sidecar_problem,
)
from twill.codegen.verify.abstract.scheduling import InstanceOrder
from twill.codegen.verify.abstract.wanted import Wanted, wanted
from twill.codegen.verify.abstract_machine import trials
from twill.exc import UnknownProblem
from twill.kernel.problem import Case
from twill.kernel.specialization import resolve
from twill.tile.access.resolve import resolve_accesses
from twill.tile.interpret.sequential import run
from twill.tile.translate.translate import tile_program

pytestmark = pytest.mark.usefixtures("at_root")

FULL = Example("examples/attention.py", "full")


def test_the_longest_launch_of_a_softmax_has_small_floats_and_large_ones() -> None:
    program = lowered(FULL)
    made = [*launches(program)]
    lengths = [most_iterations(program.program, one) for one in made]
    longest = {one.scale for one, length in zip(made, lengths, strict=True) if length == max(lengths)}
    assert has_maximum(program.program) and len(longest) == 2


def test_a_window_longer_than_any_ring_ends_within_a_launch() -> None:
    """Conditions that say the same at all small sizes are asked at larger ones."""
    example = Example("examples/sliding_window_attention.py", "bf16")
    program = lowered(example)
    problem = sidecar_problem(program.program)
    assert problem is not None
    chosen = choose(program.program, problem, wanted(program))
    ends = {(str(one), says) for one, says in said(goal for each in chosen for goal in each.reaches)}
    assert {says for one, says in ends if "1024" in one} == {True, False}
    assert max(each.sizes["N_CTX"] for each in chosen) > 1024


def test_without_a_maximum_it_is_made_once() -> None:
    made = [*launches(gemm(2, 1))]
    assert not has_maximum(gemm(2, 1).program)
    assert len({one.text for one in made if one.ctas == 1}) == len([one for one in made if one.ctas == 1])


def test_programs_of_which_the_same_is_wanted_have_the_same_launches_and_trials() -> None:
    """A program with a fault is held against what was computed for the one without it; another ring is another goal."""
    right = gemm(2, 1)
    fault = replace(right, groups=tuple(replace(group, registers=24) for group in right.groups))
    deeper = replace(right, arefs=tuple(replace(aref, depth=aref.depth + 1) for aref in right.arefs))
    assert launches(fault) is launches(right) and trials(fault) is trials(right)
    assert launches(deeper) is not launches(right) and wanted(deeper) != wanted(right)


def test_a_loop_of_a_constant_count_is_run_whatever_the_sizes_are() -> None:
    """More iterations than are asked for anywhere: no size makes them fewer."""
    p = Programs()
    p.argument("x", "ptr:f32"), p.argument("y", "ptr:f32")
    with p.loop(p.constant(100), [p.constant(0.0, (64,), "f32")]) as k:
        k.yields = [p.op("add", k.carried[0], p.load("x", (64,), "f32", at=(k.i * 64,)))]
    p.store("y", k.results[0])
    program = p.done()
    order = InstanceOrder.of(gemm())
    few = Wanted(None, order, trips=frozenset({0, 1, 2}), depths=frozenset({2}), instances=2, thorough=False)
    (only,) = choose(program, derived_problem(program), few)
    assert only.cost > 100


PAGES = """@triton.jit
def pages(x, t, y, N, B: tl.constexpr):
    s = tl.zeros([B], tl.float32)
    for i in range(N):
        s += tl.load(x + tl.load(t + i) * B + tl.arange(0, B))
    tl.store(y + tl.arange(0, B), s)
"""


@pytest.mark.parametrize("rows", [0, 1, 16])
def test_pages_that_are_looked_up_are_there_whatever_the_sidecar_says(
    kernel_file: Callable[..., str], rows: int
) -> None:
    """Sizes say how many pages there are, and nothing how large the numbers in a table of pages may be."""
    sig = ["x=*fp32:16", "t=*i32:16", "y=*fp32:16", "N=i32"]
    program = resolve_accesses(tile_program(resolve(f"{kernel_file(PAGES)}::pages", sig=sig, const=["B=64"])))
    tensors = {"x": (rows, 64), "t": (5,), "y": (64,)}
    made = launch(program, Case({"T": rows, "N": 5}, (1, 1, 1), tensors, {"N": 5}))
    arrays = dict(made.arrays)
    assert arrays["x"].size >= max(rows, arrays["t"].max() + 1) * 64
    run(program, made.grid, arrays, made.scalars)
    assert arrays["y"].any()


def test_launches_are_made_once_and_nobody_writes_into_them() -> None:
    first, again, other = [*launches(gemm(2, 1))], [*launches(gemm(2, 1))], [*launches(gemm(2, 1), thorough=True)]
    assert all(one is two for one, two in zip(first, again, strict=True)) and len(other) > len(first)
    for array in first[0].arrays.values():
        with pytest.raises(ValueError, match="read-only"):
            array[:1] = 0


LABELS = """
@triton.jit
def losses(x, labels, y, n, ignored, stride, B: tl.constexpr):
    label = tl.load(labels + tl.program_id(0) * stride)
    if label != ignored:
        s = tl.zeros([B], tl.float32)
        for i in range(0, n, B):
            s += tl.load(x + i + tl.arange(0, B))
        tl.store(y + tl.program_id(0) * B + tl.arange(0, B), s + tl.load(x + label))
"""


def test_numbers_that_are_looked_up_far_apart_do_not_grow_in_between(kernel_file: Callable[..., str]) -> None:
    """Labels say whether a loop runs and whether something is stored, so they grow; and they are elements of `x`."""
    sig = ["x=*fp32:16", "labels=*i32:16", "y=*fp32:16", "n=i32", "ignored=i32", "stride=i32"]
    program = resolve_accesses(tile_program(resolve(f"{kernel_file(LABELS)}::losses", sig=sig, const=["B=1024"])))
    sizes = {"n": 2048, "ignored": 0, "stride": 16384}
    made = launch(program, Case(sizes, (3, 1, 1), {}, sizes), seed=1)
    labels = made.arrays["labels"]
    found = [int(labels[at]) for at in (0, 16384, 32768)]
    assert labels.size == 32769
    assert found == sorted(set(found))
    assert made.arrays["x"].size < 1 << 14  # not thousands of labels, each by up to thousands more than the last
    arrays = dict(made.arrays)
    run(program, made.grid, arrays, made.scalars)
    assert arrays["y"].any()


CONSTANT_COUNT = """
@triton.jit
def k(x, o, COUNT: tl.constexpr):
    i, programs = tl.program_id(0) * 64 + tl.arange(0, 64), tl.num_programs(0)
    total = tl.zeros((64,), tl.float32)
    for step in range(COUNT):
        total += tl.load(x + step * programs * 64 + i)
    tl.store(o + i, total)
"""


def test_loops_of_many_iterations_at_any_size_are_checked_or_told(kernel_file: Callable[..., str]) -> None:
    def launched(count: int) -> tuple[CheckedLaunch, ...]:
        tile = extract(kernel_file(CONSTANT_COUNT), sig=("x=*fp32:16", "o=*fp32:16"), const=(f"COUNT={count}",)).program
        return launches(lower(tile, scheduled(tile), H100))

    assert launched(1024)
    with pytest.raises(UnknownProblem, match="a loop of `k` has 8192 iterations at any size, and at most 4096"):
        launched(8192)


DIVIDED = """
@triton.jit
def k(x, o, n, PART: tl.constexpr, SIZE: tl.constexpr):
    row = tl.program_id(0) // (n // PART)
    for i in range(0, SIZE, 64):
        at = i + tl.arange(0, 64)
        tl.store(o + tl.program_id(0) * SIZE + at, tl.load(x + row * SIZE + at))
"""


def test_fail_a_kernel_that_divides_by_zero_at_every_size(kernel_file: Callable[..., str]) -> None:
    sig = ("x=*fp32:16", "o=*fp32:16", "n=i32:16")
    tile = extract(kernel_file(DIVIDED), sig=sig, const=("PART=65536", "SIZE=1024")).program
    with pytest.raises(UnknownProblem, match="no sizes were found at which `k` does anything"):
        launches(lower(tile, scheduled(tile), H100))
