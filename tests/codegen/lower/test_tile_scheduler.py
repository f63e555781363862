"""Promises of `twill.codegen.lower.tile_scheduler` and `grouped_rasterization`: the statements of an order give every
instance once, in that order, whatever the grid and however many CTAs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden_schedules import Example, kernel, machine, schedule
from tests.instance_orders import ordered, paired, rank, rasterized
from tests.warp_programs import gemm
from twill.codegen.lower.longest_first import LongestFirst
from twill.codegen.lower.tile_scheduler import TileScheduler, tile_scheduler
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract.scheduling import InstanceOrder, LaunchedCta
from twill.codegen.warp.expression import Apply, Expr, Number, NumPrograms
from twill.codegen.warp.parse import parse
from twill.codegen.warp.program import NEIGHBOUR, PRESENT, Cluster, Define, WarpProgram
from twill.codegen.warp.text import text
from twill.codegen.warp.verifier import faults
from twill.tile.interpret.sequential import instances

SIZES = st.integers(0, 7)
GRIDS = st.tuples(SIZES, SIZES, st.integers(0, 3))
CTAS = st.integers(1, 5)
Index = tuple[int, int, int]
ONE = LongestFirst(0, True, Number(1024, "i64"), 64 << 10, 3, 1)
"""An instance reads 1 KiB of 64, so that nothing but `most` counts."""


def program(scheduler: TileScheduler) -> WarpProgram:
    """Some program whose instances come in that order."""
    return scheduler.of(gemm())


def walked(scheduler: TileScheduler, grid: Index, ctas: int) -> list[list[Index]]:
    """The instances of each CTA."""
    order = InstanceOrder.of(program(scheduler))
    return [[index for index, _ in order.instances(grid, {}, LaunchedCta(cta, ctas))] for cta in range(ctas)]


def dealt(every: list[Index], ctas: int) -> list[list[Index]]:
    """Every n-th to each CTA."""
    return [every[cta::ctas] for cta in range(ctas)]


@given(GRIDS, st.sampled_from([0, 1, 2, 4, 8]), CTAS)
def test_raster_groups_are_walked_column_by_column(grid: Index, raster_group: int, ctas: int) -> None:
    every = list(rasterized(grid, raster_group))
    assert sorted(every) == sorted(instances(grid))
    assert walked(tile_scheduler(raster_group), grid, ctas) == dealt(every, ctas)


@given(GRIDS, st.integers(0, 2), st.booleans(), st.integers(1, 5), CTAS)
def test_the_longest_come_first_and_every_other_round_backwards(
    grid: Index, axis: int, grows: bool, most: int, ctas: int
) -> None:
    order = replace(ONE, axis=axis, grows=grows, most=most)
    every = list(ordered(grid, order, most))
    ranked = [every[rank(place, ctas, len(every))] for place in range(len(every))]
    assert sorted(ranked) == sorted(instances(grid))
    assert walked(tile_scheduler(order=order), grid, ctas) == dealt(ranked, ctas)


@given(GRIDS, st.booleans(), st.sampled_from([0, 2]), CTAS)
def test_runs_are_of_neighbours_and_as_long_as_one_another(grid: Index, runs: bool, group: int, ctas: int) -> None:
    found = walked(tile_scheduler(group, runs=Number(int(runs), "i1")), grid, ctas)
    every = list(rasterized(grid, group))
    if not runs:
        assert found == dealt(every, ctas)
        return
    assert [index for one in found for index in one] == every
    assert max(map(len, found)) - min(map(len, found)) <= 1


@given(GRIDS, st.integers(0, 2), st.sampled_from([0, 2, 4]), st.integers(1, 3))
def test_pairs_are_neighbours_and_a_missing_one_repeats_the_other(
    grid: Index, axis: int, group: int, clusters: int
) -> None:
    cluster = Cluster(axis)
    order = InstanceOrder.of(program(tile_scheduler(group, cluster=cluster)))
    met: Counter[Index] = Counter()
    for number in range(clusters):
        both = [[*order.instances(grid, {}, LaunchedCta(2 * number + r, 2 * clusters, r))] for r in range(2)]
        pairs = list(rasterized(paired(grid, cluster), group))[number::clusters]
        assert [tuple(i // 2 if a == axis else i for a, i in enumerate(index)) for index, _ in both[0]] == pairs
        for (one, names), (other, others) in zip(*both, strict=True):
            assert names[PRESENT] == 1 and (others[PRESENT] or one == other)
            assert (names[NEIGHBOUR], others[NEIGHBOUR]) == (other[axis], one[axis])
            met.update([one, other] if others[PRESENT] else [one])
    assert met == Counter(instances(grid))


def test_as_many_are_walked_together_as_the_cache_holds() -> None:
    def together(bytes_each: Expr, ctas: int = 1) -> set[int]:
        order = replace(ONE, bytes=bytes_each, most=100, ctas=ctas)
        (found,) = walked(tile_scheduler(order=order), (2, 64, 1), 1)
        return {column for _, column, _ in takewhile(lambda index: index[0] == found[0][0], found)}

    assert len(together(Number(1024, "i64"))) == 64
    assert len(together(Number(8 << 10, "i64"))) == 8
    assert len(together(Number(8 << 10, "i64"), ctas=40)) == 16  # of two blocks each, 20 at most: as many at a time
    size = Apply("mul", (NumPrograms(0), Number(1 << 14)), "i32")  # of a grid of 2: 32 KiB
    assert len(together(Apply("cast", (size,), "i64"))) == 2


@pytest.mark.parametrize(
    "scheduler",
    [
        tile_scheduler(),
        tile_scheduler(8),
        tile_scheduler(order=ONE),
        tile_scheduler(4, cluster=Cluster(1)),
        tile_scheduler(runs=Apply("compare", (NumPrograms(0), Number(4)), "i1", (("predicate", "lt"), ("signed", 1)))),
    ],
    ids=["grid", "raster groups", "longest first", "pairs", "runs"],
)
def test_every_order_is_well_formed_and_read_back_from_its_text(scheduler: TileScheduler) -> None:
    made = program(scheduler)
    assert faults(made) == ()
    assert parse(text(made), made.program) == made


@pytest.mark.usefixtures("at_root")
@pytest.mark.parametrize(
    ("file", "spec", "raster_group"),
    [
        ("gemm_bias_gelu", "bf16", 8),  # a moves with one axis of the grid, b with the other
        ("gemm_bias_gelu", "bf16-wide", 16),
        ("gemm", "bf16", 0),  # the kernel orders its tiles itself
        ("attention", "full", 0),  # nothing that products read moves with one axis alone
        ("layer_norm", "bf16", 0),
    ],
)
def test_raster_groups_where_both_operands_are_shared(file: str, spec: str, raster_group: int) -> None:
    example = Example(f"examples/{file}.py", spec)
    made = lower(kernel(example).program, schedule(example), machine(), order="static")
    defined = [stmt for stmt in made.groups[0].next if isinstance(stmt, Define)]
    expected = [stmt for stmt in tile_scheduler(raster_group).next if isinstance(stmt, Define)]
    assert defined == expected
