"""`twill jobs list | cancel | retry`: the jobs of a service."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from twill.cli import codes
from twill.cli.columns import columns
from twill.exc.foreign import one_line

if TYPE_CHECKING:
    from twill.store.api import Job
    from twill.store.client import Client

HEADING = ("job", "state", "kernel", "spec", "machine", "created", "problem")


def asking(arguments: Namespace) -> closing[Client]:
    """The service of --server or TWILL_SERVER, with the token of TWILL_TOKEN. Raises BadServerAddress."""
    from twill.exc import BadServerAddress
    from twill.store.client import Client
    from twill.store.location import SERVER, TOKEN

    address = arguments.server or os.environ.get(SERVER, "")
    if not address:
        raise BadServerAddress("", f"--server URL, or {SERVER}")
    return closing(Client(address, os.environ.get(TOKEN, "")))


def ls(arguments: Namespace) -> int:
    """One line a job, newest first."""
    from twill.store.api import JobList

    with asking(arguments) as client:
        found = client.jobs(arguments.state, arguments.limit)
    if arguments.json:
        print(JobList(jobs=found).canonical())
        return codes.SOLVED
    for line in table(found):
        print(line)
    return codes.SOLVED


def table(found: Sequence[Job]) -> Iterator[str]:
    """Lines of equal columns, under a heading."""
    return columns([HEADING, *map(row, found)] if found else ())


def row(job: Job) -> tuple[str, ...]:
    """What a list has of a job."""
    problem = "" if job.problem is None else f"{job.problem.kind}: {job.problem.message}"
    cells = (job.id, job.state, job.kernel, job.spec, job.machine, job.created[:19], problem)
    return tuple(one_line(cell) for cell in cells)


def cancel(arguments: Namespace) -> int:
    """Ask for the end of jobs."""
    with asking(arguments) as client:
        for name in arguments.jobs:
            say(name, client.cancel(name))
    return codes.SOLVED


def retry(arguments: Namespace) -> int:
    """Submit again what failed or was cancelled."""
    with asking(arguments) as client:
        for name in arguments.jobs:
            say(name, client.retry(name))
    return codes.SOLVED


def say(name: str, job: Job) -> None:
    """What became of the job that was named."""
    now = one_line(f"{job.state}, as job {job.id}" if job.id != name else job.state)
    print(f"{one_line(name)}: {now}")
