"""`twill check` and `twill show`: what is done with a stored schedule document."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from twill.cli import codes


def check(arguments: Namespace) -> int:
    """Hold the document to every rule; raises InvalidSchedule with all that it breaks. Or hold a module to its own."""
    from twill.machine.file import load_machine
    from twill.schedule.checker.check import check_or_raise, load_schedule

    if arguments.gluon is not None:
        return check_module(arguments.gluon)
    schedule = load_schedule(Path(arguments.schedule))
    machine = load_machine(arguments.machine or schedule.machine)
    check_or_raise(schedule, machine, file=arguments.schedule)
    proof = "proven optimal" if schedule.certificate.optimal else "not proven optimal"
    what = f"a valid schedule of {schedule.kernel} for {schedule.machine}"
    print(f"{arguments.schedule}: {what}, I = {schedule.ii}, {proof}")
    if arguments.certificate:
        from collections import Counter

        from twill.certify.folder import examine_folder

        findings = examine_folder(schedule, machine, Path(arguments.schedule).parent)
        for finding in findings:
            print(f"  {finding.describe()}")
        count = Counter(finding.standing for finding in findings)
        others = len(schedule.candidates) - 1
        if others > 0:
            why = "the document lacks their graphs"
            print(f"  claimed only, because {why}: none of {others} other cooperations is better")
        print("  " + ", ".join(f"{count[standing]} {standing}" for standing in ("proven", "agreed", "claimed")))
    return codes.SOLVED


def check_module(file: str) -> int:
    """Say where a module of Gluon differs from the schedule that it was emitted with; NOT_GOOD if it does."""
    from twill.trial.gluon_edits import compared

    found = compared(Path(file))
    for difference in found.differences:
        print(difference.describe(file))
    if found.differences:
        print(f"{file}: no longer what the schedule of {found.kernel} asks for")
        return codes.NOT_GOOD
    edited = "edited" if found.edited else "as emitted"
    print(f"{file}: {edited}, and what the schedule of {found.kernel} asks for ({found.facts} facts compared)")
    return codes.SOLVED


def show(arguments: Namespace) -> int:
    """Draw the document: tables and picture on standard output, the page and the trace on request."""
    from twill.cli.output import Outputs
    from twill.schedule.file import load_schedule
    from twill.show.text import print_schedule

    outputs = Outputs(html=arguments.html, trace=arguments.trace)
    outputs.refuse_unwritable()
    schedule = load_schedule(Path(arguments.schedule))
    outputs.write(schedule)
    print_schedule(schedule)
    return codes.SOLVED
