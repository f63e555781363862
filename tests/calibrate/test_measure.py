"""Promises of measuring: constants cancel, repeats that do not agree are measured again and then refused."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twill import exc
from twill.calibrate.measure import ATTEMPTS, measure
from twill.codegen.targets.hopper.probes import PROBES
from twill.codegen.targets.probe import Probe, percentile, sample

PROBE = Probe("a.step", "pipes.cu", "a", "a step", steps=4, counts=(10, 30))


@given(step=st.integers(1, 1000), overhead=st.integers(0, 10**6))
def test_what_happens_once_cancels(step: int, overhead: int) -> None:
    found = measure(PROBE, lambda probe, count: overhead + count * probe.steps * step, repeats=3)
    assert found.sample.median == found.sample.low == found.sample.high == step


def test_repeats_are_measured_again_until_they_agree() -> None:
    noise = itertools.chain([0, 0, 900, 0, 0, 0, 500], itertools.repeat(0))
    found = measure(PROBE, lambda probe, count: count * probe.steps * 10 + next(noise), repeats=3)
    assert found.attempts == 2 and found.sample.median == 10


def test_repeats_that_never_agree_are_refused_with_what_was_seen() -> None:
    noise = itertools.cycle([0, 0, 400, 0, 0])
    launches = []

    def run(probe: Probe, count: int) -> int:
        launches.append(count)
        return count * probe.steps * 10 + next(noise)

    with pytest.raises(exc.SpreadTooLarge, match=r"a\.step varies too much: .* spread of 5%") as caught:
        measure(PROBE, run, repeats=5)
    assert caught.value.exit_code == 6 and "--spread" in caught.value.hint
    assert len(launches) == ATTEMPTS * (1 + 2 * 5)


def test_a_wider_spread_is_believed_on_request() -> None:
    noise = itertools.cycle([0, 0, 400, 0, 0])
    assert measure(PROBE, lambda probe, count: count * probe.steps * 10 + next(noise), 5, wider=20).attempts == 1


def test_a_time_of_nothing_has_no_spread_that_could_be_believed() -> None:
    times = itertools.cycle([0, 5, 3])
    with pytest.raises(exc.SpreadTooLarge):
        measure(PROBE, lambda probe, count: next(times), repeats=3)


@given(st.lists(st.floats(1, 1e6), min_size=1))
def test_percentiles_lie_within_and_in_order(values: list[float]) -> None:
    found = sample(values)
    assert min(values) <= found.low <= found.median * (1 + 1e-12) and found.median <= found.high * (1 + 1e-12)
    assert found.high <= max(values)


def test_percentiles_are_linear_between_neighbours() -> None:
    assert percentile([0.0, 10.0], 0.25) == 2.5 and percentile([3.0], 0.95) == 3.0


def test_every_probe_can_tell_rounds_apart() -> None:
    for name, probe in PROBES.items():
        assert name == probe.name and probe.steps > 0 and 0 < probe.counts[0] < probe.counts[1]
        assert probe.threads % 32 == 0 and 0 < probe.spread <= 0.3
