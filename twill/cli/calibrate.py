"""`twill calibrate`: measures the GPU that is here and writes its machine file."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from twill.cli import codes

if TYPE_CHECKING:
    from twill.calibrate.calibrate import CalibrationRequest, ProbeStep
    from twill.calibrate.recording import Recording

NOTABLE = 0.1  # a figure that changes by more is named


def calibrate(arguments: Namespace) -> int:
    """Measure, fit, write; figures that changed are printed."""
    if arguments.list:
        return list_probes()
    from twill.calibrate.calibrate import CalibrationRequest, changes, default_raw, figures, written
    from twill.cli.output import refuse_file, write_all
    from twill.machine.file import load_machine

    out = Path(arguments.out)
    request = CalibrationRequest(
        machine=arguments.machine,
        out=out,
        raw=Path(arguments.raw) if arguments.raw else default_raw(out),
        only=tuple(arguments.only),
        again=arguments.again,
        repeats=arguments.repeats,
        wider=arguments.spread,
    )
    for file in (out, request.raw):
        refuse_file(file)
    before = load_machine(request.machine)
    recording = measured(request, arguments.fit)
    write_all({out: written(request, recording)})
    found = figures(recording)
    for change in changes(before, found):
        if abs(change.part) > NOTABLE:
            print(f"{'.'.join(change.path):44s} {change.before:g} -> {change.after:g} ({change.part:+.0%})")
    print(f"{out}: {len(found)} figures of {len(recording.measured)} microbenchmarks")
    return codes.SOLVED


def measured(request: CalibrationRequest, fit: bool) -> Recording:
    """Now on this GPU, or (`--fit`) before."""
    from twill.calibrate.calibrate import run
    from twill.calibrate.recording import read_recording
    from twill.cli.output import write_all

    if fit:
        return read_recording(request.raw)
    watched = show_step if sys.stderr.isatty() else lambda step: None
    return run(request, watched, lambda recording: write_all({request.raw: recording.text()}))


def show_step(step: ProbeStep) -> None:
    """One line a microbenchmark."""
    if step.measured is not None:
        sample = step.measured.sample
        said = f"{sample.median:10.3f} cycles ({sample.low:.3f} to {sample.high:.3f})"
        said += f", attempt {step.measured.attempts}" if step.measured.attempts > 1 else ""
    else:
        said = "varies too much" if step.refused else "measured before"
    print(f"[{step.number:3d}/{step.count}] {step.probe.name:28s} {said}", file=sys.stderr, flush=True)


def list_probes() -> int:
    """Every microbenchmark and what it is."""
    from twill.codegen.targets.hopper.probes import PROBES

    for probe in PROBES.values():
        print(f"{probe.name:28s} {probe.what}")
    return codes.SOLVED
