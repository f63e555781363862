"""How `twill solve` uses the store: look up before, keep after, and say plainly where an answer came from."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from typing import TYPE_CHECKING

from twill.cli.complaint import complain

if TYPE_CHECKING:
    from twill.graph.dependence import DependenceGraph
    from twill.machine.description import Machine
    from twill.schedule.document import Schedule
    from twill.solve.pipeline import SolveOptions
    from twill.store.api import Job, SolveRequest
    from twill.store.http import HttpStore
    from twill.store.layered import LayeredStore

Say = Callable[[str], None]


def opened(arguments: Namespace) -> AbstractContextManager[LayeredStore | None]:
    """The store that the arguments ask for, closed at the end; None for no store at all."""
    if arguments.no_store:
        return nullcontext()
    from twill.store.location import open_store

    store = open_store(arguments.store, arguments.server, budget=None)
    return nullcontext() if store.sqlite is None and store.http is None else closing(store)


def answer(
    store: LayeredStore | None, graph: DependenceGraph, machine: Machine, options: SolveOptions, say: Say
) -> Schedule | None:
    """The schedule of this kernel without solving it here, if the store has it or a service solves it."""
    if store is None or not storable(options):
        return None
    schedule = stored(store, graph, machine, options, say)
    if schedule is not None or store.http is None:
        return schedule
    return solved_elsewhere(store, store.http, graph, machine, options, say)


def stored(
    store: LayeredStore, graph: DependenceGraph, machine: Machine, options: SolveOptions, say: Say
) -> Schedule | None:
    """The schedule of this kernel, if the store or the service behind it has it."""
    from twill.schedule.key import schedule_key
    from twill.store.respelling import spelled

    store.know(machine)
    key = schedule_key(graph, machine.digest(), options.asked)
    entry, place = store.here(key), "the store"
    if entry is None and store.http is not None:
        entry, place = store.get(key), f"the service {store.http.client.address}"
    if entry is None:
        return None
    schedule = spelled(entry, graph, machine)
    if schedule is None:
        say(f"{place} has key {key[:12]} for another spelling of this kernel; it is solved again")
        return None
    say(f"from {place}, solved at {entry.created[:19]}Z in {schedule.solve_seconds:.1f} s (--no-store solves again)")
    return schedule


def solved_elsewhere(
    store: LayeredStore,
    http: HttpStore,
    graph: DependenceGraph,
    machine: Machine,
    options: SolveOptions,
    say: Say,
) -> Schedule | None:
    """The schedule as the service solves it; None if it is not there."""
    from twill.exc import ServiceUnavailable
    from twill.store.remote import solve_at
    from twill.store.respelling import spelled

    try:
        entry = solve_at(http, graph, machine, request_of(options), Follower(say).report)
    except ServiceUnavailable as error:
        say(f"{error.message}; the kernel is solved here")
        return None
    store.keep(entry, machine)
    schedule = spelled(entry, graph, machine)
    if schedule is None:
        say(f"the service has key {entry.key[:12]} for another spelling of this kernel; it is solved here")
    else:
        say(f"solved by the service {http.client.address} in {schedule.solve_seconds:.1f} s")
    return schedule


def keep(
    store: LayeredStore | None,
    schedule: Schedule,
    graph: DependenceGraph,
    machine: Machine,
    options: SolveOptions,
    say: Say,
) -> None:
    """Store a schedule that is proven optimal; another answer could depend on the budget."""
    if store is None or not storable(options) or not all(loop.certificate.optimal for loop in schedule.loops):
        return
    from twill.exc import InvalidSchedule

    try:
        store.put(schedule, graph, asked=options.asked, machine=machine)
    except InvalidSchedule as error:
        say(error.message)


def storable(options: SolveOptions) -> bool:
    """Whether a key has one answer: that of a joint solve for the best I, by the solver that is always there."""
    return options.strategy == "joint" and options.ii is None and options.solver == "z3"


def request_of(options: SolveOptions) -> SolveRequest:
    """The options as they are sent."""
    from twill.store.api import SolveRequest

    return SolveRequest(**{name: getattr(options, name) for name in SolveRequest.model_fields})


class Follower:
    """Says on a terminal how far a job has come, every time that something is new."""

    def __init__(self, say: Say) -> None:
        self.say = say
        self.said = ""

    def report(self, job: Job) -> None:
        """A job as it is now."""
        bounds = job.bounds
        text = f"job {job.id}: {job.state}"
        if bounds is not None and job.state == "running":
            upper = "" if bounds.upper is None else f" <= {bounds.upper}"
            text += f", {bounds.lower} <= {'I' if bounds.phase == 'ii' else bounds.phase}{upper}"
        if sys.stderr.isatty() and text != self.said:
            self.say(text)
        self.said = text


def say(text: str) -> None:
    """A line for people, on the error stream: standard output is the answer's."""
    complain(f"twill: {text}")
