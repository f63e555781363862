"""Whether an entry is what it says: its hash, its key, its kernel, and every rule of docs/model.md.

`examine` is all of it, 20 ms for a loop of twenty instructions. `checker` is a hash of everything that it runs, so that
a store can keep a mark "this content passed this checker" and need not run it again for the same content.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from twill.graph.cost import cost
from twill.graph.dependence import DependenceGraph
from twill.machine.description import Machine
from twill.schedule.checker.check import check
from twill.schedule.document import Schedule
from twill.schedule.key import KeyOptions, schedule_key
from twill.store.interface import Entry
from twill.store.rescaled import same_graph

PACKAGE = Path(__file__).resolve().parent.parent
RUNS = (
    "document.py",
    "graph/*.py",
    "machine/*.py",
    "reach.py",
    "schedule/*.py",
    "schedule/checker/*.py",
    "store/[eir]*.py",
    "tile/trip.py",
)

ESCAPED = re.compile(r'\\[^"/]')  # how JSON writes a control character
LARGEST = 20_000  # of what `size` counts; a loop of twenty instructions has about two hundred


def examine(entry: Entry, machine: Machine, *, proof: bool = False) -> str:
    """What is wrong with an entry, in one sentence; "" if nothing is.

    machine: the one that the entry names. proof: an entry that does not bring its graph and what was
    asked is wrong, because nothing shows that it belongs to its key.
    """
    try:
        return next(faults(entry, machine, proof), "")
    except Exception as error:
        # Whoever wrote the entry chose every number in it; whatever that breaks here is a fault of the entry.
        return f"it cannot be checked: {' '.join(f'{type(error).__name__}: {error}'.split())[:200]}"


def faults(entry: Entry, machine: Machine, proof: bool) -> Iterator[str]:
    """What is wrong, the cheapest to find first."""
    schedule = entry.schedule
    for field in ("key", "kernel", "spec", "machine", "machine_digest"):
        if getattr(entry, field) != getattr(schedule, field):
            yield f"its {field} is {getattr(entry, field)!r}, that of its schedule {getattr(schedule, field)!r}"
    if schedule.digest() != entry.schedule_digest:
        yield "its schedule does not have the hash it was stored with"
    if machine.digest() != entry.machine_digest:
        yield f"it is for another edition of machine {entry.machine}"
    parts = size(entry)
    if parts > LARGEST:
        yield f"it has {parts} nodes, edges and ops, more than any kernel"
    if proof and not seen(entry.canonical()):
        yield "it has characters that cannot be seen"
    if entry.graph is not None and entry.asked is not None:
        yield from unbound(schedule, entry.graph, entry.asked, machine)
    elif proof:
        yield "it does not bring the graph and the options that its key is made of"
    broken = check(schedule, machine)
    if broken:
        more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
        yield f"its schedule breaks the rules: {broken[0].describe()}{more}"


def seen(text: str) -> bool:
    """Whether every character in the texts of a JSON document can be printed: a terminal or a log obeys others."""
    return text.isprintable() and ESCAPED.search(text.replace(r"\\", "")) is None


def size(entry: Entry) -> int:
    """How much there is to look at."""
    loops, regions = entry.schedule.loops, entry.graph.regions if entry.graph is not None else ()
    costed = sum(len(loop.graph.instructions) + len(loop.graph.edges) + len(loop.graph.values) for loop in loops)
    plain = sum(len(region.nodes) + len(region.edges) for region in regions)
    return costed + plain + len(entry.schedule.ops) + len(entry.graph.dims if entry.graph is not None else ())


def unbound(schedule: Schedule, graph: DependenceGraph, asked: KeyOptions, machine: Machine) -> Iterator[str]:
    """Where the schedule is not one of this graph under these options, whatever key it has written on it."""
    if schedule_key(graph, machine.digest(), asked) != schedule.key:
        yield "its key is not that of its graph, machine and options"
    units = None if schedule.normalization is None else schedule.normalization.bound
    wrong = {
        "strategy": schedule.strategy != asked.strategy,
        "normalization": units != asked.units,
        "pins": schedule.pins != asked.pins,
        "number of row blocks": asked.blocks not in (None, schedule.cooperation.blocks),
        "number of instances fused": not asked.fuse and schedule.cooperation.fuse > 1,
        "initiation interval": asked.ii not in (None, schedule.ii),
    }
    yield from (
        f"the {what} of its schedule is not the one that was asked for" for what, is_so in wrong.items() if is_so
    )
    regions = {region.id: region for region in graph.regions}
    loops = {region.id for region in graph.regions if region.kind == "loop" and region.nodes}
    scheduled = [loop.loop for loop in schedule.loops]
    if len(set(scheduled)) < len(scheduled) or not regions.keys() >= set(scheduled):
        yield "its schedule has other loops than its graph"
    if set(scheduled) != loops and (loops or len(scheduled) != 1):
        yield "its schedule has other loops than its graph"
    for loop in schedule.loops:
        exact = cost(graph, regions[loop.loop], machine, schedule.cooperation)
        if not same_graph(exact, loop.graph):
            yield f"the loop at line {loop.line} of its schedule is not that of its graph"


@cache
def checker() -> str:
    """A hash of the source of everything that `examine` runs."""
    digest = hashlib.sha256()
    for pattern in RUNS:
        for path in sorted(PACKAGE.glob(pattern)):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def mark(key: str, *contents: str) -> str:
    """What is kept beside content that passed: a hash of its key, its hashes and the checker."""
    return hashlib.sha256("\n".join((checker(), key, *contents)).encode()).hexdigest()
