"""The whole job of `twill calibrate`: measure, keep, fit, write. Interrupted, it goes on where it was."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path

from twill import exc
from twill.calibrate.apply import Figures, applied, current
from twill.calibrate.machine_text import machine_text
from twill.calibrate.measure import REPEATS, measure
from twill.calibrate.recording import Measurement, MeasurementPlace, Recording, read_recording
from twill.calibrate.workbench import Build, Workbench, opened, source_digest
from twill.codegen.targets.hopper.fits import FITS, significant, whole
from twill.codegen.targets.hopper.probes import CLOCK, PROBES
from twill.codegen.targets.probe import Probe, Sample
from twill.machine.description import Figure, Machine
from twill.machine.file import load_machine, machine_path
from twill.machine.names import list_machines
from twill.runtime.device import driver_version
from twill.toml.table import read_toml

CITED = "calibrate"  # the key of [sources]


@dataclass(frozen=True)
class CalibrationRequest:
    """What was asked. only: names or patterns of microbenchmarks, measured anew; again: all of them anew.

    raw: the file of the measurements. wider: factor on the spreads that are believed.
    """

    machine: str
    out: Path
    raw: Path
    only: tuple[str, ...] = ()
    again: bool = False
    repeats: int = REPEATS
    wider: float = 1.0


@dataclass(frozen=True)
class Base:
    """The machine that a written file extends, and how the file names it."""

    machine: Machine
    extends: str


@dataclass(frozen=True)
class ProbeStep:
    """One microbenchmark done. number: of `count`. measured None: it was there already."""

    number: int
    count: int
    probe: Probe
    measured: Measurement | None
    refused: exc.SpreadTooLarge | None = None


Notify = Callable[[ProbeStep], None]
Keep = Callable[[Recording], None]


def run(request: CalibrationRequest, notify: Notify, keep: Keep, build: Build | None = None) -> Recording:
    """Measure what is not in `request.raw` yet. keep: called after each microbenchmark with all that is known.

    Errors: UnknownMachine and those of machine files, UnknownMicrobenchmark, DriverMissing,
    WrongDevice, ForeignRecording, MalformedRecording, SpreadTooLarge (after all others were measured).
    """
    probes = chosen(request.only)
    machine = load_machine(request.machine)
    with opened(machine.architecture, machine.name, build) as bench:
        recording = begun(request, MeasurementPlace(
            device=bench.gpu.name, sms=bench.gpu.sms, driver=driver_version(), source=source_digest(),
            l2=bench.gpu.l2 or None,
        ))  # fmt: skip
        if not recording.clock or request.again:
            pairs = tuple(bench.clock(CLOCK) for _ in range(request.repeats))
            recording = recording.model_copy(update={"clock": pairs})
        return measured_all(request, probes, recording, bench, notify, keep)


def measured_all(
    request: CalibrationRequest,
    probes: Sequence[Probe],
    recording: Recording,
    bench: Workbench,
    notify: Notify,
    keep: Keep,
) -> Recording:
    """Every probe; those whose repeats do not agree are named at the end."""
    refused: list[exc.SpreadTooLarge] = []
    for number, probe in enumerate(probes, 1):
        if probe.name in recording.samples and not (request.only or request.again):
            notify(ProbeStep(number, len(probes), probe, None))
            continue
        try:
            found = measure(probe, bench.run, request.repeats, request.wider)
        except exc.SpreadTooLarge as error:
            refused.append(error)
            notify(ProbeStep(number, len(probes), probe, None, error))
            continue
        recording = recording.with_measured(found)
        keep(recording)
        notify(ProbeStep(number, len(probes), probe, found))
    if refused:
        raise refused[0]
    return recording


def begun(request: CalibrationRequest, place: MeasurementPlace) -> Recording:
    """What was measured before, if it was here; else nothing. Errors: ForeignRecording, MalformedRecording."""
    if request.again or not request.raw.exists():
        return Recording(place=place)
    known = read_recording(request.raw)
    for what in ("device", "driver", "source"):
        theirs, ours = getattr(known.place, what), getattr(place, what)
        if theirs != ours:
            words = "edition of the microbenchmarks" if what == "source" else "GPU" if what == "device" else what
            raise exc.ForeignRecording(str(request.raw), words, theirs, ours)
    return known


def chosen(only: Sequence[str]) -> list[Probe]:
    """Microbenchmarks of those names, of names that begin so, or that match a pattern; all if none is given."""
    if not only:
        return list(PROBES.values())
    names: dict[str, None] = {}
    for asked in only:
        found = [name for name in PROBES if name == asked or name.startswith(f"{asked}.") or fnmatchcase(name, asked)]
        if not found:
            raise exc.UnknownMicrobenchmark(asked, near(asked))
        names |= dict.fromkeys(found)
    return [probe for name, probe in PROBES.items() if name in names]


def near(asked: str) -> str:
    """The microbenchmark that may be meant, and where all are named."""
    matches = get_close_matches(asked, PROBES, n=1)
    meant = f"did you mean `{matches[0]}`? " if matches else ""
    return f"{meant}`twill calibrate --list` names all"


# ---------------------------------------------------------------- from measurements to a file


def figures(recording: Recording) -> dict[tuple[str, ...], Figure]:
    """Every figure that follows from what was measured."""
    cite = f"[{CITED}] "
    found: dict[tuple[str, ...], Figure] = {
        ("sms",): Figure(value=recording.place.sms, source=f"{cite}device properties")
    }
    if recording.place.l2:
        found["l2",] = Figure(value=recording.place.l2, source=f"{cite}device properties")
    if recording.megahertz:
        found["clock_mhz",] = clock_figure(recording.megahertz, cite)
    samples = recording.samples
    for fit in FITS:
        figure = fit.figure(samples, cite)
        if figure is not None:
            found[fit.path] = figure
    return found


def clock_figure(clock: Sample, cite: str) -> Figure:
    """The clock at work; it has no frequency of its own to be rounded to."""
    spread = (significant(clock.low), significant(clock.high))
    return Figure(value=whole(clock.median), source=f"{cite}microbenchmark {CLOCK.name}: {CLOCK.what}", spread=spread)


def written(request: CalibrationRequest, recording: Recording) -> str:
    """The text of the machine file. Errors: those of machine files, OutputNotWritable."""
    start, base = load_machine(request.machine), base_of(request)
    machine = applied(start, figures(recording)).model_copy(update={"name": request.out.stem})
    place, day = recording.place, recording.date
    sources = {
        CITED: f"`twill calibrate` on one {place.device}, driver {place.driver}, {day}; value: from the medians of the "
        "repeats, spread: from their 5th and 95th percentiles"
    }
    comment = (
        f"{machine.title}. Written by `twill calibrate` on {day}: what it measured on one {place.device};\n"
        f"everything else is that of {base.extends}. docs/calibration.md says how, {request.raw.name} has the cycles."
    )
    return machine_text(machine, base.machine, base.extends, sources, comment)


def base_of(request: CalibrationRequest) -> Base:
    """What the machine that is begun with extends, or that machine itself."""
    path = machine_path(request.machine)
    named = read_toml(path).data.get("extends")
    if isinstance(named, str):
        found = machine_path(named) if named in list_machines() else path.parent / named
        return Base(load_machine(found), named if named in list_machines() else relative(found, request.out))
    if path.resolve() == request.out.resolve():
        raise exc.OutputNotWritable("would extend itself", file=str(request.out), hint="--out FILE of another name")
    known = request.machine in list_machines()
    return Base(load_machine(path), request.machine if known else relative(path, request.out))


def relative(path: Path, out: Path) -> str:
    """How a file beside `out` is named in it; always with the ending that makes it a path."""
    return os.path.relpath(path.resolve(), out.resolve().parent)


@dataclass(frozen=True)
class FigureChange:
    """A figure that is another than before."""

    path: tuple[str, ...]
    before: float
    after: float

    @property
    def part(self) -> float:
        """Of the former value."""
        return self.after / self.before - 1 if self.before else float("inf")


def changes(machine: Machine, found: Figures) -> Iterator[FigureChange]:
    """Figures whose value differs from the machine's."""
    for path, figure in found.items():
        before = current(machine, path)
        if before is not None and before.value != figure.value:
            yield FigureChange(path, before.value, figure.value)


def default_raw(out: Path) -> Path:
    """Beside the machine file."""
    return out.with_suffix(".measured.json")
