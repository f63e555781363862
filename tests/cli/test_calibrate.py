"""Promises of `twill calibrate`'s command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.calibrating import fake_gpu, steady
from tests.codegen.targets.hopper.test_fits import RAW
from twill import exc
from twill.calibrate import calibrate, workbench
from twill.calibrate.calibrate import ProbeStep
from twill.calibrate.measure import measure
from twill.calibrate.recording import read_recording
from twill.cli import calibrate as calibrating
from twill.cli import main
from twill.codegen.targets.hopper.probes import PROBES
from twill.codegen.targets.probe import Probe
from twill.machine.file import load_machine


def test_the_list_names_every_microbenchmark(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(PROBES)


def test_a_fit_needs_no_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "again.toml"
    assert main(["calibrate", "--machine", "h100", "--out", str(out), "--raw", str(RAW), "--fit"]) == 0
    machine, described = load_machine(out), load_machine("h200")
    assert (machine.operations, machine.mma) == (described.operations, described.mma)
    assert machine.transfers == described.transfers
    printed = capsys.readouterr().out
    assert f"{out}: " in printed and "tma_load.bytes_per_cycle" in printed


def test_a_run_writes_the_machine_and_its_measurements(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_gpu(monkeypatch)
    monkeypatch.setattr(workbench, "cubin", lambda name, arch: b"")
    monkeypatch.setattr(calibrate, "driver_version", lambda: "580.1")
    out = tmp_path / "mine.toml"
    words = ["calibrate", "--out", str(out), "--only", "crossing", "--repeats", "2"]
    assert main(words) == 0
    assert load_machine(out).crossing.barrier.value == 10
    assert {path.name for path in tmp_path.iterdir()} == {"mine.toml", "mine.measured.json"}
    assert capsys.readouterr().err == "", "progress is for a terminal"


def test_what_varies_too_much_is_exit_code_6_and_writes_no_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = [0]

    def noisy(probe: Probe, count: int) -> float:
        calls[0] += 1
        return steady(probe, count) * (1 + calls[0] % 5)

    fake_gpu(monkeypatch, takes=noisy)
    monkeypatch.setattr(workbench, "cubin", lambda name, arch: b"")
    monkeypatch.setattr(calibrate, "driver_version", lambda: "580.1")
    out = tmp_path / "mine.toml"
    assert main(["calibrate", "--out", str(out), "--only", "exp2.f32.latency"]) == 6
    assert not out.exists() and "varies too much" in capsys.readouterr().err


def test_progress_is_a_line_a_microbenchmark(capsys: pytest.CaptureFixture[str]) -> None:
    probe = PROBES["exp2.f32.latency"]
    found = measure(probe, lambda one, count: 17 * one.steps * count, repeats=2)
    refused = exc.SpreadTooLarge(probe.name, 17, 10, 30, 0.05, 3)
    for step in (ProbeStep(1, 9, probe, found), ProbeStep(2, 9, probe, None), ProbeStep(3, 9, probe, None, refused)):
        calibrating.show_step(step)
    lines = [line.split() for line in capsys.readouterr().err.splitlines()]
    assert lines[0] == ["[", "1/9]", probe.name, "17.000", "cycles", "(17.000", "to", "17.000)"]
    assert lines[1][-2:] == ["measured", "before"] and lines[2][-3:] == ["varies", "too", "much"]


def test_an_interrupt_leaves_what_was_measured_and_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(probe: Probe, count: int) -> float:
        if probe.name == "crossing.mbarrier.8":
            raise KeyboardInterrupt
        return steady(probe, count)

    fake_gpu(monkeypatch, takes=interrupted)
    monkeypatch.setattr(workbench, "cubin", lambda name, arch: b"")
    monkeypatch.setattr(calibrate, "driver_version", lambda: "580.1")
    out = tmp_path / "mine.toml"
    assert main(["calibrate", "--out", str(out), "--only", "crossing.mbarrier", "--repeats", "2"]) == 130
    retained = read_recording(tmp_path / "mine.measured.json")
    assert [one.name for one in retained.measured] == [f"crossing.mbarrier.{kib}" for kib in (0, 2, 4)]
    assert not out.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--only", "no.such"], "there is no microbenchmark `no.such`"),
        (["--machine", "h300"], "h300"),
        (["--machine", "b200"], "for sm_90a alone"),
        (["--raw", "/nowhere/x.json"], "/nowhere"),
        (["--fit", "--raw", "gone.json"], "gone.json"),
    ],
)
def test_bad_input_is_exit_code_2(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibrate", "--out", str(tmp_path / "mine.toml"), *words]) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_place_or_the_list_must_be_asked_for() -> None:
    with pytest.raises(SystemExit) as caught:
        main(["calibrate"])
    assert caught.value.code == 2
