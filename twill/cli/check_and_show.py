"""`twill check` and `twill show`: what is done with a stored schedule document."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from twill.cli import codes


def check(arguments: Namespace) -> int:
    """Hold the document to every rule; raises InvalidSchedule with all that it breaks."""
    from twill.machine.file import load_machine
    from twill.schedule.checker.check import check_or_raise, load_schedule

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
