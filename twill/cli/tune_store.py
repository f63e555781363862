"""What `twill tune` found out, in the store: `twill emit --tuned` takes it from there."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twill.codegen.emission import Extracted
    from twill.graph.dependence import DependenceGraph
    from twill.machine.description import Machine
    from twill.schedule.document import Schedule
    from twill.schedule.options import SolveOptions
    from twill.tune.evidence import Tuning


def keep(
    tuning: Tuning,
    graph: DependenceGraph,
    default: Schedule,
    machine: Machine,
    options: SolveOptions,
    arguments: Namespace,
) -> None:
    """Into the store, beside the default's schedule, if it was measured."""
    from twill.cli import store_lookup
    from twill.tune.evidence import ARTIFACT

    if tuning.gain is None:
        return
    with store_lookup.opened(arguments) as store:
        if store is not None:
            store_lookup.keep(store, default, graph, machine, options, store_lookup.say)
            store.put_artifact(tuning_key(graph, machine, arguments), ARTIFACT, tuning.canonical().encode())


def tuning_key(graph: DependenceGraph, machine: Machine, arguments: Namespace) -> str:
    """That of the schedule that is emitted if nothing else is asked for."""
    from twill.cli.solve import options_of
    from twill.schedule.key import schedule_key

    return schedule_key(graph, machine.digest(), options_of(arguments).unfused().asked)


def found(kernel: Extracted, machine: Machine, arguments: Namespace) -> Tuning:
    """The tuning that the store has of this kernel. Errors: NotTuned."""
    from pydantic import ValidationError

    from twill import exc
    from twill.cli import store_lookup
    from twill.tune.evidence import ARTIFACT, Tuning

    graph = kernel.graph
    with store_lookup.opened(arguments) as store:
        data = store.get_artifact(tuning_key(graph, machine, arguments), ARTIFACT) if store is not None else None
    try:
        if data is not None:
            return Tuning.parse(data)
    except ValidationError:
        pass  # of another version
    raise exc.NotTuned(graph.kernel, graph.spec, machine.name, file=graph.file)
