"""Promises of the file of measurements: read as written, refused when it is no such file."""

from __future__ import annotations

from pathlib import Path

import pytest

from twill import exc
from twill.calibrate.recording import Measurement, MeasurementPlace, Recording, read_recording

PLACE = MeasurementPlace(device="NVIDIA H200", sms=132, driver="580.1", source="abc")


def measured(name: str, cycles: int = 7, date: str = "2026-11-21 10:00:00") -> Measurement:
    """Ten rounds of two steps."""
    pairs = ((100, 100 + 20 * cycles),) * 3
    return Measurement(name=name, counts=(0, 10), steps=2, pairs=pairs, attempts=1, date=date)


def test_a_recording_is_read_as_it_was_written(tmp_path: Path) -> None:
    recording = Recording(place=PLACE, clock=((1800, 1000), (1600, 1000)))
    for name in ("exp2.f32.latency", "fma.f32.latency"):
        recording = recording.with_measured(measured(name))
    path = tmp_path / "gpu.measured.json"
    path.write_text(recording.text())
    assert read_recording(path) == recording
    assert recording.megahertz is not None and recording.megahertz.median == 1700
    assert recording.samples["exp2.f32.latency"].median == 7
    empty = tmp_path / "empty.json"
    empty.write_text(Recording(place=PLACE).text())
    assert read_recording(empty) == Recording(place=PLACE)


def test_a_later_measurement_replaces_an_earlier_one_and_the_order_is_the_tables() -> None:
    recording = Recording(place=PLACE)
    for one in (measured("exp2.f32.latency"), measured("fma.f32.latency"), measured("exp2.f32.latency", 9)):
        recording = recording.with_measured(one)
    assert [one.name for one in recording.measured] == ["fma.f32.latency", "exp2.f32.latency"]
    assert recording.samples["exp2.f32.latency"].median == 9


def test_the_day_is_the_last_one() -> None:
    recording = Recording(place=PLACE).with_measured(measured("a", date="2026-11-22 01:00:00"))
    assert recording.with_measured(measured("b")).date == "2026-11-22" and Recording(place=PLACE).date == ""


@pytest.mark.parametrize("text", ["", "{}", '{"schema": "twill.calibration/2"}', "[1]"])
def test_what_is_no_recording_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "gpu.measured.json"
    path.write_text(text)
    with pytest.raises(exc.MalformedRecording, match="is no recording") as caught:
        read_recording(path)
    assert caught.value.file == str(path)


def test_a_recording_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(exc.FileMissing, match=r"gone\.json"):
        read_recording(tmp_path / "gone.json")
