"""`twill machines list | show | check`."""

from __future__ import annotations

from argparse import Namespace

from twill.cli import codes


def list_all(arguments: Namespace) -> int:
    """One line a described machine: name and title."""
    from twill.machine.names import list_machines, machine_title

    for name in list_machines():
        print(f"{name:<8} {machine_title(name)}")
    return codes.SOLVED


def show(arguments: Namespace) -> int:
    """Every figure of a machine with its source."""
    from twill.machine.file import load_machine
    from twill.show.console import standard_output
    from twill.show.machine import machine_tables

    machine = load_machine(arguments.machine)
    console = standard_output()
    for table in machine_tables(machine):
        console.print(table)
    return codes.SOLVED


def check(arguments: Namespace) -> int:
    """Validate a machine file; silent about what is right but for one line."""
    from twill.machine.file import check_machine

    machine = check_machine(arguments.file)
    print(f"{arguments.file}: {machine.name} ({machine.title}) is a valid machine file")
    return codes.SOLVED
