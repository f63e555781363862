"""A solve at a service: submit, follow, fetch, check."""

from __future__ import annotations

from collections.abc import Callable

from twill import exc
from twill.exc import JobFailed, ServiceUnavailable
from twill.graph.dependence import DependenceGraph
from twill.machine.description import Machine
from twill.schedule.key import schedule_key
from twill.store.api import ENDED, Job, SolveRequest
from twill.store.http import HttpStore
from twill.store.interface import Entry

LONGEST = 86_400.0  # seconds to wait for a job without a budget
LIMITS = {"TimeLimit": 4, "MemoryLimit": 4}  # a service's, beyond which nothing is known of the kernel
SPARE = 600.0  # seconds that a job may wait in the queue, beyond its budget


def exit_code_of(kind: str) -> int:
    """The exit code of a problem of that kind, as if it had been met here: a service decides none."""
    known = getattr(exc, kind, None)
    if isinstance(known, type) and issubclass(known, exc.TwillError):
        return known.exit_code
    return LIMITS.get(kind, JobFailed.exit_code)


def solve_at(
    http: HttpStore,
    graph: DependenceGraph,
    machine: Machine,
    options: SolveRequest,
    notify: Callable[[Job], None] = lambda job: None,
) -> Entry:
    """The checked entry of a solve that the service did; an interrupted wait leaves the job to others.

    Raises JobFailed with the service's reason, ServiceUnavailable, ServiceRefused.
    """
    client = http.client
    http.know(machine)
    key = schedule_key(graph, machine.digest(), options.asked)
    job = client.submit(graph, machine, options)
    if job.key != key:
        raise ServiceUnavailable(client.address, "it computes other keys: it is of another version of Twill")
    notify(job)
    if job.state not in ENDED:
        for seen in client.events(job.id, SPARE + (options.budget or LONGEST)):
            notify(seen)
            job = seen
    if job.state == "failed" and job.problem is not None:
        problem = job.problem
        raise JobFailed(client.address, problem.kind, problem.message, problem.hint, exit_code_of(problem.kind))
    if job.state != "done":
        raise JobFailed(client.address, job.state, f"the job was {job.state}")
    found = http.get(key)
    if found is None:
        raise ServiceUnavailable(
            client.address, "it solved the kernel, but its schedule cannot be used (the reason is above)"
        )
    return found[0]
