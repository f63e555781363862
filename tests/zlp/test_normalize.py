"""Normalized graphs are valid graphs in which ratios are kept as well as the bound allows."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from tests.graphs import costed, edge, graph, instruction
from tests.strategies import problems
from tests.tile_programs import attention
from twill.exc import NormalizeTooCoarse
from twill.graph.costed import CostedGraph, Use
from twill.machine.description import Machine
from twill.machine.file import load_machine
from twill.zlp.normalize import choose_scale, cycle_counts, normalize

SEED = (38, 64, 94, 512, 542, 1000)


@pytest.mark.parametrize(("bound", "most"), [(10, 6.0), (30, 0.97), (100, 0.15), (300, 0.04)])
def test_the_seed_costs_are_rounded_no_worse_than_known(bound: int, most: float) -> None:
    scale = choose_scale(SEED, bound)
    assert sum(scale.units.values()) <= bound
    assert scale.worst_error <= most
    assert all(n >= 1 for n in scale.units.values())


def test_a_bound_that_costs_nothing_changes_nothing() -> None:
    scale = choose_scale(SEED, 3000)
    assert scale.units == {c: c for c in SEED} and scale.cycles_per_unit == 1.0 and scale.worst_error == 0.0


def test_a_common_factor_is_divided_out_exactly() -> None:
    scale = choose_scale((64, 192, 1024), 20)
    assert scale.units == {64: 1, 192: 3, 1024: 16}
    assert scale.worst_error < 1e-6 and scale.cycles_per_unit == pytest.approx(64)


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@example([127, 328, 1707, 2914], 74)  # badly scaled programs once went past their tolerance here
@given(st.lists(st.integers(1, 4000), min_size=1, max_size=8, unique=True), st.integers(8, 200))
def test_units_keep_the_order_and_stay_within_one_of_the_ratio(numbers: list[int], bound: int) -> None:
    counts = tuple(sorted(numbers))
    scale = choose_scale(counts, bound)
    assert sum(scale.units.values()) <= bound
    units = [scale.units[c] for c in counts]
    assert units == sorted(units) and units[0] >= 1
    assert all(abs(scale.units[c] - c / scale.cycles_per_unit) <= 1 + 1e-5 for c in counts)


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(problems(most_cycles=50), st.integers(12, 60))
def test_a_normalized_graph_is_a_graph(problem: tuple[CostedGraph, Machine], bound: int) -> None:
    before, _ = problem
    assume(len(cycle_counts(before)) <= bound)
    after = normalize(before, bound)
    assert CostedGraph.parse(after.canonical()) == after
    assert sum(cycle_counts(after)) >= 0 and after.normalization is not None and after.normalization.bound == bound
    for old, new in zip(before.instructions, after.instructions, strict=True):
        assert (old.latency == 0) == (new.latency == 0) and (old.hold == 0) == (new.hold == 0)
        assert (old.hold <= old.latency) <= (new.hold <= new.latency)
        assert {u.unit for u in old.uses if u.cycles} == {u.unit for u in new.uses if u.cycles}
    for old_edge, new_edge in zip(before.edges, after.edges, strict=True):
        assert (old_edge.delay > 0) == (new_edge.delay > 0) and (old_edge.crossing > 0) == (new_edge.crossing > 0)
        assert old_edge.distance == new_edge.distance
    for old_value, new_value in zip(before.values, after.values, strict=True):
        assert (old_value.spill > 0) == (new_value.spill > 0)
        assert (old_value.bytes, old_value.registers) == (new_value.bytes, new_value.registers)


def test_negative_delays_keep_their_sign() -> None:
    after = normalize(graph((instruction(0, ("alu", 100)), instruction(1)), (edge(0, 1, 100), edge(1, 0, -100, 1))), 12)
    assert after.edges[0].delay == -after.edges[1].delay > 0


def test_uses_of_one_unit_never_overlap_after_rounding() -> None:
    uses = tuple(Use(unit="alu", start=start, cycles=1) for start in (0, 1, 2)) + (
        Use(unit="tma", start=0, cycles=400),
    )
    wide = instruction(0, ("alu", 1), latency=400).model_copy(update={"uses": uses})
    (after,) = normalize(graph((wide,)), 10).instructions
    busy = sorted((u.start, u.start + u.cycles) for u in after.uses if u.unit == "alu")
    assert all(end <= start for (_, end), (start, _) in zip(busy, busy[1:], strict=False))
    assert [u.cycles > 1 for u in after.uses if u.unit == "tma"] == [True]


def test_too_small_a_bound_says_how_large_it_must_be() -> None:
    costed_graph = graph((instruction(0, ("alu", 7), latency=9, hold=3),))
    with pytest.raises(NormalizeTooCoarse, match="--normalize 3 or more"):
        normalize(costed_graph, 2)


def test_the_same_graph_gives_the_same_bytes() -> None:
    costed_graph = costed(attention(), load_machine("h100"), split=2)
    assert normalize(costed_graph, 100).canonical() == normalize(costed_graph, 100).canonical()
