"""Promises of the fit: the described H200 is what was measured on it; every figure follows from its cycles."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT
from twill.calibrate.apply import applied, current
from twill.calibrate.calibrate import CalibrationRequest, figures, written
from twill.calibrate.recording import Recording, read_recording
from twill.codegen.targets.hopper.fits import FITS, lanes, line, significant
from twill.codegen.targets.hopper.probes import PROBES
from twill.codegen.targets.probe import Sample
from twill.machine.description import Figure
from twill.machine.file import load_machine, machine_directory

RAW = ROOT / "benchmarks" / "results" / "h200.measured.json"


@pytest.fixture(scope="module")
def recording() -> Recording:
    return read_recording(RAW)


def test_the_described_h200_is_what_the_recorded_measurements_say(recording: Recording) -> None:
    out = machine_directory() / "h200.toml"
    assert written(CalibrationRequest("h200", out, RAW), recording) == out.read_text(encoding="utf-8")


def test_everything_was_measured_and_believed(recording: Recording) -> None:
    assert [one.name for one in recording.measured] == list(PROBES)
    for one in recording.measured:
        probe = PROBES[one.name]
        assert (one.counts, one.steps) == (probe.counts, probe.steps)
        assert one.sample.spread <= probe.spread, one.name


def test_every_fit_has_its_figure_in_the_machine(recording: Recording) -> None:
    machine = load_machine("h200")
    found = figures(recording)
    assert len({fit.path for fit in FITS}) == len(FITS)
    for fit in FITS:
        figure = current(machine, fit.path)
        assert figure is not None and figure.value == found[fit.path].value, fit.path
        assert figure.spread == found[fit.path].spread is not None
        assert all(name in PROBES for name in fit.probes)


def test_throughput_halves_when_cycles_double(recording: Recording) -> None:
    once = figures(recording)
    slow = [one.model_copy(update={"pairs": tuple((2 * a, 2 * b) for a, b in one.pairs)}) for one in recording.measured]
    twice = figures(recording.model_copy(update={"measured": tuple(slow)}))
    ports = ("transfers", "shared_to_register", "bytes_per_cycle")
    for path in (("operations", "exp2.f32", "mufu"), ("mma", "rates", "bf16"), ports):
        assert twice[path].value == once[path].value / 2
    latency = ("operations", "exp2.f32", "latency")
    assert twice[latency].value == 2 * once[latency].value


def test_the_figures_of_the_architecture_come_out(recording: Recording) -> None:
    found = {path: figure.value for path, figure in figures(recording).items()}
    assert found["operations", "fma.f32", "fma"] == 128 and found["operations", "exp2.f32", "mufu"] == 16
    assert found["mma", "rates", "bf16"] == 2048 and found["mma", "rates", "f8e4m3"] == 4096
    assert found["mma", "shared_read"] == found["transfers", "register_to_shared", "bytes_per_cycle"] == 128
    assert found["sms",] == 132


def test_a_throughput_near_a_power_of_two_of_lanes_is_that_and_others_are_left() -> None:
    assert lanes()(126.4) == 128 and lanes()(15.97) == 16 and lanes(2)(252.1) == 256
    assert lanes()(120) == 120 and lanes()(58.97) == 59


def test_a_figure_without_its_measurements_is_not_made_up() -> None:
    fit = next(fit for fit in FITS if fit.path == ("mma", "latency"))
    samples = {name: Sample(574, 573, 575) for name in fit.probes}
    assert fit.figure(samples, "") is not None
    assert fit.figure(dict(list(samples.items())[:1]), "") is None
    assert fit.figure({}, "") is None


def test_a_source_names_its_microbenchmarks_and_the_median_if_it_was_rounded() -> None:
    fit = next(fit for fit in FITS if fit.path == ("operations", "add.f32", "latency"))
    rounded = fit.figure({"add.f32.latency": Sample(4.055, 4.05, 4.06)}, "[calibrate] ")
    assert rounded == Figure(
        value=4, source="[calibrate] microbenchmark add.f32.latency, median 4.055", spread=(4.05, 4.06)
    )
    exact = fit.figure({"add.f32.latency": Sample(4, 4, 4)}, "")
    assert exact is not None and exact.source == "microbenchmark add.f32.latency"


def test_the_spread_of_a_rate_has_the_smaller_number_first() -> None:
    fit = next(fit for fit in FITS if fit.path == ("operations", "exp2.f32", "mufu"))
    figure = fit.figure({"exp2.f32.throughput": Sample(2, 1.9, 2.1)}, "")
    assert figure is not None and figure.spread == (significant(32 / 2.1), significant(32 / 1.9))


def test_a_line_goes_through_what_lies_on_one() -> None:
    assert line((1, 2, 5), (13, 16, 25)) == pytest.approx((10, 3))


def test_paths_that_a_machine_lacks_are_left_out(tmp_path: Path) -> None:
    machine = load_machine("b200")
    figure = Figure(value=3, source="here", spread=(2, 4))
    paths = [("operations", "no.such", "alu"), ("transfers", "nothing", "latency"), ("mma", "rates", "f99")]
    assert applied(machine, {path: figure for path in paths}) == machine
    assert all(current(machine, path) is None for path in paths)
    changed = applied(machine, {("crossing", "barrier"): figure, ("sms",): figure})
    assert changed.crossing.barrier == figure and changed.sms == figure
    assert current(changed, ("crossing", "barrier")) == figure
