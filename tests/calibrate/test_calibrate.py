"""Promises of `twill calibrate` as a job: it goes on where it was, names what varies, and writes nothing half-known."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.calibrating import OVERHEAD, fake_gpu, steady
from twill import exc
from twill.calibrate import calibrate
from twill.calibrate.calibrate import CalibrationRequest, ProbeStep, changes, chosen, default_raw, figures, run, written
from twill.calibrate.recording import MeasurementPlace, Recording
from twill.codegen.targets.hopper.probes import PROBES
from twill.codegen.targets.probe import Probe
from twill.machine.file import check_machine, load_machine, machine_directory

ONLY = ("crossing.mbarrier", "exp2.f32.latency")


def request(tmp_path: Path, *only: str, again: bool = False) -> CalibrationRequest:
    """Few repeats: the fake GPU does not vary by itself."""
    out = tmp_path / "mine.toml"
    return CalibrationRequest("h200", out, default_raw(out), only, again, repeats=3)


def run_on(fake_request: CalibrationRequest, steps: list[ProbeStep] | None = None) -> Recording:
    """With a file kept as the command keeps it, and nothing built."""
    listed = steps if steps is not None else []

    def keep(recording: Recording) -> None:
        fake_request.raw.write_text(recording.text())

    return run(fake_request, listed.append, keep, build=lambda name, arch: b"")


@pytest.fixture(autouse=True)
def driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrate, "driver_version", lambda: "580.1")


def test_cycles_of_a_step_are_the_gpus_without_what_every_launch_takes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = fake_gpu(monkeypatch)
    recording = run_on(request(tmp_path, *ONLY))
    assert {sample.median for sample in recording.samples.values()} == {10}
    assert min(short for one in recording.measured for short, _ in one.pairs) > OVERHEAD
    assert recording.place.device == "NVIDIA H200" and recording.megahertz is not None
    assert recording.megahertz.median == pytest.approx(1800, abs=1)
    assert not fake.memory, "all memory is given back"


def test_an_interrupted_run_keeps_what_is_measured_and_goes_on_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = request(tmp_path)
    names = list(PROBES)

    def interrupted(probe: Probe, count: int) -> float:
        if probe.name == names[5]:
            raise KeyboardInterrupt
        return steady(probe, count)

    fake_gpu(monkeypatch, takes=interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_on(asked)
    fake = fake_gpu(monkeypatch)
    steps: list[ProbeStep] = []
    recording = run_on(asked, steps)
    assert [step.probe.name for step in steps if step.measured is None] == names[:5]
    assert not any(name in names[:5] for name, _ in fake.launched)
    assert [one.name for one in recording.measured] == names
    assert [step.number for step in steps] == list(range(1, len(names) + 1))


def test_again_and_only_measure_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_gpu(monkeypatch)
    run_on(request(tmp_path, *ONLY))
    fake_gpu(monkeypatch, takes=lambda probe, count: 2 * steady(probe, count))
    recording = run_on(request(tmp_path, "exp2"))
    assert recording.samples["exp2.f32.latency"].median == 20
    assert recording.samples["crossing.mbarrier.0"].median == 10
    assert {one.name for one in run_on(request(tmp_path, "exp2", again=True)).measured} == {
        "exp2.f32.throughput", "exp2.f32.latency",
    }  # fmt: skip


def test_what_varies_too_much_is_named_after_the_rest_was_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls = [0]

    def noisy(probe: Probe, count: int) -> float:
        calls[0] += 1
        return steady(probe, count) * (1 + calls[0] % 5 if probe.name == "exp2.f32.throughput" else 1)

    fake_gpu(monkeypatch, takes=noisy)
    steps: list[ProbeStep] = []
    with pytest.raises(exc.SpreadTooLarge, match=r"exp2\.f32\.throughput"):
        run_on(request(tmp_path, "exp2", "fma.f32"), steps)
    assert [step.refused is not None for step in steps] == [False, False, True, False]
    fake_gpu(monkeypatch)
    assert len(run_on(request(tmp_path)).measured) == len(PROBES)


@pytest.mark.parametrize("what", ["device", "driver", "source"])
def test_measurements_of_something_else_are_not_gone_on_with(
    what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake_gpu(monkeypatch)
    asked = request(tmp_path, *ONLY)
    recording = run_on(asked)
    place = recording.place.model_copy(update={what: "another"})
    asked.raw.write_text(recording.model_copy(update={"place": place}).text())
    with pytest.raises(exc.ForeignRecording, match="another") as caught:
        run_on(asked)
    assert "--again" in caught.value.hint and caught.value.file == str(asked.raw)


def test_names_are_chosen_by_name_beginning_and_pattern() -> None:
    assert [probe.name for probe in chosen(("exp2.f32",))] == ["exp2.f32.throughput", "exp2.f32.latency"]
    assert [probe.name for probe in chosen(("wgmma.*.n256.rs",))] == ["wgmma.bf16.n256.rs", "wgmma.e4m3.n256.rs"]
    assert len(chosen(())) == len(PROBES)
    with pytest.raises(exc.UnknownMicrobenchmark, match="did you mean `exp2.f32.latency`"):
        chosen(("exp2.f32.latencies",))


def test_the_written_file_is_the_machine_with_what_was_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake_gpu(monkeypatch)
    asked = request(tmp_path, *ONLY)
    recording = run_on(asked)
    asked.out.write_text(written(asked, recording))
    machine, before = check_machine(asked.out), load_machine("h200")
    assert machine.name == "mine" and machine.title == before.title
    assert machine.crossing.barrier.value == 10 and machine.operation("exp2.f32").latency.value == 10
    assert machine.operation("exp2.f32").rates == before.operation("exp2.f32").rates
    assert machine.transfers == before.transfers and machine.contexts == before.contexts
    assert "580.1" in machine.crossing.barrier.source
    assert machine.l2 is not None and before.l2 is not None and machine.l2.value == before.l2.value == 60 << 20
    assert machine.l2.source != before.l2.source
    paths = [change.path for change in changes(before, figures(recording))]
    assert ("crossing", "barrier") in paths and ("sms",) not in paths


def test_a_users_own_file_is_extended_by_its_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_gpu(monkeypatch)
    (tmp_path / "own").mkdir()
    own = tmp_path / "own" / "base.toml"
    own.write_text('extends = "h100"\nname = "base"\n')
    beyond = tmp_path / "own" / "beyond.toml"
    beyond.write_text('extends = "base.toml"\nname = "beyond"\n')
    out = tmp_path / "mine.toml"
    asked = CalibrationRequest(str(beyond), out, default_raw(out), ONLY, repeats=3)
    out.write_text(written(asked, run_on(asked)))
    assert 'extends = "own/base.toml"' in out.read_text()
    assert check_machine(out).crossing.barrier.value == 10


def test_a_file_that_extends_nothing_is_not_written_over() -> None:
    out = machine_directory() / "h100.toml"
    place = MeasurementPlace(device="a GPU", sms=1, driver="1", source="")
    with pytest.raises(exc.OutputNotWritable, match="would extend itself"):
        written(CalibrationRequest("h100", out, default_raw(out)), Recording(place=place))
